"""Keeps a helper process of ours running: one per host, started on first use, restarted when it died.

Law of this room: the helper holds the lock and writes the port file itself, so whoever needs it only
asks "is there a healthy one?" and starts one when not; of two started at once the second leaves.
Nothing here blocks the hub: every wait is a cooperative one inside ``waits.wait()``, so a run that
is cancelled meanwhile leaves, and the start goes on for the next.

A helper is called with the run-time directory and our process id as its last arguments. Its standard
input is a pipe from us that never carries anything: when it ends, the helper leaves.
"""

from __future__ import annotations

import json
import os
import time
import typing as t
from collections.abc import Callable, Sequence
from pathlib import Path

import gevent
from gevent import socket
from gevent.lock import BoundedSemaphore
from gevent.subprocess import DEVNULL, PIPE, Popen

from providers.spec import ProviderError, Waits

#: Exit code of a helper that found the lock held.
LOCKED = 3
#: What a helper sees of our environment: never keys or settings.
_ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "SYSTEMROOT")


class Address(t.NamedTuple):
    """Where a helper listens on loopback, and the key it asks for."""

    port: int
    token: str


class Supervisor:
    """One kind of helper.

    :param name: of its lock, port and log files: ``<name>.lock``, ``.json``, ``.log``.
    :param title: how messages call it, e.g. ``The local model``.
    :param command: program and arguments.
    :param runtime_dir: where those files are; shared by the workers of a host.
    :param cwd: the helper's working directory.
    :param check: called before each start; raises ``ProviderError`` when it cannot work.
    :param start_s: seconds a start may take.
    :param trust_s: seconds a health check is good for.
    """

    def __init__(
        self,
        name: str,
        title: str,
        command: Sequence[str],
        runtime_dir: Path,
        cwd: Path,
        check: Callable[[], None] = lambda: None,
        start_s: float = 60.0,
        trust_s: float = 5.0,
    ) -> None:
        self.name = name
        self.title = title
        self.starts = 0
        self._command = tuple(command)
        self._dir = runtime_dir.absolute()
        self._cwd = cwd
        self._check = check
        self._start_s = start_s
        self._trust_s = trust_s
        self._child: Popen[bytes] | None = None
        self._started_at = 0.0
        self._address: Address | None = None
        self._seen_at = 0.0
        self._failures = 0
        self._retry_at = 0.0
        self._one_starter = BoundedSemaphore(1)

    def ensure(self, waits: Waits) -> Address:
        """The address of a healthy helper; started if there is none.

        :raises ProviderError: ``provider_unavailable``: it cannot be started, or failed too often lately.
        """
        if self._address is not None and time.monotonic() - self._seen_at < self._trust_s and self._alive():
            return self._address
        # Waiting for another greenlet's start is a wait like any other; once in, the lock is ours.
        with waits.wait():
            self._one_starter.acquire()
        try:
            return self._find(waits) or self._start(waits)
        finally:
            self._one_starter.release()

    def doubt(self, address: Address) -> None:
        """Say that ``address`` did not answer; the next :meth:`ensure` looks again."""
        if self._address == address:
            self._address = None

    def stop(self, seconds: float = 5.0) -> None:
        """End the helper if it is ours; returns when it left or was killed."""
        child, self._child, self._address = self._child, None, None
        if child is None:
            return
        if child.stdin is not None:
            child.stdin.close()
        deadline = time.monotonic() + seconds
        while child.poll() is None and time.monotonic() < deadline:
            gevent.sleep(0.01)
        if child.poll() is None:
            child.kill()
            child.wait()

    def _alive(self) -> bool:
        return self._child is None or self._child.poll() is None

    def _find(self, waits: Waits) -> Address | None:
        """The helper there is, ours or another worker's, if it is healthy."""
        address = self._published()
        if address is None:
            return None
        with waits.wait():
            healthy = _healthy(address)
        if not healthy:
            return None
        self._address, self._seen_at = address, time.monotonic()
        return address

    def _published(self) -> Address | None:
        try:
            said = json.loads((self._dir / f"{self.name}.json").read_bytes())
            return Address(int(said["port"]), str(said["token"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _start(self, waits: Waits) -> Address:
        self._bury()
        self._back_off(waits)
        deadline = time.monotonic() + self._start_s
        inherited = self._child is not None
        while time.monotonic() < deadline:
            if self._child is None:
                self._spawn()
            with waits.wait():
                gevent.sleep(0.02)
            code = t.cast("Popen[bytes]", self._child).poll()
            address = self._find(waits)
            if address is not None:
                self._failures = 0
                return address
            if code is None:
                continue
            self._forget()
            if inherited:  # it was dying when it was last looked at: that was not this start's failure
                inherited = False
                continue
            if code != LOCKED:
                self._failed()
                raise self._unavailable(f"ended at its start with code {code}")
            with waits.wait():  # another worker's is starting; look again rather than race it
                gevent.sleep(0.2)
        self.stop(0.0)
        self._failed()
        raise self._unavailable(f"did not answer within {self._start_s:g} s of its start")

    def _bury(self) -> None:
        """Take note of a child of ours that died, or hangs."""
        if self._child is None:
            return
        young = time.monotonic() - self._started_at < 30.0
        if self._child.poll() is None:
            if self._address is None and young:
                return  # still loading: a start that was cancelled and goes on
            self.stop(0.0)
        self._forget()
        if young:
            self._failed()

    def _back_off(self, waits: Waits) -> None:
        """Wait out a short pause after a failure; refuse during a long one."""
        left = self._retry_at - time.monotonic()
        if left > 5.0:
            raise self._unavailable("failed several times in a row", retry_after=left)
        if left > 0:
            with waits.wait():
                gevent.sleep(left)

    def _failed(self) -> None:
        self._failures += 1
        self._retry_at = time.monotonic() + min(60.0, 0.25 * 2**self._failures)

    def _forget(self) -> None:
        if self._child is not None and self._child.stdin is not None:
            self._child.stdin.close()
        self._child = self._address = None

    def _spawn(self) -> None:
        self._check()
        self._dir.mkdir(parents=True, exist_ok=True)
        environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        with (self._dir / f"{self.name}.log").open("wb") as log:
            self._child = Popen(
                [*self._command, str(self._dir), str(os.getpid())],
                stdin=PIPE,
                stdout=DEVNULL,
                stderr=log,
                cwd=self._cwd,
                env=environment,
                start_new_session=True,  # Ctrl-C at a terminal reaches the server only
            )
        self._started_at = time.monotonic()
        self.starts += 1

    def _unavailable(self, what: str, retry_after: float | None = None) -> ProviderError:
        return ProviderError(
            "provider_unavailable",
            f"{self.title} {what}; see {self.name}.log in the run-time directory and try again.",
            detail=self._last_words(),
            retry_after=retry_after,
        )

    def _last_words(self) -> str:
        try:
            with (self._dir / f"{self.name}.log").open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - 2000))
                return log.read().decode(errors="replace").strip()
        except OSError:
            return ""


def _healthy(address: Address, timeout_s: float = 2.0) -> bool:
    """Whether a helper of ours answers: another program on the same port would not know the key."""
    request = (
        f"GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {address.token}\r\n"
        "Connection: close\r\n\r\n"
    )
    try:
        with socket.create_connection(("127.0.0.1", address.port), timeout_s) as connection:
            connection.sendall(request.encode())
            return bool(connection.recv(64).split(b" ")[1:2] == [b"200"])
    except OSError:
        return False
