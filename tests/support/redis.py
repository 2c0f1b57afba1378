"""A Redis of one's own: started on a free port, ended with the test. Without the program the test is skipped, and says
so (on CI that is a failure, ``tests/conftest.py``).
"""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.servers import free_port, wait_until


class Redis:
    """A server that can be stopped and started again on the same port; it forgets all in between."""

    def __init__(self, program: str, folder: Path) -> None:
        self._program, self._folder = program, folder
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Of its first database."""
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = {
            "port": self.port,
            "bind": "127.0.0.1",
            "save": "",
            "appendonly": "no",
            "dir": self._folder,
        }
        command = [
            self._program,
            *(word for name, value in options.items() for word in (f"--{name}", str(value))),
        ]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        wait_until(self._answers, "redis-server answers")

    def stop(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
            self._process = None

    def forget(self) -> None:
        """Have it forget all."""
        assert self._said(b"FLUSHALL") == b"+OK\r\n"

    def _answers(self) -> bool:
        try:
            return self._said(b"PING") == b"+PONG\r\n"
        except OSError:
            return False

    def _said(self, command: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", self.port), 5) as probe:
            probe.sendall(command + b"\r\n")
            return probe.recv(16)


@contextmanager
def redis(folder: Path) -> Iterator[Redis]:
    """A running :class:`Redis`."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("no Redis: install redis-server")
    made = Redis(program, folder)
    made.start()
    try:
        yield made
    finally:
        made.stop()
