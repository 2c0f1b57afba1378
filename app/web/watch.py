"""Notices that a client has gone while nothing is being written to it.

Law of this room: one epoll per worker watches every client socket for ``EPOLLRDHUP`` and is itself watched by
the hub, so a stream costs no descriptor and no greenlet. Callbacks run on the hub and may not block. A handle
is stopped before its socket is closed. A client that only shuts down its write side counts as gone.
"""

from __future__ import annotations

import functools
import select
import sys
import typing as t
from collections.abc import Callable, Mapping

from gevent import get_hub
from gevent.monkey import get_original

_READ = 1


class Handle:
    """One watched socket. ``callback`` may be exchanged while it waits; it is called at most once.

    Usable as a context manager: leaving it stops the watch.
    """

    __slots__ = ("_fd", "_watch", "callback")

    def __init__(self, watch: DisconnectWatch | None, fd: int, callback: Callable[[], None]) -> None:
        self._watch = watch
        self._fd = fd
        self.callback = callback

    def stop(self) -> None:
        """Watch no longer. May be called twice."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch._forget(self._fd, self)

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()


class DisconnectWatch:
    """See the module."""

    def __init__(self) -> None:
        # gevent takes select.epoll away; this one never waits, it is only asked when the hub saw it readable.
        epoll: type[select.epoll] = get_original("select", "epoll")
        self._epoll = epoll()
        self._handles: dict[int, Handle] = {}
        self._watcher = get_hub().loop.io(self._epoll.fileno(), _READ, ref=False)
        self._watcher.start(self._ready)

    def __len__(self) -> int:
        return len(self._handles)

    def watch(self, fd: int, callback: Callable[[], None]) -> Handle:
        """Call ``callback`` on the hub, once, when the peer of socket ``fd`` closes or resets.

        A second watch of the same socket replaces the first.
        """
        handle = Handle(self, fd, callback)
        if fd in self._handles:
            self._epoll.modify(fd, select.EPOLLRDHUP)
        else:
            self._epoll.register(fd, select.EPOLLRDHUP)
        self._handles[fd] = handle
        return handle

    def close(self) -> None:
        """Stop watching altogether."""
        self._watcher.stop()
        self._watcher.close()
        self._handles.clear()
        self._epoll.close()

    def _forget(self, fd: int, handle: Handle) -> None:
        if self._handles.get(fd) is handle:
            del self._handles[fd]
            self._unregister(fd)

    def _unregister(self, fd: int) -> None:
        try:
            self._epoll.unregister(fd)
        except (OSError, ValueError):
            pass  # somebody closed the socket first: the kernel has forgotten it by itself

    def _ready(self) -> None:
        for fd, _events in self._epoll.poll(0):
            handle = self._handles.pop(fd, None)
            self._unregister(fd)
            if handle is None:
                continue
            handle._watch = None
            try:
                handle.callback()
            except Exception:
                # An exception that reached the loop would stop the watcher, and with it every other stream's.
                get_hub().handle_error(handle, *sys.exc_info())


@functools.cache
def shared() -> DisconnectWatch:
    """The watch of this process; made on first use, so after the worker was forked."""
    return DisconnectWatch()


def watch_request(environ: Mapping[str, t.Any], callback: Callable[[], None]) -> Handle:
    """Watch the client of a request that is answered in its own greenlet.

    :returns: a handle to stop when the answer is ready; it watches nothing where there is no socket to watch
        (test client, other servers).
    """
    sock = environ.get("gunicorn.socket")
    fd = -1 if sock is None else sock.fileno()
    if fd < 0:
        return Handle(None, -1, callback)
    return shared().watch(fd, callback)
