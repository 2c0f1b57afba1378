"""How often somebody may try to guess something: counted in the database, so by all processes together.

Law of this room: a try is counted before it is judged, so that many at once are no more than one after the other; what
turns out to be right is given back. Nearest first: whoever has used up his own tries takes none of those of all. While
a count is at its end nothing is written.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from app.errors import ApiError
from app.web.http import services

log = logging.getLogger("studio.web")


@dataclass(frozen=True, slots=True)
class Limit:
    """``most`` tries of ``key`` in ``period_s`` seconds.

    :ivar what: of what there were too many. :ivar closes: what is closed to all when they are used up; the log says so.
    """

    key: str
    most: int
    period_s: float
    what: str
    closes: str = ""


def take(limits: Sequence[Limit]) -> None:
    """Count one try by each.

    :param limits: the nearest first.
    :raises ApiError: 429 ``rate_limited``: there were too many, and nothing may be judged.
    """
    counters = services().store.counters
    for at, limit in enumerate(limits):
        count = counters.read(limit.key)
        if count.value < limit.most:
            count = counters.hit(limit.key, limit.period_s)
            if count.value == limit.most and limit.closes:
                log.warning("too many %s: %s for %d s", limit.what, limit.closes, count.retry_after)
            if count.value <= limit.most:
                continue
        give_back(limits[:at])
        raise too_many(limit.what, count.retry_after)


def give_back(limits: Sequence[Limit]) -> None:
    """It was none: it was right, or not judged."""
    for limit in limits:
        services().store.counters.hit(limit.key, limit.period_s, -1)


def too_many(what: str, seconds: int) -> ApiError:
    """429. :param seconds: until it is worth to try again."""
    message = f"There were too many {what}. Try again in {seconds} s."
    return ApiError(429, "rate_limited", message, headers={"Retry-After": str(seconds)})


def closed(slug: str) -> str:
    """What the log says of a chat whose visitors' tries are used up."""
    return f"the chat '{slug}' lets nobody new in"
