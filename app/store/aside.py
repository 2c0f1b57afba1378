"""Slow work beside the hub: queries that may take long, and computing for the store.

Law of this room: a few native threads of the store's own. A caller that leaves, thrown out of its wait, stops its
query and takes nothing with it. A job sees no greenlet, logger or clock of the process.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Mapping

from gevent.threadpool import ThreadPool

from app.store.db import Backend, Row, Statement

#: Most jobs at once; further ones wait. More would only take the processor from the hub.
THREADS = 4

T = t.TypeVar("T")
_Outcome = tuple[t.Any, BaseException | None]


class Aside:
    """The threads. They start with the first job."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._pool: ThreadPool | None = None

    def rows(self, statement: Statement, values: Mapping[str, t.Any]) -> list[Row]:
        """All rows of a query that may take long.

        :raises StoreFailed: the database cannot be read.
        """
        return self._backend.slow(statement, values, self.run)

    def run(self, fn: Callable[[], T], stop: Callable[[], None] = lambda: None) -> T:
        """The result of ``fn()``, run in a thread.

        :param stop: called when the caller leaves before it has the result, which is then dropped.
        """
        if self._pool is None:
            self._pool = ThreadPool(THREADS)
        try:
            value, error = t.cast(_Outcome, self._pool.spawn(_outcome, fn).get())
        except BaseException:
            stop()
            raise
        if error is not None:
            raise error
        return t.cast(T, value)

    def close(self) -> None:
        """Let the threads end."""
        if self._pool is not None:
            self._pool.maxsize = 0
            self._pool = None


def _outcome(fn: Callable[[], t.Any]) -> _Outcome:
    """What ``fn`` gives, and what it raises, which the pool would print."""
    try:
        return fn(), None
    except BaseException as error:
        return None, error
