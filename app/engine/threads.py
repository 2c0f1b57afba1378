"""Native threads for tools that block or compute.

Law of this room: a pool of our own, never the hub's, where name look-ups live. A cancelled caller leaves
at once; what its thread brings later is dropped.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable

from gevent.threadpool import ThreadPool

from app.engine.scope import RunScope


class ToolThreads:
    """The tool threads of one process.

    :param size: most tools at once; further ones wait.
    """

    def __init__(self, size: int = 8) -> None:
        self._size = size
        self._pool: ThreadPool | None = None

    def run(self, fn: Callable[[], t.Any], scope: RunScope) -> t.Any:
        """The result of ``fn()`` run in a thread. A cancelled caller leaves at once; the late result is dropped."""
        if self._pool is None:
            self._pool = ThreadPool(self._size)
        with scope.wait():
            return self._pool.spawn(fn).get()

    def close(self) -> None:
        """Let idle threads end."""
        if self._pool is not None:
            self._pool.maxsize = 0
