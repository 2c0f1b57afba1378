"""Who a visitor of a chat is: a random id, and what he has shown at the chat's gate, in one token that we sign.

Law of this room: nothing is kept here of a visitor; his browser keeps the token, as an http-only cookie of this chat
or, where cookies are blocked, in whatever sends it back as ``X-Studio-Visitor``. A request that has the header is
answered in the header and by no cookie, so no script of a page that uses cookies ever sees a token. A token is worth
something for the chat it was made for only.
"""

from __future__ import annotations

import secrets
import typing as t
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from flask import Flask, Response, g, request

from app.web import cookies, signing
from app.web.digests import digest
from app.web.http import services
from app.web.own_address import own_address

if t.TYPE_CHECKING:
    from app.store.chats import ChatRow

#: The header for those whose cookies are blocked.
HEADER = "X-Studio-Visitor"
#: How long a browser that does not come back is known.
KNOWN_S = 400 * 86400
#: A token older than this is signed anew when it is used.
_RENEWED_S = 86400
_PURPOSE = "visitor"


@dataclass(frozen=True, slots=True)
class Pass:
    """What was shown at the gate.

    :ivar mode: the gate's. :ivar version: the chat's ``password_version`` then.
    :ivar since: when, in seconds since the epoch. :ivar email: whose, where the gate asked for it.
    """

    mode: str
    version: int
    since: int
    email: str | None = None


@dataclass(frozen=True, slots=True)
class Visitor:
    """Somebody in a chat. :ivar id: unique in the chat."""

    chat_id: str
    id: str
    passed: Pass | None = None

    @property
    def subject(self) -> str:
        """Who owns the visitor's runs and threads."""
        return f"chat:{self.chat_id}:{self.id}"

    @property
    def email(self) -> str | None:
        """The address he got in with."""
        return None if self.passed is None else self.passed.email


def new(chat: ChatRow) -> Visitor:
    """Somebody who was never here."""
    return Visitor(chat.id, secrets.token_hex(12))


def named(chat: ChatRow, kind: str, name: str) -> Visitor:
    """Somebody who has a name, the same on every device; two names are never one visitor, whose browser it ever was.

    :param kind: of the name, such as ``email``.
    """
    return Visitor(chat.id, digest("visitor", chat.id, kind, name).hex()[:24])


def sent(chat: ChatRow) -> Visitor | None:
    """Who this request says it is from; None: it has no token of this chat."""
    g.visitor_asked = True
    text = _sent_token(chat)
    visitor = _read(chat.id, text, KNOWN_S)
    if visitor is not None and _read(chat.id, text, _RENEWED_S) is None:
        keep(chat, visitor)
    return visitor


def is_known(chat: ChatRow) -> bool:
    """Whether this request says who it is from, so that another one can say the same."""
    return _read(chat.id, _sent_token(chat), KNOWN_S) is not None


def keep(chat: ChatRow, visitor: Visitor) -> Visitor:
    """Let the answer of this request tell the browser who it is."""
    g.visitor = chat, visitor
    return visitor


def forget(chat: ChatRow) -> None:
    """Let the answer take the token away."""
    g.visitor = chat, None


def passed(chat: ChatRow, visitor: Visitor, email: str | None = None) -> Visitor:
    """``visitor`` with what he has just shown at the gate."""
    since = services().clock.now_ms() // 1000
    return replace(visitor, passed=Pass(chat.auth_type, chat.password_version, since, email))


# -- the token -----------------------------------------------------------------------------------------


def _sent_token(chat: ChatRow) -> str | None:
    return request.headers.get(HEADER) if _by_header() else cookies.sent(_cookie(chat.id))


def _token(visitor: Visitor) -> str:
    shown = visitor.passed
    more = () if shown is None else (shown.mode, shown.version, shown.since, shown.email)
    return signing.sign(_PURPOSE, [visitor.chat_id, visitor.id, *more])


def _read(chat_id: str, text: str | None, max_age_s: int) -> Visitor | None:
    found = signing.read(_PURPOSE, text, max_age_s)
    if found is None or found[0] != chat_id:
        return None
    return Visitor(chat_id, found[1], Pass(*found[2:]) if found[2:] else None)


# -- the answer ----------------------------------------------------------------------------------------


def _by_header() -> bool:
    return HEADER in request.headers


def _cookie(chat_id: str) -> str:
    return f"studio_{chat_id}"


def _tell(response: Response) -> Response:
    chat, visitor = g.get("visitor") or (None, None)
    if chat is not None or g.get("visitor_asked"):
        response.headers.setdefault("Cache-Control", "no-store")  # it is for this visitor
    if chat is None:
        return response
    if _by_header():
        response.headers[HEADER] = "" if visitor is None else _token(visitor)
        return response
    text, age = ("", 0) if visitor is None else (_token(visitor), KNOWN_S)
    cookies.put(response, _cookie(chat.id), text, age, framed=_is_framed(chat))
    return response


def _is_framed(chat: ChatRow) -> bool:
    """Whether pages of other origins may show the chat in a frame."""
    own = urlsplit(own_address())
    return not chat.allowed_origins or any(
        (urlsplit(origin).scheme, urlsplit(origin).netloc) != (own.scheme, own.netloc)
        for origin in chat.allowed_origins
    )


def install(app: Flask) -> None:
    """Let answers of ``app`` carry tokens."""
    app.after_request(_tell)
