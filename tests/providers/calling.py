"""Calls the chat wire over real sockets of this machine."""

from __future__ import annotations

import typing as t
from collections.abc import Callable

from app.engine.scope import RunScope
from providers import spec
from providers.auth import NoAuth
from tests.providers.driving import OPENAI, chunk, request, sse
from tests.providers.raw_server import Peer

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
ANSWER = sse(chunk({"content": "ok"}), chunk({}, "stop"), "[DONE]")


def piece(data: bytes) -> bytes:
    """One HTTP chunk."""
    return b"%x\r\n%b\r\n" % (len(data), data)


WHOLE = CHUNKED + piece(ANSWER) + b"0\r\n\r\n"


def connection(address: str, **changes: t.Any) -> spec.Connection:
    """A connection to ``address`` with short limits."""
    given: dict[str, t.Any] = {"connect_s": 5.0, "idle_s": 5.0, **changes}
    return spec.Connection(f"http://{address}/v1", given.pop("auth", NoAuth()), **given)


def stream(scope: RunScope, to: spec.Connection) -> t.Any:
    """One model call."""
    return OPENAI.stream(request(), to, scope)


def text(address: str, **changes: t.Any) -> str:
    """The text of one whole call."""
    with RunScope() as scope:
        events = [event for read in stream(scope, connection(address, **changes)) for event in read]
    assert isinstance(events[-1], spec.ModelFinished)
    return "".join(event.text for event in events if isinstance(event, spec.TextDelta))


def failure(address: str, **changes: t.Any) -> tuple[str, spec.ProviderError]:
    """The text before, and the error of, a call that fails."""
    got = ""
    try:
        with RunScope() as scope:
            for read in stream(scope, connection(address, **changes)):
                got += "".join(event.text for event in read if isinstance(event, spec.TextDelta))
    except spec.ProviderError as error:
        return got, error
    raise AssertionError(f"no failure after {got!r}")


def answers(*replies: bytes) -> Callable[[Peer], None]:
    """A peer that gives one reply a request, then closes."""

    def handle(peer: Peer) -> None:
        for reply in replies:
            if not peer.request():
                return
            peer.send(reply)

    return handle
