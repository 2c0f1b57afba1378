"""Native threads for tools that block or compute.

Law of this room: a pool of our own, never the hub's, where name look-ups live. A cancelled caller leaves
at once; what its thread brings later is dropped, and until then another thread takes its place: tools that hang
keep no others from running.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable

from gevent.threadpool import ThreadPool

from app.engine.scope import RunScope

#: Threads left behind that are made up for; more are taken from the size.
MAX_LEFT = 64
_T = t.TypeVar("_T")


class ToolThreads:
    """The tool threads of one process.

    :param size: most tools at once; further ones wait.
    """

    def __init__(self, size: int = 8) -> None:
        self._size = size
        self._pool: ThreadPool | None = None

    def run(self, fn: Callable[[], _T], scope: RunScope) -> _T:
        """The result of ``fn()`` run in a thread. A cancelled caller leaves at once; the late result is dropped."""
        if self._pool is None:
            self._pool = ThreadPool(self._size)
        job: t.Any = None
        try:
            with scope.wait():
                job = self._pool.spawn(_outcome, fn)
                value, error = job.get()
        except BaseException:
            if job is not None and not job.ready():
                self._make_up_for(job)
            raise
        if error is not None:
            raise error
        return t.cast(_T, value)

    def _make_up_for(self, job: t.Any) -> None:
        """Let another thread run for as long as that of ``job``, for which nobody waits any more."""
        pool = self._pool
        if pool is None or not self._size <= pool.maxsize < self._size + MAX_LEFT:
            return
        pool.maxsize += 1
        job.rawlink(lambda _: self._came_back())

    def _came_back(self) -> None:
        if self._pool is not None and self._pool.maxsize > self._size:
            self._pool.maxsize -= 1

    def close(self) -> None:
        """Let idle threads end."""
        if self._pool is not None:
            self._pool.maxsize = 0


def _outcome(fn: Callable[[], t.Any]) -> tuple[t.Any, Exception | None]:
    """What ``fn`` gives, and what it raises: the pool would print that, and end the process by some of it."""
    try:
        return fn(), None
    except Exception as error:
        return None, error
    except BaseException as error:
        broken = RuntimeError(f"raised {type(error).__name__}")
        broken.__cause__ = error
        return None, broken
