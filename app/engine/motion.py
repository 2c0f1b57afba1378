"""Who of a durable run moves, and who waits for people.

Law of this room: every block that runs moves, but for the time in which it waits for what it runs itself, or for a
person. When nothing moves and somebody is waited for, the run may pause; that is said only after it was so for a
moment, since between two steps nothing seems to move either.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gevent import get_hub

#: Seconds in which nothing may have moved before a run pauses.
QUIET_S = 0.05
#: Turns of the hub after that, for the case that it was busy all the time.
_TURNS = 5


class Motion:
    """See the module.

    :param quiet: called, on the hub, when nothing has moved for a moment and people are waited for.
    """

    __slots__ = ("_asking", "_changes", "_closed", "_moving", "_quiet", "_timer")

    def __init__(self, quiet: Callable[[], None]) -> None:
        self._quiet = quiet
        self._moving = 0
        self._asking = 0
        self._changes = 0
        self._closed = False
        self._timer: t.Any = None

    @property
    def still(self) -> bool:
        """Nothing moves, and somebody waits for people."""
        return self._moving <= 0 < self._asking and not self._closed

    def step(self, change: int) -> None:
        """So many more move (or fewer, below 0)."""
        self._moving += change
        self._changed()

    def ask(self, change: int) -> None:
        """One that moved waits for a person from now on (1), or no longer does (-1)."""
        self._asking += change
        self._moving -= change
        self._changed()

    @contextmanager
    def aside(self, jobs: int = 0) -> Iterator[Callable[[], None]]:
        """One that moves waits for ``jobs`` that move in its place; each calls what this gives when it has ended."""
        left = jobs

        def ended() -> None:
            nonlocal left
            left -= 1
            self.step(-1)

        self.step(jobs - 1)
        try:
            yield ended
        finally:
            self.step(1 - left)  # those that never began do not move

    def look(self) -> None:
        """Wait for quiet anew, if nothing moves."""
        self._changed()

    def close(self) -> None:
        """The run is over, or leaves: nothing is said any more."""
        self._closed = True
        self._stop()

    def _changed(self) -> None:
        self._changes += 1
        if self.still and self._timer is None:
            self._arm()

    def _arm(self) -> None:
        self._timer = get_hub().loop.timer(QUIET_S)
        self._timer.start(self._fired, self._changes)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.stop()
            self._timer.close()
            self._timer = None

    def _fired(self, seen: int) -> None:
        self._stop()
        if not self.still:
            return
        if seen != self._changes:  # it moved in between, and stands again
            self._arm()
            return
        self._confirm(seen, _TURNS)

    def _confirm(self, seen: int, turns: int) -> None:
        """Behind whatever is due already: who was woken may not have had its turn yet."""
        if not self.still:
            return
        if seen != self._changes:
            self._changed()
        elif turns:
            get_hub().loop.run_callback(self._confirm, seen, turns - 1)
        else:
            self._quiet()
