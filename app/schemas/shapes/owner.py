"""What is answered about the workspace owner's session, and the forms of its pages.

Law of this room: see :mod:`app.schemas.shapes`.
"""

from __future__ import annotations

from typing import Annotated, NotRequired, TypedDict

from app.schemas.shapes.common import Instant

_Form = Annotated[
    str, {"doc": "What the form itself holds; with a cookie it shows that the form is one of ours."}
]


class SessionState(TypedDict):
    """Who is signed in."""

    signedIn: bool
    subject: NotRequired[Annotated[str, {"doc": "Who."}]]
    scopes: NotRequired[list[str]]
    expiresAt: NotRequired[Annotated[Instant, {"doc": "When the session ends by itself."}]]
    csrfToken: NotRequired[
        Annotated[
            str, {"doc": "Goes into the header `X-CSRF-Token` of every request that changes something."}
        ]
    ]


class SignInQuery(TypedDict):
    """Where to."""

    next: NotRequired[Annotated[str, {"doc": "A page of this server to go on to."}]]


class SignInForm(TypedDict):
    """What the sign-in page sends."""

    password: str
    next: NotRequired[str]
    csrf_token: _Form


class SetupForm(TypedDict):
    """What the page behind a setup link sends."""

    new: Annotated[str, {"doc": "At least 12 characters."}]
    again: str
    csrf_token: _Form


class AccountQuery(TypedDict):
    """What the page says."""

    changed: NotRequired[Annotated[str, {"doc": "The password has just been changed."}]]


class AccountForm(TypedDict):
    """What the account page sends."""

    current: str
    new: Annotated[str, {"doc": "At least 12 characters."}]
    again: str
    csrf_token: _Form


class SignOutForm(TypedDict):
    """What the button to sign out sends."""

    csrf_token: _Form
