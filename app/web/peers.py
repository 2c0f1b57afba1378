"""Worker processes of one host reach one another: a Unix socket each, named after the owner of its runs.

Law of this room: whoever comes through it is a client like any other and sends its key. A socket appears under its
name only once somebody listens on it; one that nobody listens on any more is cleared away by the next to start.
"""

from __future__ import annotations

import logging
import os
import socket
import time
import typing as t
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import gevent
from gevent.server import StreamServer

log = logging.getLogger("studio.web")

_FOLDER, _SUFFIX = "run", ".sock"
_BACKLOG = 1024
#: Seconds between two attempts to get into a full backlog.
_RETRY_S = 0.05


class Listener:
    """The socket of this process."""

    def __init__(self, sock: socket.socket, path: Path) -> None:
        self.socket = sock
        self._path = path
        self._server: t.Any = None

    def serve(self, handle: Callable[[t.Any, t.Any], None]) -> None:
        """Call ``handle`` with the socket and the address of each client, in a greenlet of its own."""
        self._server = StreamServer(self.socket, handle)
        self._server.start()

    def close(self) -> None:
        """Take no more."""
        self._path.unlink(missing_ok=True)
        if self._server is not None:
            self._server.close()
        self.socket.close()


def listen(data_dir: Path, owner_id: str) -> Listener | None:
    """The listener of this process; None (and a line in the log) where there can be none."""
    folder = data_dir / _FOLDER
    try:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)  # who could put a socket of their own there would be sent keys
        _clear(folder)
        name = f"{owner_id}{_SUFFIX}"
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with _short(folder) as short:
            sock.bind(f"{short}/{name}.new")
        os.chmod(folder / f"{name}.new", 0o600)
        sock.listen(_BACKLOG)
        os.rename(folder / f"{name}.new", folder / name)
    except OSError as error:
        log.warning(
            "other processes cannot reach this one's runs: no socket can be made in %s (%s)", folder, error
        )
        return None
    return Listener(sock, folder / name)


def anybody(data_dir: Path) -> bool:
    """Whether a server runs on this data folder."""
    folder = data_dir / _FOLDER
    try:
        return any(_answers(folder, path.name.removesuffix(_SUFFIX)) for path in folder.glob(f"*{_SUFFIX}"))
    except OSError:
        return False


def connect(data_dir: Path, owner_id: str, timeout_s: float) -> socket.socket:
    """A connection to the process of this host that is this owner.

    :param timeout_s: how long it may take, and each read and write on it.
    :raises OSError: there is none, or it takes nobody in.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        until = time.monotonic() + timeout_s
        while not _connected(sock, data_dir / _FOLDER, f"{owner_id}{_SUFFIX}"):
            if time.monotonic() > until:
                raise TimeoutError(f"{owner_id} takes nobody in")
            gevent.sleep(_RETRY_S)
        sock.settimeout(timeout_s)
    except OSError:
        sock.close()
        raise
    return sock


def _connected(sock: socket.socket, folder: Path, name: str) -> bool:
    """False while its backlog is full: of such a socket nobody is told when there is room, and gevent would spin."""
    with _short(folder) as short:
        try:
            sock.connect(f"{short}/{name}")
        except BlockingIOError:
            return False
    return True


@contextmanager
def _short(folder: Path) -> Iterator[str]:
    """A name of the folder that fits into a socket's address, which holds 107 bytes."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _clear(folder: Path) -> None:
    for path in folder.glob(f"*{_SUFFIX}"):
        with suppress(OSError):
            if not _answers(folder, path.name.removesuffix(_SUFFIX)):
                path.unlink()


def _answers(folder: Path, owner_id: str) -> bool:
    """Whether somebody listens there.

    :raises OSError: nobody can say.
    """
    try:
        connect(folder.parent, owner_id, 1.0).close()
    except ConnectionRefusedError:
        return False
    return True
