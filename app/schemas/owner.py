"""Bodies of the requests by which the workspace owner signs in and changes the password.

The law of :mod:`app.schemas.requests` is theirs too; a password is in no representation of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SignInBody:
    """Body of ``POST /api/session``."""

    password: str = field(metadata={"doc": "The owner's password."}, repr=False)


@dataclass(frozen=True, slots=True)
class PasswordBody:
    """Body of ``PUT /api/owner/password``."""

    current: str = field(metadata={"doc": "The password as it is."}, repr=False)
    new: str = field(metadata={"doc": "The password from now on: at least 12 characters."}, repr=False)
