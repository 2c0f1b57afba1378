"""How many model calls run at once: one line per family, fair between runs.

Law of this room: whoever took a slot gives it back however it ends, and whoever waits can leave at any
moment. Slots go round the runs that wait, first come first served within each, so that a run with fifty
calls in line holds up nobody for longer than one call.
"""

from __future__ import annotations

import contextlib
import typing as t
from collections import deque
from collections.abc import Callable

from gevent.event import Event

from app.engine.scope import RunScope

_FREE: t.ContextManager[int] = contextlib.nullcontext(0)


class QueueTime:
    """How long a run as a whole stood in line: whatever of it was running had to wait for a slot.

    :param now_ms: the run's clock; asked only while something waits.
    """

    __slots__ = ("_busy", "_now_ms", "_since", "_total", "_waiting")

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._busy = 0
        self._waiting = 0
        self._since: int | None = None
        self._total = 0

    def block(self, change: int) -> None:
        """A block began (1) or ended (-1)."""
        self._busy += change
        self._look()

    def line(self, change: int) -> None:
        """A call joined a line (1) or left it (-1)."""
        self._waiting += change
        self._look()

    def total_ms(self, now: int) -> int:
        """Milliseconds up to ``now``."""
        return self._total + (0 if self._since is None else max(0, now - self._since))

    def _look(self) -> None:
        stands = bool(self._waiting) and self._waiting >= self._busy
        if stands and self._since is None:
            self._since = self._now_ms()
        elif not stands and self._since is not None:
            self._total, self._since = self.total_ms(self._now_ms()), None


class _Waiter:
    __slots__ = ("granted", "ready", "run")

    def __init__(self, run: str) -> None:
        self.run = run
        self.granted = False
        self.ready = Event()


class Queue:
    """The slots of one family and those who wait for them.

    :ivar limit: how many there are; may change between calls.
    """

    __slots__ = ("_waiting_by_run", "active", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.active = 0
        #: Waiters by run; the first run is served next.
        self._waiting_by_run: dict[str, deque[_Waiter]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._waiting_by_run.values()))

    def take(self) -> bool:
        """Take a slot if one is free and nobody waits for it."""
        if self._waiting_by_run or self.active >= self.limit:
            return False
        self.active += 1
        return True

    def join(self, run: str) -> _Waiter:
        """Stand at the end of ``run``'s part of the line."""
        waiter = _Waiter(run)
        self._waiting_by_run.setdefault(run, deque()).append(waiter)
        return waiter

    def leave(self, waiter: _Waiter) -> None:
        """Go away without a slot; one that was granted in the meantime goes to the next."""
        if waiter.granted:
            self.release()
            return
        mine = self._waiting_by_run[waiter.run]
        mine.remove(waiter)
        if not mine:
            del self._waiting_by_run[waiter.run]

    def release(self) -> None:
        """Give a slot back."""
        self.active -= 1
        self.serve()

    def serve(self) -> None:
        """Give free slots to those who wait."""
        while self._waiting_by_run and self.active < self.limit:
            run = next(iter(self._waiting_by_run))
            mine = self._waiting_by_run.pop(run)
            waiter = mine.popleft()
            if mine:
                self._waiting_by_run[run] = mine  # at the end: the other runs come first
            self.active += 1
            waiter.granted = True
            waiter.ready.set()


class Slot:
    """One slot as a context manager; entering it waits, and gives the milliseconds that took."""

    __slots__ = ("_line", "_now_ms", "_run", "_scope", "_time")

    def __init__(
        self, line: Queue, run: str, scope: RunScope, now_ms: Callable[[], int], time: QueueTime
    ) -> None:
        self._line = line
        self._run = run
        self._scope = scope
        self._now_ms = now_ms
        self._time = time

    def __enter__(self) -> int:
        line = self._line
        if line.take():
            return 0
        since = self._now_ms()
        waiter = line.join(self._run)
        line.serve()  # the limit may have been raised
        self._time.line(1)
        try:
            with self._scope.wait():
                waiter.ready.wait()
        except BaseException:
            line.leave(waiter)
            raise
        finally:
            self._time.line(-1)
        return self._now_ms() - since

    def __exit__(self, *_exc: object) -> None:
        self._line.release()


class Limits:
    """The lines of one worker, by family."""

    def __init__(self) -> None:
        self._lines: dict[str, Queue] = {}

    def line(self, family: str, limit: int) -> Queue:
        """The line of ``family``, with ``limit`` slots from now on."""
        line = self._lines.get(family)
        if line is None:
            line = self._lines[family] = Queue(limit)
        line.limit = limit
        return line

    def slot(
        self,
        family: str,
        limit: int | None,
        run: str,
        scope: RunScope,
        now_ms: Callable[[], int],
        time: QueueTime,
    ) -> t.ContextManager[int]:
        """A slot for one model call of ``run``.

        :param limit: how many calls of ``family`` may run at once; None: no limit.
        :param scope: its cancellation ends the wait.
        :param time: told of the wait.
        """
        if limit is None:
            return _FREE
        return Slot(self.line(family, limit), run, scope, now_ms, time)
