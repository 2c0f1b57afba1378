"""How visitors get into a chat: by nothing, a password, a code by e-mail, or single sign-on.

Law of this room: who is not let in learns what the gate asks for and nothing else. A pass says by which gate and
under which version of it somebody got in; it is worth nothing once either has changed, or its time is over.
"""

from __future__ import annotations

import typing as t

from flask import Flask

from app.errors import ApiError, Problem
from app.web import mailer, password_gate, visitors
from app.web.http import services
from app.web.visitors import Visitor

if t.TYPE_CHECKING:
    from collections.abc import Mapping

    from app.config import Settings
    from app.store.chats import ChatRow

__all__ = ["Visitor", "enter", "install"]

_ASKED = {
    "password": "This chat asks for a password. Send it as password with POST /api/chat/{}",
    "email": "This chat asks for a code that is sent by e-mail. Ask for it: POST /api/chat/{}/otp",
    "sso": "This chat asks you to sign in. Open /api/chat/{}/sso in a browser",
}


def enter(chat: ChatRow, body: Mapping[str, t.Any] | None = None) -> Visitor:
    """Let the sender of this request into ``chat``; the answer tells his browser who he is.

    :param body: ``password``, where the request has one.
    :raises ApiError: 401 ``auth_required_password``, ``auth_required_email`` or ``auth_required_sso``; 429.
    """
    visitor = visitors.sent(chat)
    if chat.auth_type == "public":
        return visitor or visitors.keep(chat, visitors.new(chat))
    if visitor is not None and _is_in(chat, visitor):
        return visitor
    password = (body or {}).get("password")
    if chat.auth_type != "password" or not isinstance(password, str):
        raise refused(chat)
    if not password_gate.is_right(chat, password, visitor):
        raise refused(chat, "This password is wrong. ")
    return visitors.keep(chat, visitors.passed(chat, visitor or visitors.new(chat)))


def unready(auth_type: str, settings: Settings) -> list[Problem]:
    """What this installation lacks for chats with such a gate."""
    if auth_type == "email" and not mailer.is_set(settings):
        cure = "set STUDIO_SMTP_HOST, or STUDIO_MAIL=console for development"
        return [Problem("authType", f'"email" needs a way to send e-mails; {cure}')]
    if auth_type == "sso" and not _provider_is_set(settings):
        cure = "set STUDIO_OIDC_ISSUER and STUDIO_OIDC_CLIENT_ID"
        return [Problem("authType", f'"sso" needs an OpenID provider; {cure}')]
    return []


def provider_is_set() -> bool:
    """Whether there is an OpenID provider to sign in with."""
    return _provider_is_set(services().settings)


def _provider_is_set(settings: Settings) -> bool:
    return bool(settings.oidc_issuer and settings.oidc_client_id)


def ends_at_ms(visitor: Visitor) -> int:
    """When what he has shown is worth nothing any more; 0: he has shown nothing."""
    shown = visitor.passed
    return 0 if shown is None else round((shown.since + services().settings.chat_pass_s) * 1000)


def _is_in(chat: ChatRow, visitor: Visitor) -> bool:
    """Whether what he has shown is still worth something."""
    shown = visitor.passed
    if shown is None or shown.mode != chat.auth_type or shown.version != chat.password_version:
        return False
    return services().clock.now_ms() < ends_at_ms(visitor)


def refused(chat: ChatRow, why: str = "") -> ApiError:
    """401 that names the gate."""
    message = _ASKED[chat.auth_type].format(chat.slug)
    return ApiError(401, f"auth_required_{chat.auth_type}", f"{why}{message}")


def install(app: Flask) -> None:
    """Put the gates' own routes on ``app``, and let its answers carry visitors' tokens."""
    from app.web import chat_session, email_gate, sso_gate

    visitors.install(app)
    chat_session.install(app)
    email_gate.install(app)
    sso_gate.install(app)
