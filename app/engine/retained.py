"""Runs that have ended and whose logs are kept for a while, for those who come (back) late.

Law of this room: bounded by age, count and bytes; the oldest go first. A run that is not here is read from its
record. Nothing of a run is held but its log and what it was started with.
"""

from __future__ import annotations

import time
import typing as t
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from app import events as ev
from app.engine.run_log import RunLog

if t.TYPE_CHECKING:
    from app.engine.run import Run
    from app.engine.run_request import RunRequest

#: Most runs kept, however small.
MAX_COUNT = 10_000
#: Bytes that a run takes beside its envelopes, by estimate.
_OVERHEAD = 2_000
#: What of an event may be large, beside streamed text, whose bytes the log counts itself.
_PAYLOADS: Mapping[type[ev.RunEvent], tuple[str, ...]] = {
    ev.AgentMessage: ("content",),
    ev.AnswerSettled: ("text",),
    ev.BlockFinished: ("output",),
    ev.RunCompleted: ("output", "outputs", "tool_calls"),
    ev.ToolExecuting: ("arguments",),
    ev.ToolFinished: ("arguments", "result"),
}
#: Characters of a text up to which it is not looked at.
_LONG = 50


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
    :ivar at: when it ended, on the monotonic clock. :ivar is_recorded: the store knew of its end: if it does not know
        the run any more, that was deleted.
    """

    request: RunRequest
    size: int
    at: float
    is_recorded: bool


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
        size = _OVERHEAD + run.log.bytes + _payload(run.log, self._max_bytes)
        if size > self._max_bytes:
            return
        request = replace(run.request, input=None)
        self._runs[run.id] = KeptRun(run.log, request, size, self._now(), run.is_recorded)
        self.bytes += size
        while self.bytes > self._max_bytes or len(self._runs) > MAX_COUNT:
            self._drop(next(iter(self._runs.values())))
        self.sweep()

    def get(self, run_id: str) -> KeptRun | None:
        """A run that is still kept."""
        self.sweep()
        return self._runs.get(run_id)

    def drop(self, run_id: str) -> None:
        """Let go of a run, if it is here."""
        if (kept := self._runs.get(run_id)) is not None:
            self._drop(kept)

    def sweep(self) -> None:
        """Let go of what is too old."""
        limit = self._now() - self._seconds
        while self._runs and (oldest := next(iter(self._runs.values()))).at <= limit:
            self._drop(oldest)

    def _drop(self, run: KeptRun) -> None:
        del self._runs[run.request.run_id]
        self.bytes -= run.size


def _payload(log: RunLog, enough: int) -> int:
    """Bytes, by estimate, of what a log holds beside streamed text: what blocks and tools were given and gave, and how
    the run stood before what is kept.

    :param enough: more than this need not be counted.
    """
    held: list[t.Any] = []
    for envelope in log:
        event = envelope.event
        if type(event) in _PAYLOADS:
            held += [getattr(event, name) for name in _PAYLOADS[type(event)]]
    if log.base is not None:
        for block in log.base.blocks.values():
            held += [block.output, block.live, block.settled, block.final_text, block.partial]
            for call in block.calls.values():
                held += [call.arguments, call.result]
    return _weight(held, enough)


def _weight(held: list[t.Any], enough: int) -> int:
    """Values hold one another more than once: each container, and each text that is long, counts once."""
    seen: set[int] = set()
    weight = 0
    left: list[t.Any] = [held]
    while left and weight <= enough:
        outer = left.pop()
        for value in outer.values() if isinstance(outer, dict) else outer:
            weight += 50
            if isinstance(value, (str, bytes)):
                if len(value) > _LONG and id(value) not in seen:
                    seen.add(id(value))
                    weight += len(value)
            elif isinstance(value, (dict, list, tuple)) and id(value) not in seen:
                seen.add(id(value))
                left.append(value)
    return weight
