"""Runs that have ended and whose logs are kept for a while, for those who come (back) late.

Law of this room: bounded by age, count and bytes; the oldest go first. A run that is not here is read from its
record. Nothing of a run is held but its log and what it was started with.
"""

from __future__ import annotations

import time
import typing as t
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace

from app import events as ev
from app.engine.run_log import RunLog

if t.TYPE_CHECKING:
    from app.engine.run import Run, RunRequest

#: Most runs kept, however small.
MAX_COUNT = 10_000
#: Bytes that a run takes beside its envelopes, by estimate.
_OVERHEAD = 2_000
_MAX_DEPTH = 12


@dataclass(frozen=True, slots=True)
class EndedRun:
    """What a reader needs of a run that has ended: what it said."""

    log: RunLog

    def sole(self, reader: object) -> bool:
        """See :class:`app.web.subscriber.Run`: there is nothing to slow down."""
        return False

    def follow(self, reader: object) -> None:
        """See :class:`app.web.subscriber.Run`: nothing follows."""

    def unfollow(self, reader: object) -> None:
        """See :class:`app.web.subscriber.Run`."""

    def reader_gone(self, reader: object) -> None:
        """See :class:`app.web.subscriber.Run`: nobody waits for its readers."""


@dataclass(frozen=True, slots=True)
class KeptRun(EndedRun):
    """One that is kept.

    :ivar request: what it was started with, but for its input. :ivar size: bytes, by estimate.
    :ivar at: when it ended, on the monotonic clock.
    """

    request: RunRequest
    size: int
    at: float


class Retained:
    """The ended runs of this process.

    :param seconds: how long one is kept; 0 keeps none. :param max_bytes: of all of them, by estimate.
    """

    def __init__(self, seconds: float, max_bytes: int, *, now: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._max_bytes = max_bytes
        self._now = now
        self._runs: OrderedDict[str, KeptRun] = OrderedDict()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._runs)

    def keep(self, run: Run) -> None:
        """A run has ended, its terminal is in its log."""
        if self._seconds <= 0:
            return
        run.log.seal()
        size = _OVERHEAD + run.log.bytes + _payload(run.ending)
        if size > self._max_bytes:
            return
        self._runs[run.id] = KeptRun(run.log, replace(run.request, input=None), size, self._now())
        self.bytes += size
        while self.bytes > self._max_bytes or len(self._runs) > MAX_COUNT:
            self._drop(next(iter(self._runs.values())))
        self.sweep()

    def get(self, run_id: str) -> KeptRun | None:
        """A run that is still kept."""
        self.sweep()
        return self._runs.get(run_id)

    def sweep(self) -> None:
        """Let go of what is too old."""
        limit = self._now() - self._seconds
        while self._runs and (oldest := next(iter(self._runs.values()))).at <= limit:
            self._drop(oldest)

    def _drop(self, run: KeptRun) -> None:
        del self._runs[run.request.run_id]
        self.bytes -= run.size


def _payload(end: ev.Terminal | None) -> int:
    """Bytes of what blocks and tools gave, by estimate: the end names all of it, other events share it."""
    return _weight((end.outputs, end.tool_calls), 0) if isinstance(end, ev.RunCompleted) else 0


def _weight(value: t.Any, depth: int) -> int:
    if isinstance(value, (str, bytes)):
        return 50 + len(value)
    if depth > _MAX_DEPTH:
        return 50
    if isinstance(value, dict):
        return 100 + sum(50 + _weight(item, depth + 1) for item in value.values())
    if isinstance(value, (list, tuple)):
        return 60 + sum(_weight(item, depth + 1) for item in value)
    return 30
