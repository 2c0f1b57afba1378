"""A proxy that does to an answer what proxies do, and what the printed configuration keeps them from doing.

Law of this room: it passes one request on and gives back status, headers and body as it got them, but for the one thing
that it is asked to do to the body.
"""

from __future__ import annotations

import http.client
import ssl
import typing as t
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import gevent
from gevent.pywsgi import WSGIServer

#: Takes what is read of the body, piece by piece, and gives what is passed on, piece by piece.
Body = Callable[[Iterator[bytes]], Iterator[bytes]]

_KEPT = frozenset({"content-type", "cache-control", "server", "x-request-id"})


def by_size(threshold: int) -> Body:
    """Pieces of exactly so many bytes; the rest at the end."""

    def body(pieces: Iterator[bytes]) -> Iterator[bytes]:
        held = b""
        for piece in pieces:
            held += piece
            while len(held) >= threshold:
                yield held[:threshold]
                held = held[threshold:]
        yield held

    return body


def whole(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Everything at the end."""
    yield b"".join(pieces)


def by_time(seconds: float) -> Body:
    """What has come, every so many seconds."""

    def body(pieces: Iterator[bytes]) -> Iterator[bytes]:
        held: list[bytes] = []
        reading = gevent.spawn(lambda: [held.append(piece) for piece in pieces])
        while not reading.ready():
            reading.join(seconds)
            if held:
                out, held[:] = b"".join(held), []
                yield out

    return body


def without_comments(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """No keepalives."""
    return (piece for piece in pieces if not piece.startswith(b":"))


def cut_after(seconds: float) -> Body:
    """The connection is closed after so many seconds, whatever comes."""

    def body(pieces: Iterator[bytes]) -> Iterator[bytes]:
        end = gevent.get_hub().loop.now() + seconds
        for piece in pieces:
            if gevent.get_hub().loop.now() > end:
                raise ConnectionAbortedError
            yield piece

    return body


def through(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """As they come."""
    return pieces


@contextmanager
def holding(
    behind: int, body: Body, headers: Mapping[str, str] | None = None, pem: Path | None = None
) -> Iterator[int]:
    """The proxy in front of port ``behind``; yields its own port.

    :param headers: put on the answer in place of those that came, or added.
    :param pem: a file with key and certificate; then it speaks TLS.
    """

    def application(environ: dict[str, t.Any], start: t.Any) -> Iterator[bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", behind, timeout=60)
        path = f"{environ['PATH_INFO']}?{environ['QUERY_STRING']}"
        connection.request("GET", path, headers={"Via": "1.1 holding"})
        found = connection.getresponse()
        kept = {name: value for name, value in found.getheaders() if name.lower() in _KEPT}
        start(f"{found.status} {found.reason}", [*({**kept, **(headers or {})}).items()])

        def pieces() -> Iterator[bytes]:
            while piece := found.read1(65536):
                yield piece
            connection.close()

        return body(pieces())

    tls = {}
    if pem is not None:
        tls["ssl_context"] = context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem)
    server = WSGIServer(("127.0.0.1", 0), application, log=None, error_log=None, **tls)
    server.start()
    try:
        yield server.server_port
    finally:
        server.stop(timeout=1)
