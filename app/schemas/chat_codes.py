"""Bodies of the gates of chats: ``/api/chat/{slug}/session`` with a password, ``/api/chat/{slug}/otp`` with an address
that wants a code, or has one (contract section 8).

Law of this room: strict, as for all bodies. An address is one spelling afterwards: lower case, as it is compared and as
mail is sent to it.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t
from collections.abc import Mapping
from dataclasses import dataclass

from app.errors import Problem, ValidationFailed
from app.schemas import derive
from app.schemas.paths import in_document_order

#: What browsers take for an address (HTML, 4.10.5.1.5), with a dot in the domain.
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_ADDRESS = re.compile(rf"[a-z0-9.!#$%&'*+/=?^_`{{|}}~-]{{1,64}}@{_LABEL}(?:\.{_LABEL})+")
_MOST = 254
_CODE = re.compile(r"[0-9]{6}")


@dataclass(frozen=True, slots=True)
class PasswordShown:
    """Who wants to get in."""

    password: str | None = dataclasses.field(
        default=None, metadata={"doc": "Of a chat that asks for one.", "most": 4096}
    )


@dataclass(frozen=True, slots=True)
class CodeWanted:
    """Who wants a code."""

    email: str = dataclasses.field(metadata={"doc": "The address that the code goes to.", "most": 320})


@dataclass(frozen=True, slots=True)
class CodeGiven:
    """Who has one."""

    email: str = dataclasses.field(metadata={"doc": "The address that the code went to.", "most": 320})
    otp: str = dataclasses.field(metadata={"doc": "The six digits of the e-mail.", "most": 20})


def load_password(body: Mapping[str, t.Any]) -> PasswordShown:
    """:raises ValidationFailed: 400 with every problem."""
    parsed, problems = derive.load(PasswordShown, body)
    if parsed is None:
        raise ValidationFailed(in_document_order(body, problems))
    return parsed


def load_wanted(body: Mapping[str, t.Any]) -> CodeWanted:
    """:raises ValidationFailed: 400 with every problem."""
    parsed, problems = derive.load(CodeWanted, body)
    email = "" if parsed is None else _address(parsed.email, problems)
    if parsed is None or problems:
        raise ValidationFailed(in_document_order(body, problems))
    return CodeWanted(email)


def load_given(body: Mapping[str, t.Any]) -> CodeGiven:
    """:raises ValidationFailed: 400 with every problem."""
    parsed, problems = derive.load(CodeGiven, body)
    email = code = ""
    if parsed is not None:
        email = _address(parsed.email, problems)
        code = re.sub(r"[\s-]", "", parsed.otp)
        if not _CODE.fullmatch(code):
            problems.append(Problem("otp", "must be the six digits of the e-mail"))
    if parsed is None or problems:
        raise ValidationFailed(in_document_order(body, problems))
    return CodeGiven(email, code)


def _address(text: str, problems: list[Problem]) -> str:
    email = text.strip().lower()
    if len(email) > _MOST or not _ADDRESS.fullmatch(email):
        problems.append(Problem("email", "must be an e-mail address, such as ada@example.org"))
    return email
