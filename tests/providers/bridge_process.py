from gevent import monkey; monkey.patch_all()  # noqa: E702, I001  # fmt: skip
"""Runs the bridge with the real litellm, in a process of its own, and prints what came out as JSON.

    python bridge_process.py SPLIT,… CASE=MODEL@PATH…

Law of this room: the tests' own process never imports litellm: it takes seconds, 200 MB and the warnings filter.
Nothing here leaves the machine, and an event loop or a thread of the operating system ends the process.
"""

import asyncio
import base64
import json
import os
import sys
import typing as t
from collections.abc import Callable
from pathlib import Path

import gevent

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from app.engine.scope import RunScope
from providers import spec
from providers.auth import NoAuth
from providers.litellm_bridge import WIRE
from providers.litellm_loading import load
from tests.providers.driving import Seen, request, split
from tests.providers.raw_server import Peer, raw_server
from tests.support import loopback
from tests.support.shared import recordings, shared_path

Json = dict[str, t.Any]


def call(
    address: str, model: str, scope: RunScope | None = None, idle_s: float = 20.0, **asked: t.Any
) -> Seen:
    """One call of the bridge; a failure is part of what is seen."""
    seen = Seen()
    connection = spec.Connection(address, NoAuth(), {"api_key": "k-1"}, connect_s=5.0, idle_s=idle_s)
    try:
        with scope or RunScope() as inside:
            for events in WIRE.stream(request(model=model, **asked), connection, inside):
                for event in events:
                    seen.add(event)
    except spec.ProviderError as error:
        seen.error = error
    return seen


def said(seen: Seen) -> Json:
    """What a test compares."""
    usage = seen.finished.usage if seen.finished else None
    return {
        "text": seen.text,
        "thinking": seen.thinking,
        "order": seen.order,
        "calls": [[made.id, made.name, made.arguments] for made in seen.ready],
        "usage": None if usage is None else [usage.input, usage.output],
        "reason": seen.finished.reason if seen.finished else None,
        "replay": seen.finished.replay if seen.finished else None,
        "error": seen.code,
        "detail": seen.error.detail if seen.error else "",
        "retryAfter": seen.error.retry_after if seen.error else None,
    }


def answering(status: str, content_type: str, body: bytes, size: int = 0) -> Callable[[Peer], None]:
    """A peer that answers each request so, in pieces of ``size`` bytes."""
    head = f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"

    def handle(peer: Peer) -> None:
        while peer.request():
            peer.send(f"{head}Connection: close\r\n\r\n".encode())
            for piece in split(body, size):
                peer.send(piece)
                gevent.sleep(0)
            return

    return handle


def recorded(size: int, jobs: list[str]) -> Json:
    """Each recording through the bridge, as ``CASE=MODEL@PATH`` says."""
    found: Json = {}
    for job in jobs:
        name, _, rest = job.partition("=")
        model, _, path = rest.partition("@")
        case = recordings()[name]
        body = shared_path("recordings", case["file"]).read_bytes()
        if case["file"].endswith(".b64"):
            body = base64.b64decode(body)
        tools = tuple(
            spec.ToolSpec(tool["name"], "", tool.get("parameters") or {"type": "object"})
            for tool in case.get("request_tools") or ()
        )
        handler = answering(f"{case['status']} x", case["content_type"], body, size)
        with raw_server(handler) as address:
            found[name] = said(call(f"http://{address}{path}", model, tools=tools))
    return found


CHUNK = b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":null}]}\n\n'
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


class Silent:
    """A peer that says one thing and then waits for its caller to leave."""

    def __init__(self, said: bytes = CHUNK) -> None:
        self.said = said
        self.left = gevent.event.Event()

    def __call__(self, peer: Peer) -> None:
        """Serve one connection."""
        peer.request()
        peer.send(HEAD + b"%x\r\n%b\r\n" % (len(self.said), self.said))
        peer.gone()
        self.left.set()


def cancelled() -> Json:
    """A call whose run is cancelled while the vendor is silent."""
    silent, scope, ends = Silent(), RunScope(), []
    with raw_server(silent) as address:

        def run() -> None:
            try:
                call(f"http://{address}/v1", "openai/gpt-4o", scope)
            except BaseException as error:
                ends.append(type(error).__name__)

        running = gevent.spawn(run)
        while not scope.waiting:
            gevent.sleep(0.01)
        gevent.sleep(0.2)
        scope.cancel("user")
        running.join(10)
        return {"ended": ends, "left": silent.left.wait(10)}


def behaves() -> Json:
    """What must hold for a bridge whatever the vendor: interruption, limits, errors, what goes out."""
    found: Json = {"cancelled": cancelled()}
    silent = Silent()
    with raw_server(silent) as address:
        seen = call(f"http://{address}/v1", "openai/gpt-4o", idle_s=2)
        found["idle"] = [seen.text, seen.code, silent.left.wait(10)]
    unread = Silent(b"event: message-start\n\n")
    with raw_server(unread) as address:
        seen = call(f"http://{address}/v2/chat", "cohere_chat/command-a-03-2025")
        found["unread"] = [seen.code, unread.left.wait(10)]  # while the error is still held
    refused = answering(
        "429 x\r\nRetry-After: 7",
        "application/json",
        b'{"error":{"message":"slow down","code":"rate_limit"}}',
    )
    with raw_server(refused) as address:
        found["refused"] = said(call(f"http://{address}/v1", "openai/gpt-4o"))
    found["nobody"] = said(call("http://127.0.0.1:9/v1", "openai/gpt-4o"))
    found["unknown"] = said(call("", "no-such-provider/x"))
    cut = HEAD + b"%x\r\n%b\r\n" % (len(CHUNK), CHUNK)

    def cutting(peer: Peer) -> None:
        peer.request()
        peer.send(cut)

    with raw_server(cutting) as address:
        found["cut"] = said(call(f"http://{address}/v1", "openai/gpt-4o"))
    found["replayed"] = replayed()
    return found


def replayed() -> t.Any:
    """The messages that reach a vendor who wants signed thinking back."""
    bodies: list[bytes] = []
    blocks = [
        {"type": "thinking", "thinking": "Hm", "signature": "sig"},
        {"type": "redacted_thinking", "data": "xyz"},
    ]
    turn = spec.AssistantMessage(
        "", (spec.ToolCall("c1", "echo", {"a": 1}, '{"a":1}'),), {"thinking_blocks": blocks}, WIRE.name
    )
    messages = [spec.UserMessage("hi"), turn, spec.ToolResult("c1", "echo", "42")]

    def keeping(peer: Peer) -> None:
        bodies.append(peer.request().partition(b"\r\n\r\n")[2])
        peer.send(b"HTTP/1.1 400 x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")

    with raw_server(keeping) as address:
        tools = (spec.ToolSpec("echo", "Echoes.", {"type": "object"}),)
        call(f"http://{address}", "anthropic/claude-sonnet-4-5", messages=messages, tools=tools)
    return json.loads(bodies[0])["messages"]


def _refuse(*_args: t.Any, **_kwargs: t.Any) -> t.NoReturn:
    raise SystemExit("an event loop was started")


def main() -> None:
    """See the module."""
    loopback.close_the_door()
    asyncio.run = asyncio.new_event_loop = _refuse
    ticks: list[None] = []

    def tick() -> None:
        while True:
            gevent.sleep(0.01)
            ticks.append(None)

    ticking = gevent.spawn(tick)
    with RunScope() as scope:
        load(scope)
    ticking.kill()
    gevent.get_hub().threadpool.spawn(int).get()  # the thread that looks up names is gevent's own
    threads = _threads()
    found = {size: recorded(int(size), sys.argv[2:]) for size in sys.argv[1].split(",")}
    found["behaves"] = behaves()
    print(json.dumps({"ticks": len(ticks), "threads": _threads() - threads, "found": found}))


def _threads() -> int:
    """Threads of the operating system: those that the library starts are greenlets here."""
    return len(os.listdir("/proc/self/task"))


if __name__ == "__main__":
    main()
