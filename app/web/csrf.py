"""That a change was asked for by a page of ours, and not by a page elsewhere that a browser shows.

Law of this room: two checks, and both have to pass: a token that only our pages can read, and what the browser itself
says of where the request was made. The token of a session is bound to it; forms that come before a session have one
that is bound to a cookie. All tokens are signed and compared in constant time.
"""

from __future__ import annotations

import hmac
import secrets
import typing as t

from flask import g, request

from app.web import cookies, signing
from app.web.http import MAX_ENTRANCE, is_api, read_form, services
from app.web.own_address import is_own

#: The header that carries the token of a session, and the field of a form that does.
HEADER = "X-CSRF-Token"
FIELD = "csrf_token"
#: Seconds a form without a session can stay open.
FORM_S = 12 * 3600

_SESSION, _FORM = "csrf", "form"
_COOKIE = "studio_form"


def token(session_id: str) -> str:
    """What changes in this session have to bring.

    :raises SecretsLocked: the keys of this installation are not here (so for all that follows).
    """
    return signing.sign(_SESSION, session_id)


def sent_token() -> str | None:
    """What this request brings: the header, or on a page the field of its form; None: neither."""
    header = request.headers.get(HEADER)
    if header is not None or is_api(request.environ["PATH_INFO"]):
        return header
    return form().get(FIELD)


def is_right(session_id: str, sent: str) -> bool:
    """Whether ``sent`` is a token of this session."""
    return _is(session_id, signing.read(_SESSION, sent, round(services().settings.session_s)))


def form() -> t.Mapping[str, str]:
    """The fields of the form that was sent; the same when it is asked for again."""
    fields: t.Mapping[str, str] | None = g.get("form")
    if fields is None:
        fields = g.form = read_form(MAX_ENTRANCE)
    return fields


def is_from_here() -> bool:
    """Whether the browser, if it says so, made this request for a page of ours, or to open a page.

    ``Sec-Fetch-Site`` cannot be set by scripts; browsers send it over TLS and to this computer. Else ``Origin``
    decides, which goes with every change. Programs that are no browser send neither.
    """
    site = request.headers.get("Sec-Fetch-Site")
    if site in ("same-origin", "none"):
        return True
    if site is not None:
        return request.method in ("GET", "HEAD") and request.headers.get("Sec-Fetch-Dest") == "document"
    origin = request.headers.get("Origin")
    return origin is None or is_own(origin)


# -- forms without a session ---------------------------------------------------------------------------


def form_token() -> str:
    """A token for a form of this answer, bound to a cookie that goes with it; other forms that are open stay good."""
    known = _nonce()
    if known is None:
        known = secrets.token_urlsafe(16)
        cookies.give(_COOKIE, signing.sign(_COOKIE, known), None)
    return signing.sign(_FORM, known)


def form_is_right() -> bool:
    """Whether the form that was sent is one of ours, shown to this browser a while ago."""
    known = _nonce()
    return known is not None and is_from_here() and _is(known, signing.read(_FORM, _field(), FORM_S))


def _field() -> str:
    return form().get(FIELD, "")


def _nonce() -> str | None:
    found = signing.read(_COOKIE, cookies.sent(_COOKIE), FORM_S)
    return found if isinstance(found, str) else None


def _is(known: str, read: t.Any) -> bool:
    return isinstance(read, str) and hmac.compare_digest(known.encode(), read.encode())
