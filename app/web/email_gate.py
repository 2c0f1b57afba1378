"""The gate that sends a code by e-mail: ``/api/chat/{slug}/otp``.

Law of this room: whether an address may get in is told to nobody but who reads its mail. Status, body, headers, limits
and what is written are the same for those that may not; their code is one that nobody can say. The mail goes out when
the answer has left.
"""

from __future__ import annotations

import secrets
import typing as t

from flask import Blueprint, Flask, Response, current_app

from app.clock import rfc3339
from app.errors import ApiError
from app.schemas.chat_codes import load_given, load_wanted
from app.web import chat_gates, mailer, tries, visitors
from app.web.chat_config import door
from app.web.digests import digest
from app.web.http import MAX_ENTRANCE, json_response, read_object, services
from app.web.limits import network
from app.web.tries import Limit

if t.TYPE_CHECKING:
    from app.store.chats import ChatRow

#: How long a code can be used, how often wrong ones may be tried instead, and when the next may follow (contract
#: section 8).
LIVE_MS, TRIES, PAUSE_MS = 15 * 60_000, 5, 30_000
PERIOD_S = 15 * 60
#: Codes in that time: for one address of mail, one address of the network, one chat.
TO_ONE, FROM_ONE, OF_ALL = 5, 10, 300
#: Wrong codes: from one address of the network in that time, for one chat in an hour. A code has a million values, and
#: of a domain that may get in anybody can name as many addresses as he likes.
WRONG_FROM_ONE, WRONG_OF_ALL, ALL_PERIOD_S = 20, 100, 60 * 60

_SENT, _WRONG = "codes", "wrong codes"


def send(slug: str) -> Response:
    """Send a code to an address, if it may get in: 202 either way."""
    chat = _chat(slug)
    body = load_wanted(read_object(MAX_ENTRANCE))
    if not mailer.can_send():
        raise ApiError(503, "gate_unavailable", "This chat cannot send e-mails now. Tell whoever runs it.")
    email = digest("chat email", chat.id, body.email)
    limits = (
        Limit(f"otp:{chat.id}:{network()}", FROM_ONE, PERIOD_S, _SENT),
        Limit(f"otp:{chat.id}:{email.hex()}", TO_ONE, PERIOD_S, _SENT),
        Limit(f"otp:{chat.id}", OF_ALL, PERIOD_S, _SENT, f"no more for the chat '{chat.slug}'"),
    )
    taken = tries.take(limits)
    code = f"{secrets.randbelow(1_000_000):06}"
    hashes = _hash(chat, body.email, code), secrets.token_bytes(32)
    may = may_enter(chat, body.email)
    wait = services().store.chat_codes.issue(chat.id, email, hashes[0 if may else 1], LIVE_MS, PAUSE_MS)
    if wait:
        tries.give_back(taken)
        raise tries.too_many("codes asked for at once", -(-wait // 1000))
    if not mailer.mailer().post(body.email if may else None, *_written(chat, code)):
        raise ApiError(
            503, "at_capacity", "Many e-mails are waiting. Try again.", headers={"Retry-After": "30"}
        )
    message = "If this address may get in, a code is on its way to it."
    return json_response({"message": message, "validMs": LIVE_MS, "resendMs": PAUSE_MS}, 202)


def redeem(slug: str) -> Response:
    """Let in who has the code."""
    chat = _chat(slug)
    body = load_given(read_object(MAX_ENTRANCE))
    limits = (
        Limit(f"otp-try:{chat.id}:{network()}", WRONG_FROM_ONE, PERIOD_S, _WRONG),
        Limit(f"otp-try:{chat.id}", WRONG_OF_ALL, ALL_PERIOD_S, _WRONG, tries.closed(chat.slug)),
    )
    taken = tries.take(limits)
    email = digest("chat email", chat.id, body.email)
    code = _hash(chat, body.email, body.otp)
    if not services().store.chat_codes.redeem(chat.id, email, code, TRIES) or not may_enter(chat, body.email):
        raise chat_gates.refused(chat, "This code is wrong, or no longer of use. ")
    tries.give_back(taken)
    visitor = visitors.passed(chat, visitors.named(chat, "email", body.email), body.email)
    visitors.keep(chat, visitor)
    return json_response({"expiresAt": rfc3339(chat_gates.ends_at_ms(visitor))})


def may_enter(chat: ChatRow, email: str) -> bool:
    """Whether an address, in lower case, is among those of the chat, or the whole domain it is of."""
    domain = email[email.rfind("@") :]
    return any(entry.lower() in (email, domain) for entry in chat.allowed_emails)


def _chat(slug: str) -> ChatRow:
    chat = door(current_app).find(slug).row
    if chat.auth_type != "email":
        raise ApiError(400, "not_supported", f"The chat '{slug}' asks for no code by e-mail.")
    return chat


def _hash(chat: ChatRow, email: str, code: str) -> bytes:
    return digest("chat code", chat.id, email, code)


def _written(chat: ChatRow, code: str) -> tuple[str, str]:
    """Subject and text."""
    base = services().settings.public_url.rstrip("/")
    where = f"\n{base}/chat/{chat.slug}\n" if base else ""
    return (
        f"Your code for {chat.title}",
        f"{code}\n\nThis is your code for {chat.title}. It can be used once, within {LIVE_MS // 60_000} minutes.\n"
        f"{where}\nIf you did not ask for it, leave it: nobody gets in without it.\n",
    )


def install(app: Flask) -> None:
    """Put the routes on ``app``."""
    blueprint = Blueprint("email_gate", __name__)
    blueprint.add_url_rule("/api/chat/<slug>/otp", "send", send, methods=["POST"])
    blueprint.add_url_rule("/api/chat/<slug>/otp", "redeem", redeem, methods=["PUT"])
    app.register_blueprint(blueprint)
