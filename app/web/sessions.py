"""The owner's session: a signed cookie that says when it ends and which password it was begun with.

Law of this room: nothing is stored of a session but that it was signed out. A session counts only for requests that our
own pages make: what another site makes a browser send is nobody's, whatever cookies go with it. To tell so costs one
signature, and no query while nothing in the store's catalog has changed.
"""

from __future__ import annotations

import secrets
import typing as t
from dataclasses import dataclass

from flask import Flask, Response, g, request

from app.errors import ApiError
from app.store.writer import Note
from app.web import cookies, csrf, signing
from app.web.errors import unauthorized
from app.web.http import is_api, services

_PURPOSE = "session"
_COOKIE = "studio_session"
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


#: What a request shows of a session: a live one that may do what it asks; no cookie, or one that another site made the
#: browser send; a cookie that is no live session; a change without the token, or from elsewhere; with a wrong token.
Standing = t.Literal["live", "none", "ended", "unproven", "wrong"]


class NotSignedIn(ApiError):
    """A page that only the owner sees was asked for by somebody else; who shows pages answers it with one."""


@dataclass(frozen=True, slots=True)
class Session:
    """A live session.

    :ivar id: random. :ivar until: when it ends by itself, in seconds since the epoch.
    """

    id: str
    until: int


def current() -> Session | None:
    """The live session this request's cookie is of, whether or not the request may use it.

    :raises StoreFailed: the database cannot be read.
    """
    if "session" not in g:
        g.session = _read(cookies.sent(_COOKIE))
    return t.cast("Session | None", g.session)


def counts(*, or_nobody: bool) -> bool:
    """Whether this request acts as the owner.

    :param or_nobody: a cookie without the token is nobody's and no error: who has none gets in here, too.
    :raises ApiError: 401 the session has ended, 403 ``csrf_required`` the request does not prove that it is ours.
    :raises StoreFailed: the database cannot be read.
    """
    found = standing()
    if found in ("live", "none") or (or_nobody and csrf.HEADER not in request.headers):
        return found == "live"
    raise _refused(found)


def require() -> None:
    """Let only the owner in.

    :raises ApiError: as :func:`counts`, and 401 for nobody; :class:`NotSignedIn` where a page was asked for.
    """
    found = standing()
    if found == "live":
        return
    refused = _refused(found)
    if not is_api(request.environ["PATH_INFO"]):
        raise NotSignedIn(refused.status, refused.code, refused.message)
    raise refused


def _refused(found: Standing) -> ApiError:
    if found == "ended":
        return unauthorized("Your session has ended. Sign in again at /login, or send a key in X-API-Key.")
    if found == "none":
        return unauthorized("Sign in at /login first: only the owner's session is taken here.")
    what = "is not of this session" if found == "wrong" else "is missing, or another site sent this request"
    cure = "Send what GET /api/session gives as csrfToken, from a page of this server; or send a key in X-API-Key."
    return ApiError(403, "csrf_required", f"The header {csrf.HEADER} {what}. {cure}")


def standing() -> Standing:
    """What this request shows of a session. Reads the body only of a page's form without the header.

    :raises StoreFailed: the database cannot be read.
    """
    if not cookies.sent(_COOKIE):
        return "none"
    is_safe = request.method in _SAFE
    if is_safe and not csrf.is_from_here():
        return "none"
    session = current()
    if session is None:
        return "ended"
    if not is_safe:
        token = csrf.sent_token()
        if token is None or not csrf.is_from_here():
            return "unproven"
        if not csrf.is_right(session.id, token):
            return "wrong"
    g.session_used = True
    return "live"


def begin(password_version: int) -> Session:
    """Sign the owner in: the answer of this request carries the cookie of a new session.

    :raises SecretsLocked: the keys of this installation are not here.
    """
    parts = services()
    age = round(parts.settings.session_s)
    session = Session(secrets.token_urlsafe(16), parts.clock.now_ms() // 1000 + age)
    g.session = session
    cookies.give(_COOKIE, signing.sign(_PURPOSE, [session.id, password_version, session.until]), age)
    return session


def end(note: Note) -> None:
    """Sign the session of this request out, every copy of its cookie; the answer takes the cookie away.

    :param note: for the audit log.
    :raises StoreFailed: it was not stored.
    """
    session = current()
    if session is not None:
        services().store.owner.end_session(session.id, session.until * 1000, note)
    g.session = None
    cookies.give(_COOKIE, "", 0)


def _read(text: str | None) -> Session | None:
    parts = services()
    found = signing.read(_PURPOSE, text, round(parts.settings.session_s))
    if found is None:
        return None
    id_, version, until = found
    g.generation = parts.store.generation()
    owner = parts.store.owner.get(g.generation)
    if owner is None or version != owner.password_version or id_ in owner.ended:
        return None
    return Session(id_, until) if parts.clock.now_ms() < until * 1000 else None


def _keep(response: Response) -> Response:
    if g.get("session_used"):
        headers = response.headers
        headers.setdefault("Cache-Control", "no-store")
        headers.setdefault("Cross-Origin-Resource-Policy", "same-origin")
        headers.add("Vary", "Cookie")
    return response


def install(app: Flask) -> None:
    """Keep what ``app`` answers to a session from all others."""
    app.after_request(_keep)
