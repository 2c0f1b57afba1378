"""The run log: what a run said, kept for replay while it may still be asked for.

Law of this room: envelope objects only, never encoded bytes (each kept ``orjson`` result pins about
4 KB, ``docs/decisions/0008-log-keeps-objects.md``). Append-only; the oldest fall out first, and what fell out is
folded into ``base``, so that whoever comes later still learns how the run stood.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence

from app.events import Envelope, GapReason, TextDelta, ThinkingDelta
from app.state import RunState

_OVERHEAD = 120  # bytes of an envelope and its event beside the text


class RunLog:
    """A ring bounded by count and (approximate) bytes.

    :param max_count: most envelopes kept.
    :param max_bytes: most bytes kept, by estimate.
    :ivar base: how the run stood before the oldest envelope kept; None while nothing is missing.
    :ivar reason: why something is missing.
    :ivar bytes: of what is kept, by estimate: text is counted, other values are not.
    """

    def __init__(self, max_count: int = 20_000, max_bytes: int = 4 * 1024 * 1024) -> None:
        self._ring: deque[Envelope] = deque()
        self._kept: Sequence[Envelope] = self._ring
        self._max_count = max_count
        self._max_bytes = max_bytes
        self.bytes = 0
        self.base: RunState | None = None
        self.reason: GapReason = "evicted"

    @classmethod
    def rebuilt(cls, base: RunState, end: Envelope, reason: GapReason) -> RunLog:
        """The log of a run of which only this is known: how it stood before its end, and its end."""
        log = cls()
        log._kept = (end,)
        log.base = base
        log.reason = reason
        return log

    def append(self, envelope: Envelope) -> None:
        """Keep an envelope; evict what no longer fits."""
        ring, event = self._ring, envelope.event
        ring.append(envelope)
        # The common event first, without a call: this is once a token.
        self.bytes += _OVERHEAD + len(event.text) if type(event) is TextDelta else _size(envelope)
        while len(ring) > self._max_count or (self.bytes > self._max_bytes and len(ring) > 1):
            self._evict()

    def _evict(self) -> None:
        oldest = self._ring.popleft()
        self.bytes -= _size(oldest)
        if self.base is None:
            self.base = RunState()
        self.base.apply(oldest)

    def seal(self) -> None:
        """Nothing will follow. What is kept becomes a tuple, which the garbage collector looks at only once."""
        if self._kept is self._ring:
            self._kept = tuple(self._ring)
            self._ring = deque()

    @property
    def first(self) -> int:
        """Sequence number of the oldest envelope kept; 0 when empty."""
        return self._kept[0].seq if self._kept else 0

    @property
    def last(self) -> int:
        """Sequence number of the newest envelope; 0 when empty."""
        return self._kept[-1].seq if self._kept else 0

    def after(self, seq: int, count: int) -> list[Envelope]:
        """The next envelopes after ``seq``, at most ``count``. What was evicted is passed over (see ``base``)."""
        kept = self._kept
        if not kept:
            return []
        if self.last - self.first < len(kept):
            start = max(0, seq + 1 - self.first)
        else:  # numbers were left out where a process died
            start = bisect_right(kept, seq, key=_seq)
        return [kept[place] for place in range(start, min(start + count, len(kept)))]

    def __iter__(self) -> Iterator[Envelope]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)


def _seq(envelope: Envelope) -> int:
    return envelope.seq


def _size(envelope: Envelope) -> int:
    event = envelope.event
    if type(event) is TextDelta or type(event) is ThinkingDelta:
        return _OVERHEAD + len(event.text)
    return _OVERHEAD * 4
