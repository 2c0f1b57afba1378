"""How often somebody may try to guess something: counted in the database, so by all processes together.

Law of this room: never more than the limit in any time that long. A try takes a place before it is judged, so that many
at once are no more than one after the other, and the place is free again when the time since is over; what turns out
to be right is given back. Nearest first: whoever has used up his own tries takes none of those of all. While no place
is free nothing is written.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from app.errors import ApiError
from app.web.http import services

log = logging.getLogger("studio.web")


@dataclass(frozen=True, slots=True)
class Limit:
    """``most`` tries of ``key`` in any ``period_s`` seconds.

    :ivar what: of what there were too many. :ivar closes: what is closed to all when they are used up; the log says so.
    """

    key: str
    most: int
    period_s: float
    what: str
    closes: str = ""


def take(limits: Sequence[Limit]) -> tuple[str, ...]:
    """Count one try by each.

    :param limits: the nearest first.
    :returns: what to give back if it was none (:func:`give_back`).
    :raises ApiError: 429 ``rate_limited``: there were too many, and nothing may be judged.
    """
    counters, places = services().store.counters, list[str]()
    for limit in limits:
        taken = counters.taken(limit.key, limit.most)
        place = counters.take(limit.key, limit.most, limit.period_s) if taken.value < limit.most else None
        if place is None:
            give_back(places)
            raise too_many(limit.what, counters.taken(limit.key, limit.most).retry_after)
        places.append(place)
        if limit.closes and taken.value + 1 >= limit.most:
            _tell_closed(limit)
    return tuple(places)


def give_back(places: Iterable[str]) -> None:
    """It was none: it was right, or not judged."""
    for place in places:
        services().store.counters.clear(place)


def too_many(what: str, seconds: int) -> ApiError:
    """429. :param seconds: until it is worth to try again."""
    message = f"There were too many {what}. Try again in {seconds} s."
    return ApiError(429, "rate_limited", message, headers={"Retry-After": str(seconds)})


def closed(slug: str) -> str:
    """What the log says of a chat whose visitors' tries are used up."""
    return f"the chat '{slug}' lets nobody new in"


def _tell_closed(limit: Limit) -> None:
    """Once in the time of the limit: places are free again one by one, and each of them is taken at once."""
    counters = services().store.counters
    taken = counters.taken(limit.key, limit.most)
    if taken.value >= limit.most and counters.hit(f"closed:{limit.key}", limit.period_s).value == 1:
        log.warning("too many %s: %s, for %d s at least", limit.what, limit.closes, taken.retry_after)
