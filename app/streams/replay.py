"""Reading the log of a run from somewhere on, for one reader.

Law of this room: pure. A projection is led over everything from the first event before it may say something, so
what it says after an event is what it would have said live. Of what the log lost it is told how the run stood then. A
pause ends a stream only while nothing has come after it.
"""

from __future__ import annotations

import copy
import typing as t
from collections.abc import Iterator, Sequence

from app.events import Envelope, Gap, GapReason, RunPaused
from app.state import RunState
from app.streams.projection import Projection

#: Envelopes read at once: a stream that never blocks must let others have their turn.
SLICE = 16


class Log(t.Protocol):
    """What is read: :class:`app.engine.run_log.RunLog`."""

    base: RunState | None
    reason: GapReason

    @property
    def first(self) -> int:
        """Number of the oldest envelope kept; 0 when empty."""

    @property
    def last(self) -> int:
        """Number of the newest; 0 when empty."""

    def after(self, seq: int, count: int) -> Sequence[Envelope]:
        """The next ones, at most ``count``."""

    def __iter__(self) -> Iterator[Envelope]:
        """All that are kept."""


class Replay:
    """Where one reader is.

    :ivar cursor: number of the last envelope its projection was given.
    :ivar shown: number of the last envelope whose frames the reader has; no frame up to there is given out.
    """

    __slots__ = ("cursor", "shown")

    def __init__(self, cursor: int, shown: int) -> None:
        self.cursor = cursor
        self.shown = shown

    def next(self, projection: Projection, log: Log) -> bytes:
        """The frames of the next slice."""
        pieces = []
        if self.cursor < log.first - 1:
            pieces.append(self._skip(projection, log))
        for envelope in log.after(self.cursor, SLICE):
            self.cursor = envelope.seq
            event = envelope.event
            if type(event) is RunPaused and (log.last > envelope.seq or self.shown >= envelope.seq):
                continue  # it is over, or the reader knows of it and waits for what comes
            data = (
                projection.gap(envelope, _before(envelope, log))
                if type(event) is Gap
                else projection.frames(envelope)
            )
            if envelope.seq > self.shown:
                pieces.append(data)
        return b"".join(pieces)

    def _skip(self, projection: Projection, log: Log) -> bytes:
        """Pass over what was evicted."""
        assert log.base is not None
        (oldest,) = log.after(self.cursor, 1)
        self.cursor = last = log.first - 1
        gap = Envelope(last, oldest.ts, Gap(self.shown + 1, last, log.reason))
        data = projection.gap(gap, log.base)
        if self.shown >= last:
            return b""
        self.shown = last
        return data


def _before(gap: Envelope, log: Log) -> RunState:
    """How the run stood before what its process took with it when it died."""
    state = RunState() if log.base is None else copy.deepcopy(log.base)
    for envelope in log:
        if envelope.seq >= gap.seq:
            break
        state.apply(envelope)
    return state
