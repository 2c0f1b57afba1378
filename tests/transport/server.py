"""A real server in its own process, and a client that speaks bytes.

Law of this room: a test waits for a condition, with a bound far above what it usually takes.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import struct
import subprocess
import sys
import time
import typing as t
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from app import encoding

ROOT = Path(__file__).resolve().parents[2]
BOUND_S = 60.0


class Server:
    """A running server: its port, its process, what it wrote to stderr."""

    def __init__(self, environ: dict[str, str]) -> None:
        self.log = ""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "gunicorn", "-c", "tests/transport/conf.py", "tests.transport.app"],
            cwd=ROOT,
            env={**os.environ, **environ},
            stderr=subprocess.PIPE,
        )
        self.port = 0
        assert self.process.stderr is not None
        while not self.port:
            line = self.process.stderr.readline().decode()
            assert line, f"the server did not start:\n{self.log}"
            self.log += line
            if found := re.search(r"Listening at: http://127.0.0.1:(\d+)", line):
                self.port = int(found[1])

    def client(self, plan: dict[str, t.Any], **how: t.Any) -> Client:
        """Begin a stream."""
        return Client(self.port, plan, **how)

    def stats(self) -> dict[str, t.Any]:
        """What the worker holds now."""
        with socket.create_connection(("127.0.0.1", self.port)) as sock:
            sock.sendall(b"GET /stats HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            answer = b""
            while piece := sock.recv(65536):
                answer += piece
        return t.cast("dict[str, t.Any]", encoding.loads(answer.partition(b"\r\n\r\n")[2]))

    def until(self, condition: Callable[[dict[str, t.Any]], bool]) -> dict[str, t.Any]:
        """Wait until the worker's figures meet ``condition``."""
        end = time.monotonic() + BOUND_S
        while not condition(stats := self.stats()):
            assert time.monotonic() < end, stats
            time.sleep(0.02)
        return stats

    def stop(self) -> int:
        """SIGTERM to the master; its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        """Wait for the master to leave."""
        assert self.process.stderr is not None
        self.log += self.process.stderr.read().decode()
        return self.process.wait(BOUND_S)


@contextmanager
def serving(writer: str, **environ: str) -> Iterator[Server]:
    """A server whose streams use ``writer``; stopped at the end."""
    server = Server({"STUDIO_STREAM_WRITER": writer, **environ})
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.process.kill()
        server.process.wait()
        assert server.process.stderr is not None
        server.process.stderr.close()


class Client:
    """One stream, as bytes.

    :ivar head: status line and headers.
    :cvar begun: every client of the test, to be closed after it.
    """

    begun: t.ClassVar[list[Client]] = []

    def __init__(
        self,
        port: int,
        plan: dict[str, t.Any],
        *,
        path: str = "/stream",
        version: str = "1.1",
        method: str = "POST",
        pipelined: bytes = b"",
        receive_buffer: int | None = None,
    ) -> None:
        self.sock = socket.socket()
        if receive_buffer is not None:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.sock.settimeout(BOUND_S)
        self.sock.connect(("127.0.0.1", port))
        body = encoding.dumps(plan)
        head = f"{method} {path} HTTP/{version}\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        self.sock.sendall(head.encode() + body + pipelined)
        self.data = b""
        self.head = b""
        self.begun.append(self)

    def read_head(self) -> bytes:
        """Read the headers."""
        self.until(b"\r\n\r\n")
        self.head, _, self.data = self.data.partition(b"\r\n\r\n")
        return self.head

    def until(self, wanted: bytes) -> bytes:
        """Read until ``wanted`` was received; what was received so far."""
        data = bytearray(self.data)
        at = 0
        while data.find(wanted, at) < 0:
            at = max(0, len(data) - len(wanted))
            piece = self.sock.recv(65536)
            assert piece, f"closed before {wanted!r}: {data[-300:]!r}"
            data += piece
        self.data = bytes(data)
        return self.data

    def rest(self) -> bytes:
        """Read to the end of the connection; everything after the head."""
        while True:
            try:
                piece = self.sock.recv(65536)
            except ConnectionResetError:
                break
            if not piece:
                break
            self.data += piece
        self.sock.close()
        return self.data

    def reset(self) -> None:
        """Leave with RST."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def leave(self) -> None:
        """Leave with FIN."""
        self.sock.close()


def unchunked(data: bytes) -> bytes:
    """The body of a chunked answer; fails when it does not end properly."""
    body = b""
    while True:
        line, _, data = data.partition(b"\r\n")
        size = int(line, 16)
        if not size:
            assert data == b"\r\n"
            return body
        body += data[:size]
        assert data[size : size + 2] == b"\r\n"
        data = data[size + 2 :]
