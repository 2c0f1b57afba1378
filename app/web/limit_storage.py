"""Where rate limits are counted: the storage that ``limits`` has for Redis, and two of our own for it.

Law of this room: imported when something is counted for the first time. A window slides: it begins with the first run
that is counted, and what the one before it held counts by the part of that which is less than a window ago. No storage
may keep a request waiting for long, fill the memory, or hold up the streams of a worker.
"""

from __future__ import annotations

import time
import typing as t

from limits.storage import RedisStorage, Storage
from limits.storage.base import SlidingWindowCounterSupport
from limits.strategies import SlidingWindowCounterRateLimiter

from app.clock import SystemClock
from app.store.counters import Sliding, slid
from app.store.errors import StoreFailed
from app.web.limits import REDIS_S, log

if t.TYPE_CHECKING:
    from app.engine.services import Services
    from app.store.counters import Counters

#: Counts that a process keeps; beyond them, those of addresses and visitors begin again.
MOST = 50_000
#: Seconds between two looks for counts that are over.
_SWEEP_S = 60.0
#: Connections to Redis of a worker; each is used for a moment.
_CONNECTIONS = 200


def strategy(
    services: Services, kind: t.Literal["memory", "redis", "database"]
) -> SlidingWindowCounterRateLimiter:
    """What counts."""
    if kind == "database":
        return SlidingWindowCounterRateLimiter(DatabaseStorage(services.store.counters))
    if kind == "memory":
        return SlidingWindowCounterRateLimiter(Memory())
    return SlidingWindowCounterRateLimiter(_redis(str(services.settings.redis_url)))


def _redis(url: str) -> RedisStorage:
    return RedisStorage(
        url,
        key_prefix="studio",
        wrap_exceptions=True,
        socket_timeout=REDIS_S,
        socket_connect_timeout=REDIS_S,
        max_connections=_CONNECTIONS,
    )


class _Sliding(Storage, SlidingWindowCounterSupport):
    """A storage of ours: it counts in sliding windows, and in no other way that ``limits`` knows."""

    STORAGE_SCHEME = ["studio"]  # noqa: RUF012  # as its base has it; it is made here, never from an address

    def get_sliding_window(self, key: str, expiry: int) -> tuple[int, float, int, float]:
        """The count of the window before and for how many seconds some of it counts; the same of this window."""
        found = self.read(key, expiry)
        left_ms = found.left_ms
        before_s = (left_ms - 1) / 1000 if found.previous else 0.0
        return found.previous, before_s, found.current, left_ms / 1000 + expiry

    def read(self, key: str, expiry: int) -> Sliding:
        """Both counts as they are."""
        raise NotImplementedError

    def clear_sliding_window(self, key: str, expiry: int) -> None:
        """See its base."""
        self.clear(key)

    @property
    def base_exceptions(self) -> type[Exception]:
        """What it raises when the database fails."""
        return StoreFailed

    def check(self) -> bool:
        """See its base; who cannot use the database learns it when he does."""
        return True

    def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        """Of fixed windows."""
        raise NotImplementedError

    def get(self, key: str) -> int:
        """Of fixed windows."""
        raise NotImplementedError

    def get_expiry(self, key: str) -> float:
        """Of fixed windows."""
        raise NotImplementedError

    def reset(self) -> int | None:
        """Counts of others are in the same table."""
        raise NotImplementedError


class DatabaseStorage(_Sliding):
    """Counted by :class:`app.store.counters.Counters`: all processes together."""

    def __init__(self, counters: Counters) -> None:
        super().__init__()
        self._counters = counters

    def acquire_sliding_window_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        """See its base."""
        return self._counters.slide(key, limit, expiry)

    def read(self, key: str, expiry: int) -> Sliding:
        """See its base."""
        return self._counters.window(key, expiry)

    def clear(self, key: str) -> None:
        """See its base."""
        self._counters.clear(key)


class Memory(_Sliding):
    """Counts in the memory of this process, a bounded number of them.

    The storage that ``limits`` has for it begins its windows with the minute and the day, at each of which one run too
    many may start, and looks through all of its counts after almost every hit.
    """

    STORAGE_SCHEME = ["studio-memory"]  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        #: Counts of the window before and of the one now, when that ends, and how long it lasts (milliseconds).
        self.counts: dict[str, tuple[int, int, int, int]] = {}
        self._swept = time.monotonic()

    def acquire_sliding_window_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        """See its base."""
        if len(self.counts) >= MOST or time.monotonic() - self._swept > _SWEEP_S:
            self._sweep()
        now = _now_ms()
        found = self._at(key, expiry, now)
        if found.weight(expiry) + amount > limit:
            return False
        self.counts[key] = (found.previous, found.current + amount, now + found.left_ms, expiry * 1000)
        return True

    def read(self, key: str, expiry: int) -> Sliding:
        """See its base."""
        return self._at(key, expiry, _now_ms())

    def _at(self, key: str, expiry: int, now: int) -> Sliding:
        previous, current, end, _ = self.counts.get(key, (0, 0, 0, 0))
        return slid(previous, current, end - now, expiry * 1000)

    def clear(self, key: str) -> None:
        """See its base."""
        self.counts.pop(key, None)

    def _sweep(self) -> None:
        self._swept, now = time.monotonic(), _now_ms()
        for key in [key for key, (_, _, end, period) in self.counts.items() if end + period <= now]:
            del self.counts[key]
        if len(self.counts) < MOST:
            return
        log.warning("more than %d addresses and visitors have counts: theirs begin again", MOST)
        for key in [key for key in self.counts if key.startswith(("rate/address/", "rate/visitor/"))]:
            del self.counts[key]


def _now_ms() -> int:
    return SystemClock().now_ms()
