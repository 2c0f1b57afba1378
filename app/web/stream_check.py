"""``GET /api/stream-check``: test frames at known times, so that a client can see what is on the way.

Law of this room: no run, no store, no key. What one caller can ask for is bounded in number and time, and so is how
many are served at once. The frames go the way of every stream: same headers, same transport, same keepalives.
"""

from __future__ import annotations

import re
import secrets
import typing as t
from dataclasses import dataclass

from flask import Blueprint, Flask, Response, current_app, request
from gevent import get_hub
from gevent.event import Event

from app import __version__, encoding
from app.engine.scope import spawn_service
from app.errors import ApiError, Problem, ValidationFailed
from app.streams import sse
from app.web import streaming
from app.web.http import read_query, services
from app.web.sweep import StreamService

#: Checks that one process serves at once; the rest is told to come again.
MOST = 8
#: Bytes of padding of the larger frames, in turn.
PADDING = (2048, 2048, 8192)
#: Spacings of silence after each kind of frames: what holds the last frame back until the next one is seen by it.
REST = 4
#: Shortest and longest time from one frame to the next, and longest silence that may be asked for.
SPACING_MS = (10, 1000)
SILENCE_S = 600


@dataclass(frozen=True, slots=True)
class Plan:
    """What is sent: ``small`` frames, ``padded`` ones, ``spacing_ms`` apart; then ``silence_s`` of nothing."""

    small: int = 16
    padded: int = 9
    spacing_ms: int = 200
    silence_s: int = 0


_MOST = {"small": 50, "padded": 30, "spacing_ms": SPACING_MS[1], "silence_s": SILENCE_S}
_LEAST = {"spacing_ms": SPACING_MS[0]}


def stream_check() -> Response:
    """Frames at known times; the first one says what follows and how the request arrived."""
    plan = _plan()
    if len(_checks()) >= MOST:
        message = f"{MOST} checks of streams run here already. Try again in a few seconds."
        raise ApiError(503, "at_capacity", message, headers={"Retry-After": "10"})
    environ = request.environ
    hello = {
        "event": "check",
        "version": __version__,
        "keepaliveMs": round(services().settings.keepalive_s * 1000),
        "small": plan.small,
        "padded": plan.padded,
        "spacingMs": plan.spacing_ms,
        "silenceMs": plan.silence_s * 1000,
        # What the client cannot see: how the last one on the way spoke to us, and that there is one.
        "protocol": environ.get("SERVER_PROTOCOL", ""),
        "forwarded": "HTTP_X_FORWARDED_FOR" in environ or "HTTP_VIA" in environ,
    }
    stream = CheckStream(streaming.service(current_app), plan, hello, _checks())
    response = streaming.answer(stream, {}, services().clock.new_id("check"))
    del response.headers["X-Run-Id"]
    return response


def _checks() -> set[CheckStream]:
    """The checks that this process serves now."""
    found: set[CheckStream] = current_app.extensions.setdefault("studio.stream_checks", set())
    return found


def _plan() -> Plan:
    query, problems = read_query(*_MOST)
    wanted: dict[str, int] = {}
    for name, sent in query.items():
        if name not in _MOST:
            continue
        least, most = _LEAST.get(name, 0), _MOST[name]
        number = int(sent) if re.fullmatch(r"[0-9]{1,4}", sent) else -1
        if not least <= number <= most:
            problems.append(Problem(name, f"a whole number from {least} to {most}"))
        wanted[name] = number
    if problems:
        raise ValidationFailed(problems)
    return Plan(**wanted)


class CheckStream:
    """One check: what its back end begins, and the reader that its transport and the sweep know.

    :ivar closed: nothing more will be sent.
    """

    #: No run waits for its end: a server that stops cuts it soon.
    relayed = True

    __slots__ = (
        "__weakref__",
        "_checks",
        "_hello",
        "_over",
        "_plan",
        "closed",
        "direct",
        "quiet",
        "service",
        "stalled",
        "transport",
    )

    def __init__(
        self, service: StreamService, plan: Plan, hello: dict[str, t.Any], checks: set[CheckStream]
    ) -> None:
        self.service = service
        self.direct = service.direct
        self.closed = False
        self.quiet = 0
        self.stalled = 0
        self.transport: t.Any = None  # a Transport
        self._plan = plan
        self._hello = hello
        self._over = Event()
        self._checks = checks

    def begin(self, transport: t.Any) -> CheckStream:
        """See :class:`app.web.streaming.Stream`."""
        self.transport = transport
        transport.reader = self
        self._checks.add(self)
        self.service.add(self)
        spawn_service(self._send)
        return self

    def forgo(self) -> None:
        """The answer is thrown away. Nothing happens when it has begun."""
        if self.transport is None:
            self.closed = True

    def _send(self) -> None:
        loop = get_hub().loop
        loop.update_now()
        begun = loop.now()
        self._write(self._hello)
        for at, frame in frames(self._plan):
            loop.update_now()
            if self._over.wait(max(0.0, begun + at - loop.now())):
                return
            loop.update_now()
            # When it was really sent: a busy server must not look like a proxy that holds back.
            self._write({**frame, "atMs": round((loop.now() - begun) * 1000)}, last=frame["event"] == "done")

    def _write(self, frame: dict[str, t.Any], last: bool = False) -> None:
        if not self.closed:
            self.quiet = 0
            self.transport.write(sse.frame(encoding.dumps(frame)), last)

    # -- from the transport and the sweep ----------------------------------------------------

    def relieved(self) -> None:
        """The client took bytes; what may be asked for at all is small enough to wait for it."""

    def finished(self) -> None:
        """The client has the whole body."""
        if not self.closed:
            self._leave()

    def lost(self) -> None:
        """The client has gone. May be called twice."""
        if not self.closed:
            self._leave()
            self.transport.abort()

    cut = lost

    def keepalive(self) -> None:
        """Nothing was written for a while."""
        self.quiet = 0
        if not self.transport.pending:
            self.transport.write(sse.KEEPALIVE, False)

    def is_told(self, sweeps: int) -> bool:
        """Nothing is being worked."""
        return False

    def _leave(self) -> None:
        self.closed = True
        self._over.set()
        self._checks.discard(self)
        self.service.discard(self)


def frames(plan: Plan) -> t.Iterator[tuple[float, dict[str, t.Any]]]:
    """The seconds after the first frame at which each of the others is due, and its content."""
    spacing, at = plan.spacing_ms / 1000, 0.0
    for number in range(plan.small):
        at += spacing
        yield at, {"event": "small", "n": number}
    at += REST * spacing
    for number in range(plan.padded):
        at += spacing
        # Random, or something that compresses would make it small again.
        pad = secrets.token_urlsafe(PADDING[number % len(PADDING)] * 3 // 4)
        yield at, {"event": "padded", "n": number, "pad": pad}
    at += REST * spacing
    yield at, {"event": "silence"}
    yield at + max(spacing, plan.silence_s), {"event": "done"}


def install(app: Flask) -> None:
    """Put the route on ``app``."""
    blueprint = Blueprint("stream_check", __name__)
    blueprint.add_url_rule("/api/stream-check", view_func=stream_check)
    app.register_blueprint(blueprint)
