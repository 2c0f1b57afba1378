"""The run log: what a run said, kept for replay while it may still be asked for.

Law of this room: envelope objects only, never encoded bytes (each kept ``orjson`` result pins about
4 KB, ``docs/decisions/0008-log-keeps-objects.md``). Append-only; the oldest fall out first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from app.events import Envelope, Gap, TextDelta, ThinkingDelta

_OVERHEAD = 120  # bytes of an envelope and its event beside the text


class RunLog:
    """A ring bounded by count and (approximate) bytes.

    :param max_count: most envelopes kept.
    :param max_bytes: most bytes kept, by estimate.
    """

    def __init__(self, max_count: int = 20_000, max_bytes: int = 4 * 1024 * 1024) -> None:
        self._ring: deque[Envelope] = deque()
        self._max_count = max_count
        self._max_bytes = max_bytes
        self._bytes = 0

    def append(self, envelope: Envelope) -> None:
        """Keep an envelope; evict what no longer fits."""
        ring, event = self._ring, envelope.event
        ring.append(envelope)
        # The common event first, without a call: this is once a token.
        self._bytes += _OVERHEAD + len(event.text) if type(event) is TextDelta else _size(envelope)
        while len(ring) > self._max_count or (self._bytes > self._max_bytes and len(ring) > 1):
            self._bytes -= _size(ring.popleft())

    @property
    def first(self) -> int:
        """Sequence number of the oldest envelope kept; 0 when empty."""
        return self._ring[0].seq if self._ring else 0

    @property
    def last(self) -> int:
        """Sequence number of the newest envelope; 0 when empty."""
        return self._ring[-1].seq if self._ring else 0

    def after(self, seq: int) -> Iterator[Envelope]:
        """Envelopes after ``seq``, oldest first; an evicted range comes as one :class:`Gap` envelope before them."""
        if not self._ring or seq >= self.last:
            return
        if seq + 1 < self.first:
            yield Envelope(self.first - 1, self._ring[0].ts, Gap(seq + 1, self.first - 1, "evicted"))
        for envelope in tuple(self._ring):
            if envelope.seq > seq:
                yield envelope

    def __len__(self) -> int:
        return len(self._ring)


def _size(envelope: Envelope) -> int:
    event = envelope.event
    if type(event) is TextDelta or type(event) is ThinkingDelta:
        return _OVERHEAD + len(event.text)
    return _OVERHEAD * 4
