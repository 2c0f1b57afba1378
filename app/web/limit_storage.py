"""Where rate limits are counted: the storages of ``limits``, and one of our own over the database.

Law of this room: imported when something is counted for the first time. No storage may keep a request waiting for
long, fill the memory, or hold up the streams of a worker.
"""

from __future__ import annotations

import time
import typing as t

from limits.storage import MemoryStorage, RedisStorage, Storage
from limits.strategies import FixedWindowRateLimiter

from app.clock import SystemClock
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


def _now() -> float:
    """Seconds since the epoch, as the storages of ``limits`` read them."""
    return SystemClock().now_ms() / 1000


def strategy(services: Services, kind: t.Literal["memory", "redis", "database"]) -> FixedWindowRateLimiter:
    """What counts."""
    if kind == "database":
        return FixedWindowRateLimiter(DatabaseStorage(services.store.counters))
    if kind == "memory":
        return FixedWindowRateLimiter(BoundedMemory())
    return FixedWindowRateLimiter(_redis(str(services.settings.redis_url)))


def _redis(url: str) -> RedisStorage:
    return RedisStorage(
        url,
        key_prefix="studio",
        wrap_exceptions=True,
        socket_timeout=REDIS_S,
        socket_connect_timeout=REDIS_S,
        max_connections=_CONNECTIONS,
    )


class DatabaseStorage(Storage):
    """``limits`` counted by :class:`app.store.counters.Counters`: all processes together."""

    STORAGE_SCHEME = ["studio"]  # noqa: RUF012  # as its base has it; it is made here, never from an address

    def __init__(self, counters: Counters) -> None:
        super().__init__()
        self._counters = counters

    @property
    def base_exceptions(self) -> type[Exception]:
        """What it raises when the database fails."""
        return StoreFailed

    def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        """See :class:`limits.storage.Storage`."""
        return self._counters.hit(key, expiry, amount).value

    def get(self, key: str) -> int:
        """See :class:`limits.storage.Storage`."""
        return self._counters.read(key).value

    def get_expiry(self, key: str) -> float:
        """See :class:`limits.storage.Storage`."""
        return _now() + self._counters.read(key).reset_ms / 1000

    def check(self) -> bool:
        """See :class:`limits.storage.Storage`; who cannot use the database learns it when he does."""
        return True

    def reset(self) -> int | None:
        """See :class:`limits.storage.Storage`; counts of others are in the same table."""
        raise NotImplementedError

    def clear(self, key: str) -> None:
        """See :class:`limits.storage.Storage`."""
        self._counters.clear(key)


class _Never:
    """In the place of a timer: it looks as if it ran."""

    def is_alive(self) -> bool:
        return True

    def cancel(self) -> None:
        pass


class BoundedMemory(MemoryStorage):
    """Counts in the memory of this process. The storage of ``limits`` looks through all of its counts after almost
    every hit and keeps any number of them; here that is done once a minute, and the number is bounded.
    """

    STORAGE_SCHEME = ["studio-memory"]  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        self.timer.cancel()
        self.timer = t.cast(t.Any, _Never())
        self._swept = time.monotonic()

    def incr(self, key: str, expiry: float, amount: int = 1) -> int:
        """See :class:`limits.storage.MemoryStorage`."""
        if len(self.storage) >= MOST or time.monotonic() - self._swept > _SWEEP_S:
            self._sweep()
        return super().incr(key, expiry, amount)

    def _sweep(self) -> None:
        self._swept, now = time.monotonic(), _now()
        for key in [key for key, over in self.expirations.items() if over <= now]:
            self.clear(key)
        if len(self.storage) < MOST:
            return
        log.warning("more than %d addresses and visitors have counts: theirs begin again", MOST)
        for key in [key for key in self.storage if key.startswith(("rate/address/", "rate/visitor/"))]:
            self.clear(key)
