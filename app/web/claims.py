"""``Idempotency-Key``: whether a request that starts a run is a new one, or the repeat of one (contract 3.4).

Law of this room: whoever claims a key first starts the run; everybody else with the same key and the same body is told
which run that is. A key means something for who sent it, in one workflow or chat, and for nobody else. A start that is
refused lets go of its claim, so that the repeat of it is a start again. Without the header nothing happens here.

What is said is what the draft ``draft-ietf-httpapi-idempotency-key-header`` says and what Stripe does, see decision
0035; how a repeat is answered is in :mod:`app.web.repeats`.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import typing as t
from collections.abc import Mapping
from dataclasses import dataclass

import gevent
from flask import Flask, Response, g, request
from gevent import get_hub

from app import encoding
from app.engine.registry import DEAD_AFTER_S
from app.errors import ApiError, Problem, ValidationFailed
from app.web import bodies
from app.web.http import services

if t.TYPE_CHECKING:
    from app.store.idempotency import Claimed

#: The request header, and that of an answer which repeats one.
HEADER, REPLAYED = "Idempotency-Key", "Idempotent-Replayed"
_ENVIRON = "HTTP_IDEMPOTENCY_KEY"
#: Most characters of a key.
MOST = 255
#: Seconds for which a repeat waits for the run of a start that is still being looked at, and between two looks.
WAIT_S, LOOK_S = 15.0, 0.02
_PLAIN = re.compile(r"[ -~]+")
#: A String of structured fields (RFC 9651), as the draft has it.
_QUOTED = re.compile(r'"((?:[ !#-\[\]-~]|\\["\\])*)"')


@dataclass(frozen=True, slots=True)
class Start:
    """What a request is to start, or has started before.

    :ivar run_id: of the run. :ivar is_repeat: it was begun by an earlier request.
    """

    run_id: str
    is_repeat: bool = False


class Claim:
    """A key that the current request has, for a run that is about to begin."""

    def __init__(self, key: bytes, run_id: str) -> None:
        self._key, self._run_id = key, run_id
        self._idempotency = services().store.idempotency

    def release(self) -> None:
        """Let go of it. Nothing happens where the run has begun; never raises."""
        self._idempotency.release(self._key, self._run_id)


def is_sent() -> bool:
    """Whether the request has the header."""
    return _ENVIRON in request.environ


def claim(
    surface: str,
    subject: str | None,
    body: Mapping[str, t.Any],
    *,
    workflow_id: str | None = None,
    chat_id: str | None = None,
) -> Start:
    """Find out whether the request is a new start. Called when the body is known to be one, and before anything is
    counted, entered or begun.

    :param surface: what is asked of the workflow; the same key for something else is a mistake.
    :param subject: whose the key is; None: of somebody who cannot be told from others.
    :param body: what the run is started with; nothing secret, and nothing that may differ when it is repeated.
    :param workflow_id: where the key means something, or ``chat_id``.
    :raises ApiError: 400 the key is none, or nobody's, or the body nests too deep; 409 ``idempotency_conflict``: it was
        used for something else, ``idempotency_pending``: its run has not begun in :data:`WAIT_S`.
    """
    fresh = services().clock.new_id("run")
    if not is_sent():
        return Start(fresh)
    sent = _key(request.environ[_ENVIRON])
    if subject is None:
        cure = "needs a key in X-API-Key: callers without one cannot be told apart; send one, or leave it out"
        raise ValidationFailed([Problem(HEADER, cure)], code="not_supported")
    key = _hash("chat" if workflow_id is None else "workflow", workflow_id or chat_id or "", subject, sent)
    # The client's key is the hash's: who has the row alone cannot try which body it is of.
    of_body = bodies.digest_of(sent.encode(), _comparable([surface, body]))
    store = services().store.idempotency
    until = get_hub().loop.now() + WAIT_S
    while True:
        claimed = store.claim(key, of_body, fresh, workflow_id, chat_id)
        if claimed.run_id == fresh:
            g.claim = Claim(key, fresh)
            return Start(fresh)
        if not hmac.compare_digest(claimed.body, of_body):
            raise _conflict(sent)
        if _has_begun(key, claimed, until):
            g.is_repeat = True
            return Start(claimed.run_id, is_repeat=True)


def current() -> Claim | None:
    """The claim of the current request; None: it has none."""
    found: Claim | None = g.get("claim")
    return found


def _has_begun(key: bytes, claimed: Claimed, until: float) -> bool:
    """Whether the run of a claim has begun, which is waited for; False: the claim has gone.

    :raises ApiError: 409: it has neither begun nor gone in time.
    """
    runs, store = services().runs, services().store
    while runs.get(claimed.run_id) is None and runs.ended(claimed.run_id) is None:
        if store.runs.status(claimed.run_id) is not None:
            break
        now = store.idempotency.get(key)
        if now is None or now.run_id != claimed.run_id:
            return False
        if store.idempotency.give_up(key, claimed, DEAD_AFTER_S):
            return False
        if get_hub().loop.now() > until:
            raise _pending()
        gevent.sleep(LOOK_S)
    return True


def _key(sent: str) -> str:
    """The key of a header; one in quotes is the same as one without.

    :raises ValidationFailed: 400: it is none.
    """
    text = sent.strip()
    quoted = _QUOTED.fullmatch(text)
    if quoted is not None:
        text = re.sub(r"\\(.)", r"\1", quoted[1])
    elif text.startswith('"'):
        raise _invalid("is no string: quotes and backslashes inside of the quotes take a backslash in front")
    if not _PLAIN.fullmatch(text) or len(text) > MOST:
        raise _invalid(f"is 1 to {MOST} printable characters of ASCII, such as a UUID")
    return text


def _comparable(said: list[t.Any]) -> bytes:
    """:raises ValidationFailed: 400: it nests too deep."""
    try:
        return encoding.canonical(said)
    except ValueError:
        cure = f"nests too deep for a request with Idempotency-Key; keep to {encoding.MOST_DEEP - 1} levels"
        raise ValidationFailed([Problem("", f"the body {cure}, or leave the header out")]) from None


def _hash(*parts: str) -> bytes:
    text = "".join(f"{len(part)}:{part}" for part in ("idempotency", *parts))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _invalid(why: str) -> ValidationFailed:
    return ValidationFailed([Problem(HEADER, why)])


def _conflict(key: str) -> ApiError:
    message = (
        f"The Idempotency-Key '{key[:100]}' was used for a request with another body, or to another route. "
        "Send the same body again, or another key."
    )
    return ApiError(409, "idempotency_conflict", message, [Problem(HEADER, "was used for something else")])


def _pending() -> ApiError:
    message = "The first request with this Idempotency-Key has not begun its run yet. Send it again."
    return ApiError(409, "idempotency_pending", message, headers={"Retry-After": "2"})


def _settled(response: Response) -> Response:
    """Say that an answer repeats one; let go of the claim of a start that was refused."""
    if g.get("is_repeat") and response.status_code < 400:
        response.headers[REPLAYED] = "true"
    held = current()
    if held is not None and response.status_code >= 400:
        held.release()
    return response


def install(app: Flask) -> None:
    """Settle claims with the answers of ``app``."""
    app.after_request(_settled)
