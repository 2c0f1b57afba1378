"""The timers of scopes: limits on silence and on steps, and the end of a scope's time.

Law of this room: a timer does nothing by itself; it asks its scope to interrupt or to cancel.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable

from gevent import get_hub

from providers.spec import ProviderError

if t.TYPE_CHECKING:
    from app.engine.scope import RunScope


class Idle:
    """A limit on silence: one lazy timer that looks at the last progress when it fires, so progress is one store."""

    __slots__ = ("last", "loop", "scope", "seconds", "timer")

    def __init__(self, scope: RunScope, seconds: float) -> None:
        self.scope = scope
        self.seconds = seconds
        self.loop = get_hub().loop
        self.last = 0.0
        self.timer: t.Any = None

    def __enter__(self) -> None:
        self.last = self.loop.now()
        self.timer = self.loop.timer(self.seconds)
        self.timer.start(self._fired)
        self.scope.idle = self

    def __exit__(self, *_exc: object) -> None:
        self.timer.stop()
        self.timer.close()
        scope = self.scope
        scope.idle = None
        if scope.cause is None:
            scope.calm()

    def _fired(self) -> None:
        left = self.last + self.seconds - self.loop.now()
        if self.scope.gated:  # gated time is the reader's, not the vendor's
            left = self.seconds
        if left > 0.0005:
            self.timer.close()
            self.timer = self.loop.timer(left)
            self.timer.start(self._fired)
        elif self.scope.cause is None:  # the first cause wins: a cancelled call is not idle
            self.scope.interrupt_with(self._error)

    def _error(self) -> BaseException:
        return ProviderError(
            "provider_idle",
            f"The model sent nothing for {self.seconds:g} s; try again or raise the idle limit.",
        )


class Limit:
    """A limit on a whole step, progress or not: when it is over, whoever waits gets the error that ``make`` makes."""

    __slots__ = ("make", "scope", "timer")

    def __init__(self, scope: RunScope, seconds: float, make: Callable[[], BaseException]) -> None:
        self.scope = scope
        self.make = make
        self.timer: t.Any = get_hub().loop.timer(seconds)

    def __enter__(self) -> None:
        self.timer.start(self._fired)

    def __exit__(self, *_exc: object) -> None:
        self.timer.stop()
        self.timer.close()
        if self.scope.cause is None:
            self.scope.calm()

    def _fired(self) -> None:
        if self.scope.cause is None:
            self.scope.interrupt_with(self.make)


class Deadline:
    """The end of a scope's time. It stands still while it is held."""

    __slots__ = ("_cause", "_due", "_left", "_loop", "_scope", "_timer")

    def __init__(self, scope: RunScope, seconds: float, cause: str) -> None:
        self._scope = scope
        self._cause = cause
        self._loop = get_hub().loop
        self._left = seconds
        self._timer: t.Any = None
        self.go()

    def go(self) -> None:
        """Let the rest of the time pass."""
        self._due = self._loop.now() + self._left
        self._timer = self._loop.timer(self._left)
        self._timer.start(self._scope.cancel, self._cause)

    def hold(self) -> None:
        """Let no time pass."""
        if self._timer is not None:
            self._left = max(0.0, self._due - self._loop.now())
            self.stop()

    def stop(self) -> None:
        """There is no end any more."""
        if self._timer is not None:
            self._timer.stop()
            self._timer.close()
            self._timer = None
