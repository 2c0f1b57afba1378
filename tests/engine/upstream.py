"""A model vendor that answers by itself, in this process: a preamble with two calls, then the answer.

Law of this room: it counts its open connections, so that a test can tell that all are closed.
"""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterator
from contextlib import contextmanager

import gevent
import gevent.server

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


def _chunk(delta: dict[str, t.Any], finish: str | None = None) -> bytes:
    value = {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def _call(index: int, name: str, arguments: dict[str, t.Any]) -> dict[str, t.Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"tool_calls": [{"index": index, "id": f"c{index}", "function": function}]}


TOOL_TURN = (
    _chunk({"reasoning_content": "hm"}),
    _chunk({"content": "Let me look."}),
    _chunk(_call(0, "clock", {})),
    _chunk(_call(1, "calculator", {"expression": "6*7"})),
    _chunk({}, "tool_calls"),
)
ANSWER = (_chunk({"content": "It is "}), _chunk({"content": "42."}), _chunk({}, "stop"), b"data: [DONE]\n\n")


class Upstream:
    """Listens on a free port. ``open`` counts connections."""

    def __init__(self) -> None:
        self.open = 0
        self._server = gevent.server.StreamServer(("127.0.0.1", 0), self._serve)
        self._server.start()

    @property
    def base(self) -> str:
        """Its address with the version path."""
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def close(self) -> None:
        """Stop listening."""
        self._server.stop(timeout=0)

    def _serve(self, sock: t.Any, address: t.Any) -> None:
        self.open += 1
        try:
            read = sock.makefile("rb")
            length = 0
            while (line := read.readline().strip()) != b"":
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            body = json.loads(read.read(length))
            answered = any(message["role"] == "tool" for message in body["messages"])
            sock.sendall(_HEAD)
            for piece in ANSWER if answered else TOOL_TURN:
                sock.sendall(piece)
                gevent.sleep(0)
        except (OSError, ValueError):
            pass
        finally:
            self.open -= 1
            sock.close()


@contextmanager
def upstream() -> Iterator[Upstream]:
    """An upstream for one test."""
    made = Upstream()
    try:
        yield made
    finally:
        made.close()
