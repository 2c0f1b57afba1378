"""``/api/chat/{slug}/session``: get in without saying anything yet, and leave.

Law of this room: leaving takes nothing to do so, and needs no chat that answers: the browser forgets who it was.
"""

from __future__ import annotations

from flask import Blueprint, Flask, Response, current_app, g

from app.clock import rfc3339
from app.errors import ApiError
from app.schemas.chat_codes import load_password
from app.web import chat_gates, chat_origins, visitors
from app.web.chat_config import door
from app.web.http import MAX_ENTRANCE, json_response, read_nothing, read_object, services


def begin(slug: str) -> Response:
    """Get in."""
    entrance = door(current_app)
    chat = entrance.find(slug)
    body = load_password(read_object(MAX_ENTRANCE))
    visitor = entrance.let_in(chat, {"password": body.password})
    ends = chat_gates.ends_at_ms(visitor)
    return json_response({"authType": chat.row.auth_type, **({"expiresAt": rfc3339(ends)} if ends else {})})


def end(slug: str) -> Response:
    """Leave: 204."""
    g.chat = chat = services().store.chats.by_slug(slug)
    if chat is None:
        raise ApiError(404, "not_found", "There is no chat at this address. Check it.")
    chat_origins.check(chat)
    read_nothing()
    visitors.forget(chat)
    return Response(status=204)


def install(app: Flask) -> None:
    """Put the routes on ``app``."""
    blueprint = Blueprint("chat_session", __name__)
    blueprint.add_url_rule("/api/chat/<slug>/session", "begin", begin, methods=["POST"])
    blueprint.add_url_rule("/api/chat/<slug>/session", "end", end, methods=["DELETE"])
    app.register_blueprint(blueprint)
