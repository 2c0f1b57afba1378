"""A server whose every byte a test decides, below HTTP: one function per connection."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import gevent
import gevent.server


class Peer:
    """One accepted connection."""

    def __init__(self, sock: t.Any) -> None:
        self.sock = sock
        self._read = sock.makefile("rb")

    def request(self) -> bytes:
        """The next request, head and body; b"" when the client left instead."""
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            line = self._read.readline()
            if not line:
                return b""
            head += line
        length = next(
            int(line.split(b":")[1])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length")
        )
        return head + t.cast(bytes, self._read.read(length))

    def send(self, data: bytes) -> None:
        """Send these bytes at once."""
        self.sock.sendall(data)

    def gone(self) -> None:
        """Return when the client has closed its connection."""
        while self._read.read(1):
            pass

    def reset(self) -> None:
        """Drop the connection with a reset."""
        self.sock.setsockopt(gevent.socket.SOL_SOCKET, gevent.socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        self._read.close()
        self.sock.close()


@contextmanager
def raw_server(handle: Callable[[Peer], None], **options: t.Any) -> Iterator[str]:
    """Serve on a free port of loopback; gives the address without a scheme."""

    def serve(sock: t.Any, _address: t.Any) -> None:
        try:
            handle(Peer(sock))
        except OSError:
            pass
        finally:
            sock.close()

    server = gevent.server.StreamServer(("127.0.0.1", 0), serve, **options)
    server.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.stop(timeout=1)
