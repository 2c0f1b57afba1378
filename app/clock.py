"""Time and ids, the two things a run may not make up by itself.

Law of this room: nobody else reads a clock or draws an id for a run, so that tests can pass a
stepping clock and counted ids and compare whole streams as bytes.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import itertools
import os
import time
import typing as t
from datetime import UTC, datetime

#: From the digits of RFC 4648 to those of Crockford's base 32, lower case, which sort as their values do.
_CROCKFORD = bytes.maketrans(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", b"0123456789abcdefghjkmnpqrstvwxyz")

#: And from those to what ``int`` reads.
_VALUES = str.maketrans("jkmnpqrstvwxyz", "ijklmnopqrstuv")


def _encode(ten_bytes: bytes) -> str:
    """Sixteen digits."""
    return base64.b32encode(ten_bytes).translate(_CROCKFORD).decode()


class Clock(t.Protocol):
    """Gives time and ids."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""

    def monotonic(self) -> float:
        """Seconds that never go back; only differences mean something."""

    def sleep(self, seconds: float) -> None:
        """Let the time pass; others run meanwhile."""

    def new_id(self, prefix: str) -> str:
        """A fresh id ``<prefix>_<sortable>``, unique across processes."""


class SystemClock:
    """The machine's clock; ids carry 48 bits of time, then 80 random bits (the layout of ULID)."""

    def now_ms(self) -> int:
        """See :class:`Clock`."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """See :class:`Clock`."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """See :class:`Clock`; cooperative, for the process is patched."""
        time.sleep(seconds)

    def new_id(self, prefix: str) -> str:
        """See :class:`Clock`."""
        return f"{prefix}_{_encode(self.now_ms().to_bytes(10, 'big'))[6:]}{_encode(os.urandom(10))}"


class SteppingClock:
    """A clock for tests: each reading is ``step_ms`` later than the last; ids are counted per prefix."""

    def __init__(self, start_ms: int = 1_700_000_000_000, step_ms: int = 1) -> None:
        self._now = start_ms
        self._start = start_ms
        self._step = step_ms
        self._counts: dict[str, itertools.count[int]] = {}

    def now_ms(self) -> int:
        """See :class:`Clock`."""
        self._now += self._step
        return self._now

    def monotonic(self) -> float:
        """See :class:`Clock`."""
        return (self.now_ms() - self._start) / 1000

    def sleep(self, seconds: float) -> None:
        """See :class:`Clock`; takes no time but its own."""
        self._now += round(seconds * 1000)

    def new_id(self, prefix: str) -> str:
        """See :class:`Clock`."""
        return f"{prefix}_{next(self._counts.setdefault(prefix, itertools.count(1)))}"


def first_id(prefix: str, ms: int) -> str:
    """Higher than every id that a :class:`SystemClock` has made before ``ms``, and than none of the rest."""
    return f"{prefix}_{_encode(max(ms, 0).to_bytes(10, 'big'))[6:]}"


def time_of(id: str) -> int:
    """Epoch milliseconds at which a :class:`SystemClock` made an id; 0 for what is none of its ids."""
    _, _, digits = id.rpartition("_")
    if len(digits) != 26:
        return 0
    try:
        return int(digits[:10].translate(_VALUES), 32)
    except ValueError:
        return 0


def trace_id_of(run_id: str) -> str:
    """The trace id of a run, 32 hexadecimal digits: the 128 bits of an id that a :class:`SystemClock` made, written in
    another base; a digest of any other id. Everybody who tells of a run's trace has the same, without asking.
    """
    digits = run_id.rpartition("_")[2]
    if len(digits) == 26:
        try:
            value = int(digits.translate(_VALUES), 32)
        except ValueError:
            value = 0
        if 0 < value < 1 << 128:
            return f"{value:032x}"
    return hashlib.sha256(run_id.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def rfc3339(ms: int) -> str:
    """Epoch milliseconds as RFC 3339 UTC with milliseconds, the one spelling of an instant on the wire."""
    return f"{_second(ms // 1000)}.{ms % 1000:03d}Z"


@functools.lru_cache(maxsize=256)
def _second(second: int) -> str:
    return f"{datetime.fromtimestamp(second, UTC):%Y-%m-%dT%H:%M:%S}"
