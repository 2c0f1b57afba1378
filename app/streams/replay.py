"""Reading the log of a run from somewhere on, for one reader.

Law of this room: pure. A projection is led over everything from the first event before it may say something, so
what it says after an event is what it would have said live. Of what the log lost it is told how the run stood then.
"""

from __future__ import annotations

import typing as t
from collections.abc import Sequence

from app.events import Envelope, Gap, GapReason
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
            data = projection.frames(envelope)
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
