"""The gate of single sign-on: ``/api/chat/{slug}/sso`` sends a browser to the OpenID provider, and the provider sends
it back to ``/api/chat/sso/callback``.

Law of this room: a browser comes back with what it left with, or is nobody: state, nonce and verifier are in a signed
cookie of ten minutes, used once. It goes on to the chat it came for and nowhere else. What went wrong is a page of our
words; what the provider said is on none, and no code or token is in the log.
"""

from __future__ import annotations

import hmac
import logging
import re
import secrets
import typing as t
from dataclasses import dataclass

from flask import Blueprint, Flask, Response, current_app, render_template, request

from app.engine.scope import RunScope
from app.errors import ApiError, ValidationFailed
from app.web import chat_gates, cookies, signing, tries, visitors
from app.web.chat_config import door
from app.web.email_gate import may_enter
from app.web.http import read_query, services
from app.web.limits import network
from app.web.oidc import Person, Provider, ProviderDown, SignInFailed
from app.web.own_address import own_address
from app.web.tries import Limit

if t.TYPE_CHECKING:
    from app.store.chats import ChatRow

log = logging.getLogger("studio.web")

CALLBACK = "/api/chat/sso/callback"
#: How long a browser may be away.
AWAY_S = 600
#: Returns from one address of the network, for one chat, in that time, that prove nobody.
RETURNS, PERIOD_S = 30, 15 * 60
_PURPOSE = "sso"
_STATE = re.compile(r"(chat_[0-9A-Za-z_]{1,60})\.[0-9A-Za-z_-]{32}")
_UP = "../../../"
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}

_AGAIN = "It took too long, or was begun in another browser or tab. Go back and sign in again."
_DOWN = "The service that signs people in cannot be reached at the moment. Try again later."
_NOT_PROVED = "The service that signs people in did not confirm who you are. Go back and sign in again."
_NOT_MEANT = "You are signed in, but this chat is not open to your address."


@dataclass(frozen=True, slots=True)
class _Leaving:
    """What a browser leaves with."""

    chat_id: str
    state: str
    nonce: str
    verifier: str


class _Stopped(Exception):
    """A sign-in that came to nothing, in words for a visitor."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


def leave(slug: str) -> Response:
    """Send the browser to the provider."""
    _, problems = read_query()
    chat = door(current_app).find(slug).row
    if problems:
        raise ValidationFailed(problems)
    if chat.auth_type != "sso":
        raise ApiError(400, "not_supported", f"The chat '{slug}' asks nobody to sign in.")
    if not chat_gates.provider_is_set():
        raise ApiError(503, "gate_unavailable", "Nobody can sign in to this chat now. Tell whoever runs it.")
    left = _Leaving(
        chat.id,
        f"{chat.id}.{secrets.token_urlsafe(24)}",
        secrets.token_urlsafe(24),
        secrets.token_urlsafe(48),
    )
    try:
        where = _provider().begin(_callback(), left.state, left.nonce, left.verifier)
    except ProviderDown as down:
        log.error("the OpenID provider cannot be used: %s", down)
        return _page(chat, 502, _DOWN)
    kept = [left.chat_id, left.state, left.nonce, left.verifier]
    cookies.give(_cookie(chat.id), signing.sign(_PURPOSE, kept), AWAY_S)
    return _go(where)


def come_back() -> Response:
    """Take in a browser that the provider sends back."""
    chat: ChatRow | None = None
    try:
        left = _left()
        chat = _chat(left)
        person = _person(left)
        if chat.allowed_emails and (person.email is None or not may_enter(chat, person.email)):
            raise _Stopped(403, _NOT_MEANT)
    except _Stopped as stopped:
        return _page(chat, stopped.status, stopped.message)
    who = visitors.named(chat, "sso", f"{person.issuer} {person.subject}")
    visitors.keep(chat, visitors.passed(chat, who, person.email))
    return _go(f"{_UP}chat/{chat.slug}")


# -- parts ---------------------------------------------------------------------------------------------


def _left() -> _Leaving:
    """What this browser left with; it does not come back twice.

    :raises _Stopped: it did not leave from here, not lately, or with something else.
    """
    state = request.args.get("state", "")
    named = _STATE.fullmatch(state)
    if named is None:
        raise _Stopped(401, _AGAIN)
    kept = signing.read(_PURPOSE, cookies.sent(_cookie(named[1])), AWAY_S)
    if kept is None or not hmac.compare_digest(kept[1], state):
        raise _Stopped(401, _AGAIN)
    cookies.give(_cookie(named[1]), "", 0)
    return _Leaving(*kept)


def _chat(left: _Leaving) -> ChatRow:
    chat = services().store.chats.get(left.chat_id)
    if chat is None or not chat.active or chat.auth_type != "sso" or not chat_gates.provider_is_set():
        raise _Stopped(403, "This chat is not open any more, or asks for something else now.")
    return chat


def _person(left: _Leaving) -> Person:
    """:raises _Stopped: nobody is proved."""
    said = request.args
    if said.get("iss", services().settings.oidc_issuer) != services().settings.oidc_issuer:  # RFC 9207
        raise _Stopped(401, _NOT_PROVED)
    if not said.get("code"):
        log.info(
            "a sign-in was not completed: %s", re.sub(r"[^a-z_]", "", said.get("error", ""))[:40] or "no code"
        )
        raise _Stopped(401, _NOT_PROVED)
    limits = (Limit(f"sso:{left.chat_id}:{network()}", RETURNS, PERIOD_S, "sign-ins"),)
    try:
        taken = tries.take(limits)
    except ApiError as refused:
        raise _Stopped(429, refused.message) from None
    try:
        person = _provider().finish(said["code"], _callback(), left.nonce, left.verifier)
    except SignInFailed as failed:
        log.warning("a sign-in failed: %s", failed)
        raise _Stopped(401, _NOT_PROVED) from None
    except ProviderDown as down:
        log.error("the OpenID provider cannot be used: %s", down)
        raise _Stopped(502, _DOWN) from None
    tries.give_back(taken)  # many people come from the one address of their office
    return person


def _provider() -> Provider:
    found: Provider | None = current_app.extensions.get("studio.oidc")
    if found is None:
        parts = services()
        # Beside the hub: on it, the import would stop every stream for a sixth of a second.
        with RunScope() as scope:
            parts.threads.run(_load, scope)
        found = current_app.extensions["studio.oidc"] = Provider(parts.settings, parts.clock)
    return found


def _load() -> None:
    import authlib.oauth2.client
    import authlib.oidc.core  # noqa: F401  # what is wanted is that they are there


def _callback() -> str:
    return f"{own_address()}{CALLBACK}"


def _cookie(chat_id: str) -> str:
    return f"studio_sso_{chat_id}"


def _go(where: str) -> Response:
    headers = {"Location": where, "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
    return Response(status=303, headers=headers)


def _page(chat: ChatRow | None, status: int, message: str) -> Response:
    html = render_template(
        "chat_sign_in.html",
        title="Not signed in",
        message=message,
        slug=None if chat is None else chat.slug,
        up=_UP,
    )
    return Response(html, status, content_type="text/html; charset=utf-8", headers=_HEADERS)


def install(app: Flask) -> None:
    """Put the routes on ``app``."""
    blueprint = Blueprint("sso_gate", __name__)
    blueprint.add_url_rule("/api/chat/<slug>/sso", "leave", leave)
    blueprint.add_url_rule(CALLBACK, "come_back", come_back)
    app.register_blueprint(blueprint)
