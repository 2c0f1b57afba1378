"""The workspace owner: sessions, the password, and their pages.

Law of this room: see :mod:`app.schemas.openapi.routes`.
"""

from __future__ import annotations

from app.schemas.openapi.operation import FORM, HTML, Answer, Operation
from app.schemas.owner import PasswordBody, SignInBody
from app.schemas.shapes.owner import (
    AccountForm,
    AccountQuery,
    SessionState,
    SetupForm,
    SignInForm,
    SignInQuery,
    SignOutForm,
)

_PAGE = "signing-in.md"
_SHOWN = Answer(says="The page.", media=(HTML,), headers=("Content-Security-Policy", "Cache-Control"))
_AWAY = Answer(says="Onward.", headers=("Location",))
_TRIES = {429: ("rate_limited",), 503: ("at_capacity", "secrets_locked")}

ROUTES = (
    Operation(
        route="GET /api/session",
        id="getSession",
        does="Ask who is signed in",
        tag="Owner",
        page=_PAGE,
        answers={200: Answer(says="Who, and the token that changes have to bring.", shape=SessionState)},
        errors={503: ("secrets_locked",)},
    ),
    Operation(
        route="POST /api/session",
        id="signIn",
        does="Sign in",
        tag="Owner",
        page=_PAGE,
        who="the owner's password",
        says="The answer sets the cookie of the session.",
        body=SignInBody,
        answers={200: Answer(says="Who is signed in now.", shape=SessionState)},
        errors={401: ("wrong_password",), 403: ("csrf_required",), **_TRIES},
    ),
    Operation(
        route="DELETE /api/session",
        id="signOut",
        does="Sign out",
        tag="Owner",
        page=_PAGE,
        answers={204: Answer(says="The session has ended, every copy of its cookie with it.")},
    ),
    Operation(
        route="PUT /api/owner/password",
        id="changePassword",
        does="Change the owner's password",
        tag="Owner",
        page=_PAGE,
        who="the owner's session, or a key with `admin`",
        says="Every session ends; that of the caller goes on as a new one.",
        body=PasswordBody,
        answers={
            200: Answer(says="The session of the caller, begun anew.", shape=SessionState),
            204: Answer(says="It is changed; the caller had a key."),
        },
        errors={403: ("wrong_password",), **_TRIES},
    ),
    Operation(
        route="GET /login",
        id="showLogin",
        does="Show the form to sign in",
        tag="Pages",
        page=_PAGE,
        query=SignInQuery,
        answers={200: _SHOWN, 303: _AWAY},
        errors={503: ()},
        page_errors=(503,),
    ),
    Operation(
        route="POST /login",
        id="login",
        does="Sign in on a page",
        tag="Pages",
        page=_PAGE,
        who="the owner's password",
        body=SignInForm,
        body_media=FORM,
        answers={303: _AWAY},
        errors={401: (), 403: (), 413: ("payload_too_large",), 429: (), 503: ()},
        page_errors=(401, 403, 429, 503),
    ),
    Operation(
        route="GET /setup/<token>",
        id="showSetup",
        does="Show the form that sets the owner's password",
        tag="Pages",
        page=_PAGE,
        who="the link",
        answers={200: _SHOWN},
        errors={404: (), 503: ()},
        page_errors=(404, 503),
    ),
    Operation(
        route="POST /setup/<token>",
        id="setup",
        does="Set the owner's password by a link, and sign in",
        tag="Pages",
        page=_PAGE,
        who="the link",
        body=SetupForm,
        body_media=FORM,
        answers={303: _AWAY},
        errors={400: (), 403: (), 404: (), 413: ("payload_too_large",), 503: ()},
        page_errors=(400, 403, 404, 503),
    ),
    Operation(
        route="GET /account",
        id="showAccount",
        does="Show who is signed in",
        tag="Pages",
        page=_PAGE,
        query=AccountQuery,
        answers={200: _SHOWN, 303: Answer(says="To the form to sign in.", headers=("Location",))},
    ),
    Operation(
        route="POST /account",
        id="changeAccount",
        does="Change the password on a page",
        tag="Pages",
        page=_PAGE,
        body=AccountForm,
        body_media=FORM,
        answers={303: _AWAY},
        errors={400: (), 403: (), 413: ("payload_too_large",), 429: (), 503: ()},
        page_errors=(400, 403, 429, 503),
    ),
    Operation(
        route="POST /logout",
        id="logout",
        does="Sign out on a page",
        tag="Pages",
        page=_PAGE,
        body=SignOutForm,
        body_media=FORM,
        answers={303: _AWAY},
        errors={403: (), 413: ("payload_too_large",)},
        page_errors=(403,),
    ),
)
