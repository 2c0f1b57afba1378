"""``/chat/{slug}``: the page of a chat, for browsers, by itself or in a frame of another page.

Law of this room: the page is the same for every chat and visitor, so it gives nothing away; its script asks for the
rest as any client does. No markup of a model or visitor is ever made: the policy allows no code but the files of this
server, and only pages of the chat's origins may frame it.
"""

from __future__ import annotations

import typing as t
from urllib.parse import urlsplit

from flask import Blueprint, Flask, Response, current_app, render_template

from app.errors import ApiError
from app.web.chat_config import door
from app.web.http import services

if t.TYPE_CHECKING:
    from app.store.chats import ChatRow


def show(slug: str) -> Response:
    """The page; one that says so where there is no chat, or none that answers."""
    try:
        row = door(current_app).find(slug).row
    except ApiError as error:
        html = render_template("chat_sign_in.html", title="Chat", message=error.message, slug=None, up="../")
        response = Response(html, error.status, content_type="text/html; charset=utf-8")
        response.headers.update(_headers(None))
        return response
    html = render_template("chat.html", slug=row.slug, up="../")
    response = Response(html, content_type="text/html; charset=utf-8")
    response.headers.update(_headers(row))
    return response


def _headers(row: ChatRow | None) -> dict[str, str]:
    policy = (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        f"img-src 'self' data:{_pictures(row)}",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        f"frame-ancestors {_framed_by(row)}",
    )
    return {
        "Content-Security-Policy": "; ".join(policy),
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=()",
        "Cache-Control": "no-cache",
    }


def _framed_by(row: ChatRow | None) -> str:
    """Which pages may show it in a frame: those of its origins; of a chat that names none, any."""
    if row is None:
        return "'none'"
    if not row.allowed_origins:
        return "*"
    public = services().settings.public_url
    own = [f"{urlsplit(public).scheme}://{urlsplit(public).netloc}"] if public else []
    return " ".join(["'self'", *own, *row.allowed_origins])


def _pictures(row: ChatRow | None) -> str:
    """The origins of the pictures that the chat's owner has named."""
    look = {} if row is None else row.customization or {}
    named = (look.get(name) for name in ("logoUrl", "imageUrl"))
    found = {f"https://{urlsplit(url).netloc}" for url in named if url and url.startswith("https://")}
    return "".join(f" {origin}" for origin in sorted(found))


def install(app: Flask) -> None:
    """Put the route on ``app``."""
    blueprint = Blueprint("chat_page", __name__)
    blueprint.add_url_rule("/chat/<slug>", "show", show)
    app.register_blueprint(blueprint)
