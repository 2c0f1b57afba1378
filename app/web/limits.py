"""How often runs may be started: of a key, a chat, its visitors, a public workflow, an address.

Law of this room: counting is what ``limits`` does (its sliding windows, its storages); who is counted as what is said
here. Only runs that could start are counted: this is the last check but that of the thread. A run that nobody limits
costs a look at two attributes. Where Redis does not answer, the database counts; never is nobody.
"""

from __future__ import annotations

import ipaddress
import logging
import math
import time
import typing as t
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec

from flask import Flask, Response, current_app, g, request

from app.errors import ApiError, StudioError
from app.schemas.limits import WINDOWS, Rates
from app.web.http import client_address, services

if t.TYPE_CHECKING:
    from limits import RateLimitItem
    from limits.storage.base import SlidingWindowCounterSupport
    from limits.strategies import SlidingWindowCounterRateLimiter as Limiter

    from app.config import Settings
    from app.engine.services import Services

log = logging.getLogger("studio.limits")

Kind = t.Literal["key", "address", "visitor", "chat", "workflow"]

#: Kinds that only who asks is counted by: what is left of them is told. Of the others it would tell what all do.
_OWN: t.Final = frozenset({"key", "address", "visitor"})
#: Seconds for which Redis is not asked after it did not answer, so that not every caller waits for it.
AGAIN_S = 5.0
#: Seconds to wait for Redis, twice at most: for a connection and for an answer.
REDIS_S = 1.0
_TOLD: t.Final = {
    "key": "This API key has started {0} runs in the last {1}, as many as it may",
    "address": "{0} runs were started from your address in the last {1}, as many as may be",
    "visitor": "You have sent {0} messages in the last {1}, as many as you may",
    "chat": "This chat is asked too often at the moment",
    "workflow": "This workflow is asked too often at the moment",
}


class Asked(t.NamedTuple):
    """One limit that a run is counted against: ``rates`` for ``subject``, for all times the same name of who it is."""

    kind: Kind
    subject: str
    rates: Rates


@dataclass(frozen=True, slots=True)
class _Window:
    kind: Kind
    subject: str
    unit: str
    item: RateLimitItem

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.unit}"


class _Left(t.NamedTuple):
    """What is left of a window, and in how many seconds more will be."""

    window: _Window
    remaining: int
    seconds: int


class RunLimits:
    """The limits of one process. What counts is made when something is counted for the first time; Redis's at once."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._first: Limiter | None = None
        self._second: Limiter | None = None
        self._down_until = -math.inf
        self._down = False
        check_package(services.settings)
        if storage_of(services.settings) == "redis":
            self._made()  # so that no request waits for the import

    def check(self, *asked: Asked) -> None:
        """Count a run that starts; the widest limit last, so that who is refused by his own uses up no other's.

        :raises ApiError: 429 ``rate_limited`` with ``Retry-After``.
        """
        windows = [window for each in asked for window in _windows(each)]
        if not windows:
            return
        try:
            self._check(windows, self._made())
        except Exception as error:
            if isinstance(error, ApiError) or not _is_storage_error(error):
                raise
            self._check(windows, self._fall_back(error))

    def _check(self, windows: list[_Window], strategy: Limiter) -> None:
        for window in windows:
            if not strategy.hit(window.item, window.kind, window.subject):
                shown = [each for each in windows if each.kind in _OWN or each is window]
                left = [_left(strategy, each) for each in shown]
                _tell(left)
                raise _refused(next(each for each in left if each.window is window))
        _tell([_left(strategy, each) for each in windows if each.kind in _OWN])
        if self._down and strategy is self._first:
            self._down = False
            log.warning(
                "Redis answers again: rate limits are counted there, from zero where they are new to it"
            )

    def _made(self) -> Limiter:
        """Where is counted now."""
        if self._first is None:
            from app.web import limit_storage

            self._first = limit_storage.strategy(self._services, storage_of(self._services.settings))
        if not self._down:
            return self._first
        now = time.monotonic()
        if now < self._down_until:
            return self._database()
        self._down_until = now + AGAIN_S  # one asks whether it is back, and only he may have to wait
        return self._first

    def _database(self) -> Limiter:
        if self._second is None:
            from app.web import limit_storage

            self._second = limit_storage.strategy(self._services, "database")
        return self._second

    def _fall_back(self, error: Exception) -> Limiter:
        self._down_until = time.monotonic() + AGAIN_S
        if not self._down:
            self._down = True
            log.error("Redis does not answer (%s): rate limits are counted in the database, from zero", error)
        return self._database()


def check(kind: Kind, subject: str, rates: Rates) -> None:
    """Count a run of the current request against one limit; see :meth:`RunLimits.check`."""
    check_all(Asked(kind, subject, rates))


def check_all(*asked: Asked) -> None:
    """Count a run of the current request against limits, the narrowest first; see :meth:`RunLimits.check`.

    :raises ApiError: 429 ``rate_limited``.
    """
    if any(each.rates for each in asked):
        t.cast(RunLimits, current_app.extensions["studio.limits"]).check(*asked)


def storage_of(settings: Settings) -> t.Literal["memory", "redis", "database"]:
    """What ``STUDIO_RATE_LIMIT_STORAGE`` comes to. A database server may serve several hosts: memory is for SQLite."""
    chosen = settings.rate_limit_storage
    if chosen != "auto":
        return t.cast("t.Literal['memory', 'redis', 'database']", chosen)
    if settings.redis_url is not None:
        return "redis"
    alone = settings.workers == 1 and settings.database_url.startswith("sqlite:")
    return "memory" if alone else "database"


def check_package(settings: Settings) -> None:
    """See that what counts can be had.

    :raises StudioError: Redis is configured and its package is not there.
    """
    if storage_of(settings) == "redis" and find_spec("redis") is None:
        message = (
            "STUDIO_REDIS_URL is set and the package redis is not installed. In Studio's folder: "
            '.venv/bin/python -m pip install -e ".[redis]"'
        )
        raise StudioError("redis_missing", message)


def network() -> str:
    """Who is behind the address of the current request: by this all is counted that addresses may have so much of."""
    return party(client_address(request.environ, services().settings.trusted_proxies))


def party(address: str) -> str:
    """Who is behind an address: itself, without a port; of IPv6 the network of 64 bits, all of which one customer has.

    :param address: as of :func:`app.web.http.client_address`.
    """
    text = address.strip()[:100]
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return text
    if found.version == 4:
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, 64), strict=False))


def _windows(asked: Asked) -> Iterator[_Window]:
    if not asked.rates:
        return
    import limits

    made = {
        "minute": limits.RateLimitItemPerMinute,
        "hour": limits.RateLimitItemPerHour,
        "day": limits.RateLimitItemPerDay,
    }
    for count, unit in asked.rates:
        yield _Window(asked.kind, asked.subject, unit, made[unit](count, 1, "rate"))


def _left(strategy: Limiter, window: _Window) -> _Left:
    """What ``get_window_stats`` of the strategy says, but for the instant at which a window begins: it takes that for
    its end.
    """
    period = WINDOWS[window.unit]
    key = window.item.key_for(window.kind, window.subject)
    storage = t.cast("SlidingWindowCounterSupport", strategy.storage)
    previous, previous_s, current, current_s = storage.get_sliding_window(key, period)
    remaining = window.item.amount - math.floor(previous * previous_s / period) - current
    more_s = float(period)
    if previous:  # one of them less counts
        more_s = previous_s % (period / previous) or period / previous
    if current:  # the window ends, and what is in it begins to count less
        more_s = min(more_s, current_s - period)
    # Who comes back must not be a moment too early.
    return _Left(window, max(0, remaining), min(period, max(0, math.floor(more_s)) + 1))


def _is_storage_error(error: Exception) -> bool:
    from limits.errors import StorageError

    return isinstance(error, StorageError)


def _refused(left: _Left) -> ApiError:
    window = left.window
    said = _TOLD[window.kind].format(window.item.amount, window.unit)
    message = f"{said}. Try again in {left.seconds} s."
    return ApiError(429, "rate_limited", message, headers={"Retry-After": str(left.seconds)})


def _tell(left: list[_Left]) -> None:
    """Let the answer say what is left, as draft-ietf-httpapi-ratelimit-headers has it. What is available and until when
    is named ``r`` and ``t`` up to its version 11, ``a`` and ``w`` from 12 on; parameters that are not known are ignored
    in all of them, so both are said.
    """
    if not left:
        return
    policy = (
        f'"{each.window.name}";q={each.window.item.amount};w={WINDOWS[each.window.unit]}' for each in left
    )
    now = (
        f'"{each.window.name}";r={each.remaining};t={each.seconds};a={each.remaining};w={each.seconds}'
        for each in left
    )
    g.rate_limit_headers = (", ".join(policy), ", ".join(now))


def _headers(response: Response) -> Response:
    told: tuple[str, str] | None = g.get("rate_limit_headers")
    if told is not None:
        response.headers["RateLimit-Policy"], response.headers["RateLimit"] = told
    return response


def install(app: Flask, services: Services) -> None:
    """Count runs of ``app``, and tell in its answers what is left.

    :raises StudioError: see :func:`check_package`.
    """
    app.extensions["studio.limits"] = RunLimits(services)
    app.after_request(_headers)
