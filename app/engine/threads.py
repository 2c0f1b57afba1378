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
            value, error = t.cast(t.Any, self._pool.spawn(_outcome, fn)).get()
        if error is not None:
            raise error
        return value

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
