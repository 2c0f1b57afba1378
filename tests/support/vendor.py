"""A model vendor whose every byte the test decides: OpenAI-compatible, streaming, in this process.

Law of this room: it never acts by itself. A test takes the next call, sends pieces when it wants and sees
when the caller went away, so that order is proved by lock step and not by time.
"""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterator
from contextlib import contextmanager

import gevent
import gevent.event
import gevent.queue
import gevent.server
import gevent.socket

_HEAD = "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"


class Call:
    """One request that a model caller sent, and the answer as the test writes it.

    :ivar body: the decoded request.
    :ivar path: the request's path.
    :ivar headers: the request's headers, names in lower case.
    :ivar content_type: of the answer; may be set before its first byte.
    :ivar left: set when the caller closed its connection.
    """

    def __init__(self, sock: t.Any, path: str, headers: dict[str, str], body: t.Any) -> None:
        self._sock = sock
        self._started = False
        self.content_type = "text/event-stream"
        self.path, self.headers, self.body = path, headers, body
        self.left = gevent.event.Event()
        self.ended = gevent.event.Event()

    def send_bytes(self, piece: bytes) -> None:
        """One HTTP chunk with exactly these bytes."""
        if not self._started:
            self._started = True
            self._sock.sendall((_HEAD % self.content_type).encode())
        self._sock.sendall(b"%x\r\n%b\r\n" % (len(piece), piece))

    def send(self, delta: dict[str, t.Any], finish: str | None = None) -> None:
        """One chat-completion chunk."""
        chunk = {
            "id": "chatcmpl-test",
            "object": "chat.completion.chunk",
            "model": self.body.get("model"),
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        }
        self.send_bytes(b"data: " + json.dumps(chunk).encode() + b"\n\n")

    def text(self, piece: str) -> None:
        """One piece of answer text."""
        self.send({"content": piece})

    def finish(self, reason: str = "stop") -> None:
        """End the answer in order."""
        self.send({}, reason)
        self.send_bytes(b"data: [DONE]\n\n")
        self._sock.sendall(b"0\r\n\r\n")
        self.ended.set()

    def end_body(self) -> None:
        """End the body in order, with nothing more in it."""
        self._sock.sendall(b"0\r\n\r\n")
        self.ended.set()

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        """A whole answer that is no stream; ``retry_after="3"`` makes the header ``retry-after``."""
        named = {"content-type": "application/json", **{k.replace("_", "-"): v for k, v in headers.items()}}
        lines = [f"HTTP/1.1 {status} Answer", *(f"{name}: {value}" for name, value in named.items())]
        lines += [f"content-length: {len(body)}", "connection: close", "", ""]
        self._sock.sendall("\r\n".join(lines).encode() + body)
        self.ended.set()

    def cut(self) -> None:
        """Drop the connection in the middle of the body."""
        self._sock.shutdown(gevent.socket.SHUT_RDWR)
        self.ended.set()


class Vendor:
    """Listens on a free port; every request becomes a :class:`Call`."""

    def __init__(self) -> None:
        self.calls: gevent.queue.Queue[Call] = gevent.queue.Queue()
        self.open = 0
        self._server = gevent.server.StreamServer(("127.0.0.1", 0), self._serve, backlog=4096)
        self._server.start()

    @property
    def base(self) -> str:
        """Its address with the version path, as an ``API_BASE``."""
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def next_call(self, seconds: float = 60.0) -> Call:
        """The next request that came."""
        return self.calls.get(timeout=seconds)

    def close(self) -> None:
        """Stop listening and drop what is open."""
        self._server.stop(timeout=0)

    def _serve(self, sock: t.Any, address: t.Any) -> None:
        self.open += 1
        call = None
        try:
            read = sock.makefile("rb")
            call = _read_call(sock, read)
            if call is None:
                return
            self.calls.put(call)
            while read.read(1):
                pass
        except OSError:
            pass  # reset: gone as well
        finally:
            if call is not None:
                call.left.set()
            self.open -= 1
            sock.close()


def _read_call(sock: t.Any, read: t.Any) -> Call | None:
    line = read.readline().decode()
    if not line:
        return None
    headers: dict[str, str] = {}
    while (field := read.readline().decode().rstrip("\r\n")) != "":
        name, _, value = field.partition(":")
        headers[name.lower()] = value.strip()
    body = read.read(int(headers.get("content-length", 0)))
    return Call(sock, line.split()[1], headers, json.loads(body) if body else None)


@contextmanager
def vendor() -> Iterator[Vendor]:
    """A vendor for one test."""
    made = Vendor()
    try:
        yield made
    finally:
        made.close()
