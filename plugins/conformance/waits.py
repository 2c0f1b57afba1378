"""The kit's own :class:`providers.spec.Waits`: plain, and it remembers how the wire used it.

Law of this room: as in a run, an interruption is thrown only inside ``wait()``, and at the entry of the next one.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import gevent
from greenlet import getcurrent

from providers.spec import ProviderError


class Cancelled(BaseException):
    """The kit cancelled the call. A BaseException, as a run's own is: no ``except Exception`` may swallow it."""


class Stuck(BaseException):
    """The wire neither ended nor could be interrupted in the time the kit gives it."""


class KitWaits:
    """What the wire under test is driven with.

    :ivar limits: seconds of each idle limit it opened. :ivar limited: how many are open now.
    :ivar gates: how often it asked the flow gate. :ivar moves: how often it said that the upstream moved.
    """

    def __init__(self) -> None:
        self.limits: list[float] = []
        self.limited = 0
        self.gates = 0
        self.moves = 0
        self._make: Callable[[], BaseException] | None = None
        self._waiting: set[t.Any] = set()

    @contextmanager
    def wait(self) -> Iterator[None]:
        """See ``providers.spec.Waits``."""
        if self._make is not None:
            raise self._make()
        waiter = getcurrent()
        self._waiting.add(waiter)
        try:
            yield
        finally:
            self._waiting.discard(waiter)

    def progress(self) -> None:
        """Count it."""
        self.moves += 1

    @contextmanager
    def idle_limit(self, seconds: float) -> Iterator[None]:
        """Remember it; the kit fires it itself, so that no test waits for time to pass."""
        self.limits.append(seconds)
        self.limited += 1
        try:
            yield
        finally:
            self.limited -= 1

    def gate(self) -> None:
        """Count it; the kit's reader is never behind."""
        self.gates += 1

    def fall_silent(self) -> None:
        """End the wait as the idle limit would; by :class:`Stuck` when the wire opened none."""
        if self.limited:
            self._interrupt(lambda: ProviderError("provider_idle", "The kit's vendor fell silent."))
        else:
            self._interrupt(lambda: Stuck("no idle limit is open while the wire waits"))

    def cancel(self) -> None:
        """End the call as Stop would."""
        self._interrupt(lambda: Cancelled("cancelled by the kit"))

    def _interrupt(self, make: Callable[[], BaseException]) -> None:
        self._make = make
        gevent.get_hub().loop.run_callback(self._deliver)

    def _deliver(self) -> None:
        while self._make is not None and self._waiting:
            self._waiting.pop().throw(self._make())


@contextmanager
def bounded(seconds: float) -> Iterator[None]:
    """End what runs inside after ``seconds`` by :class:`Stuck`, wherever it waits; native code is out of reach."""
    caller = getcurrent()
    timer = gevent.get_hub().loop.timer(seconds)
    timer.start(lambda: caller.throw(Stuck(f"nothing ended the call for {seconds:g} s")))
    try:
        yield
    finally:
        timer.stop()
        timer.close()
