"""Which pages may use a chat: what browsers are told (CORS), and what is refused.

Law of this room: a chat that names origins answers pages of those alone, and of this server's own; a page of another
origin is told what it is told where there is no chat. A chat that names none may be used from anywhere, by requests
that carry no cookie. What a browser is told is no guard: a request from a page that may not use the chat is refused
here as well.
"""

from __future__ import annotations

import typing as t

from flask import Flask, Response, g, request

from app.errors import ApiError
from app.store.errors import StoreFailed
from app.web.http import is_chat, services
from app.web.own_address import is_own

if t.TYPE_CHECKING:
    from app.store.chats import ChatRow


def _tell(response: Response) -> Response:
    """Say to the browser whether the page may read this answer, or make the request that it asks about."""
    if not is_chat(request.environ["PATH_INFO"]):
        return response
    headers, row = response.headers, _chat()
    headers.setdefault("Cache-Control", "no-store")  # what a visitor is answered is nobody else's
    if row is not None and not row.allowed_origins:
        headers["Access-Control-Allow-Origin"] = "*"
        return response
    del headers["Access-Control-Allow-Origin"]
    response.vary.add("Origin")
    origin = request.headers.get("Origin", "")
    if row is not None and origin.lower() in row.allowed_origins:
        headers["Access-Control-Allow-Origin"] = origin
        headers["Access-Control-Allow-Credentials"] = "true"
    return response


def check(row: ChatRow) -> None:
    """:raises ApiError: 403 ``origin_not_allowed``: the page that sends this request may not use the chat."""
    origin = request.headers.get("Origin")
    if origin is None or not row.allowed_origins or origin.lower() in row.allowed_origins or _is_own(origin):
        return
    raise ApiError(403, "origin_not_allowed", "Pages of this origin may not use this chat.")


def _is_own(origin: str) -> bool:
    """Whether a page of this server sends the request."""
    if request.headers.get("Sec-Fetch-Site") == "same-origin":  # no script can set it
        return True
    return is_own(origin)


def _chat() -> ChatRow | None:
    """The chat of this request's path."""
    if "chat" in g:
        return t.cast("ChatRow | None", g.chat)
    slug = request.environ["PATH_INFO"].split("/")[3]
    try:
        return services().store.chats.by_slug(slug)
    except StoreFailed:
        return None  # the answer says that already


def install(app: Flask) -> None:
    """Let answers of ``app`` to pages elsewhere say what they may do.

    Before what says to all answers of the API that any page may read them: what is to come last is installed first.
    """
    app.after_request(_tell)
