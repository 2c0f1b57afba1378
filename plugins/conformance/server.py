"""A vendor of recorded bytes on a loopback socket.

Law of this room: the bytes, and where they are torn, are decided by whoever plans an answer; the server adds the
framing of HTTP and nothing else. It waits for the loop to be idle between pieces where order matters, so that
nothing here depends on time.
"""

from __future__ import annotations

import json
import socket
import typing as t
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import gevent
import gevent.event
import gevent.server

from plugins.conformance.recordings import Recording

Ending = t.Literal["whole", "torn", "silent"]


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer as it will be sent.

    :ivar ending: ``whole``; ``torn``: the connection ends without the end of the body; ``silent``: it stays open.
    :ivar stepwise: each piece is taken by the client before the next is sent.
    :ivar silence: called once everything was sent and taken, of an answer that falls silent.
    """

    status: int
    content_type: str
    pieces: Sequence[bytes]
    headers: Mapping[str, str] = field(default_factory=dict)
    ending: Ending = "whole"
    stepwise: bool = False
    silence: Callable[[], None] | None = None


class Exchange:
    """One request that came in. ``left``: the client closed its connection. ``sent``: pieces sent so far."""

    def __init__(self, head: bytes, body: bytes) -> None:
        self.head = head
        self.body = body
        self.sent = 0
        self.left = gevent.event.Event()

    @property
    def path(self) -> str:
        """The request's path, without its query."""
        return urlsplit(self.head.split(b" ", 2)[1].decode("latin-1")).path


class ByteServer:
    """Answers each request with the planned answer.

    :ivar plan: the answer to every request until it is changed.
    :ivar plan_next: gives the answer to each request, for a caller whose requests differ.
    :ivar exchanges: what was asked, in order.
    """

    def __init__(self, routes: Mapping[str, t.Any]) -> None:
        self.plan: Answer = Answer(500, "application/json", ())
        self.plan_next: Callable[[], Answer] = lambda: self.plan
        self.exchanges: list[Exchange] = []
        self._routes = routes
        self._server = gevent.server.StreamServer(("127.0.0.1", 0), self._serve)
        self._server.start()

    @property
    def base(self) -> str:
        """Its address without a path."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        """Stop listening and drop what is open."""
        self._server.stop(timeout=0)

    def _serve(self, sock: socket.socket, _address: object) -> None:
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            exchange = _read_request(sock)
            if exchange is not None:
                self._answer(sock, exchange)
        except OSError:
            pass  # the client left, which is what some scenarios are about
        finally:
            sock.close()

    def _answer(self, sock: socket.socket, exchange: Exchange) -> None:
        route = self._routes.get(exchange.path)
        if route is not None:
            _send(sock, Answer(200, "application/json", (json.dumps(route).encode(),)), exchange)
            return
        self.exchanges.append(exchange)
        answer = self.plan_next()
        try:
            _send(sock, answer, exchange)
            if answer.ending == "silent":
                while sock.recv(4096):
                    pass
        finally:
            exchange.left.set()


@contextmanager
def byte_server(routes: Mapping[str, t.Any]) -> Iterator[ByteServer]:
    """A server on a free port; ``routes`` are JSON answers by path beside the planned ones."""
    made = ByteServer(routes)
    try:
        yield made
    finally:
        made.close()


def answer_of(recording: Recording, split: int = 0, **changes: t.Any) -> Answer:
    """A recording as an answer; ``split``: bytes a piece, 0 for the pieces as recorded, -1 for all in one."""
    pieces: Sequence[bytes] = recording.pieces
    if split:
        body = b"".join(pieces)
        size = split if split > 0 else max(1, len(body))
        pieces = [body[at : at + size] for at in range(0, len(body), size)]
    return Answer(recording.status, recording.content_type, pieces, recording.headers, **changes)


def _send(sock: socket.socket, answer: Answer, exchange: Exchange) -> None:
    fields = {
        "Content-Type": answer.content_type,
        "Transfer-Encoding": "chunked",
        "Connection": "close",
        **answer.headers,
    }
    lines = [
        f"HTTP/1.1 {answer.status} Recorded",
        *(f"{name}: {value}" for name, value in fields.items()),
        "",
        "",
    ]
    sock.sendall("\r\n".join(lines).encode("latin-1"))
    for piece in answer.pieces:
        exchange.sent += 1
        sock.sendall(b"%x\r\n%b\r\n" % (len(piece), piece))
        if answer.stepwise:
            gevent.idle()
        else:
            gevent.sleep(0)
    if answer.ending == "whole":
        sock.sendall(b"0\r\n\r\n")
    elif answer.ending == "silent" and answer.silence is not None:
        gevent.idle()
        answer.silence()


def _read_request(sock: socket.socket) -> Exchange | None:
    got = b""
    while b"\r\n\r\n" not in got:
        data = sock.recv(65536)
        if not data:
            return None
        got += data
    head, _, body = got.partition(b"\r\n\r\n")
    length = _length(head)
    while length is not None and len(body) < length:
        data = sock.recv(65536)
        if not data:
            return None
        body += data
    if length is None and b"transfer-encoding: chunked" in head.lower():
        body = _chunked(sock, body)
    return Exchange(head, body)


def _length(head: bytes) -> int | None:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return None


def _chunked(sock: socket.socket, got: bytes) -> bytes:
    """A chunked request body, as some HTTP clients send it; framing left out."""
    while not got.endswith(b"0\r\n\r\n"):
        data = sock.recv(65536)
        if not data:
            break
        got += data
    body = b""
    while got:
        size, _, got = got.partition(b"\r\n")
        count = int(size or b"0", 16)
        if not count:
            break
        body, got = body + got[:count], got[count + 2 :]
    return body
