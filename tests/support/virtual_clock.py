"""A clock whose time passes only when nobody has anything left to do.

Law of this room: no second of a test passes on a wall. Whoever sleeps by this clock is woken in the order in which
their times are due, and the time is exactly that; so how long a run took is a whole number that can be compared.
"""

from __future__ import annotations

import heapq
import itertools

import gevent
import gevent.event

from app.clock import SystemClock


class VirtualClock(SystemClock):
    """See the module. Ids are real ones.

    :ivar now: milliseconds since the epoch of this clock, which is 0.
    """

    def __init__(self) -> None:
        self.now = 0
        self._order = itertools.count()
        self._sleepers: list[tuple[int, int, gevent.event.Event]] = []

    def now_ms(self) -> int:
        """See ``app.clock.Clock``."""
        return self.now

    def monotonic(self) -> float:
        """See ``app.clock.Clock``."""
        return self.now / 1000

    def sleep(self, seconds: float) -> None:
        """See ``app.clock.Clock``; whole milliseconds."""
        woken = gevent.event.Event()
        heapq.heappush(self._sleepers, (self.now + round(seconds * 1000), next(self._order), woken))
        woken.wait()

    def run_until(self, over: gevent.event.Event) -> int:
        """Let time pass until ``over`` is set; the time it is then.

        It goes on to the next sleeper only when the loop is idle: nothing else could happen at this time.
        """
        while not over.is_set():
            gevent.idle()
            if self._sleepers:
                self.now, _, woken = heapq.heappop(self._sleepers)
                woken.set()
            else:
                over.wait(0.01)  # what is left does not wait by this clock: the record is being stored
        return self.now
