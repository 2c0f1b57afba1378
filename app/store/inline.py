"""Small writes committed where they are asked for, on the hub, while nobody else writes.

Law of this room: never a wait. A transaction here costs less than handing it to the writer's thread does:
two threads that take turns with the interpreter cost 0.8 ms a run, this 0.2
(``docs/decisions/0007-small-writes-inline.md``). What would wait (the lock is taken), is large, or fails is left to
the thread, which has the patience and the words for it. Nothing here forces data to disk: a commit
with ``synchronous=NORMAL`` does not, and checkpoints are the thread's.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Sequence

from app.store.db import Backend, Link

#: Bytes of values above which a write is left to the thread.
MOST_BYTES = 128 * 1024


class Inline:
    """The hub's own connection for writing, if the database has such a thing."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._raw: t.Any = None

    def commit(self, jobs: Sequence[Callable[[Link], t.Any]]) -> list[t.Any] | None:
        """The results of ``jobs``, committed in one transaction; None when nothing was done."""
        raw = self._raw
        try:
            if raw is None:
                raw = self._raw = self._backend.connect_inline()
                if raw is None:
                    return None
            self._backend.begin(raw)
            link = Link(raw)
            values = [job(link) for job in jobs]
            self._backend.commit(raw)
        except Exception:  # Busy, a full disk, a job that says no: the thread repeats it and tells who waits
            self._undo(raw)
            return None
        except BaseException:
            self._undo(raw)
            raise
        return values

    def close(self) -> None:
        """Close the connection. Safe to call again."""
        if self._raw is not None:
            self._raw.close()
            self._raw = None

    def _undo(self, raw: t.Any) -> None:
        if raw is None:
            return
        try:
            self._backend.rollback(raw)
        except Exception:  # the connection is of no use any more; the next commit opens another
            self.close()
