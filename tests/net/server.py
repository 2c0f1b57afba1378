"""A scripted HTTP server: raw bytes out, the raw request in."""

from __future__ import annotations

import contextlib
import typing as t
from contextlib import AbstractContextManager

import gevent
from gevent.server import StreamServer


class Script:
    """Answers each connection with what ``answer(request, sock)`` sends; keeps the requests."""

    def __init__(self, answer: t.Callable[[bytes, t.Any], None]) -> None:
        self.requests: list[bytes] = []
        self.closed = gevent.event.Event()
        self._answer = answer
        self._server = StreamServer(("127.0.0.1", 0), self._serve)

    def __enter__(self) -> Script:
        self._server.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.stop()

    @property
    def port(self) -> int:
        return int(self._server.server_port)

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    def _serve(self, sock: t.Any, address: t.Any) -> None:
        with sock, contextlib.suppress(OSError):
            request = b""
            while b"\r\n\r\n" not in request:
                request += sock.recv(65536) or b"\r\n\r\n"
            head, _, body = request.partition(b"\r\n\r\n")
            for line in head.lower().split(b"\r\n"):
                if line.startswith(b"content-length:"):
                    while len(body) < int(line.split(b":")[1]):
                        body += sock.recv(65536)
            self.requests.append(head + b"\r\n\r\n" + body)
            self._answer(self.requests[-1], sock)
            sock.shutdown(1)
            while sock.recv(65536):
                pass
        self.closed.set()


def says(text: str, status: str = "200 OK", **headers: str) -> t.Callable[[bytes, t.Any], None]:
    """An answer of one text."""
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())

    def answer(request: bytes, sock: t.Any) -> None:
        data = text.encode()
        sock.sendall(f"HTTP/1.1 {status}\r\n{lines}Content-Length: {len(data)}\r\n\r\n".encode() + data)

    return answer


def silent(request: bytes, sock: t.Any) -> None:
    """Say nothing until the client hangs up."""
    while sock.recv(65536):
        pass


class Waits:
    """Counts how often something may block, and can refuse to."""

    def __init__(self) -> None:
        self.count = 0
        self.inside = False
        self.interrupt: BaseException | None = None

    def wait(self) -> AbstractContextManager[t.Any]:
        return self._wait()

    @contextlib.contextmanager
    def _wait(self) -> t.Iterator[None]:
        assert not self.inside, "waits do not nest"
        if self.interrupt is not None:
            raise self.interrupt
        self.count += 1
        self.inside = True
        try:
            yield
        finally:
            self.inside = False

    def progress(self) -> None: ...

    def idle_limit(self, seconds: float) -> AbstractContextManager[t.Any]:
        return contextlib.nullcontext()

    def gate(self) -> None: ...
