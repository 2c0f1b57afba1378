"""The emitter: the sole, ordered writer of a run's stream.

Law of this room: :meth:`Emitter.emit` contains no switch point (no lock, queue, I/O or blocking log
handler; ``tests/engine/test_emitter.py`` traces greenlet switches), which alone makes it the one
ordered writer for any number of branches. It holds the terminal latch.
"""

from __future__ import annotations

import logging
import typing as t
from collections.abc import Mapping

from app.clock import Clock
from app.engine.run_log import RunLog
from app.events import Envelope, RunEvent, Terminal, ThinkingDelta
from app.state import BlockState, InvariantBroken, RunState

log = logging.getLogger("studio.emitter")

#: Most thinking per block and per run, in UTF-16 units (contract 3.3).
THINKING_CAP = 524_288


class Subscriber(t.Protocol):
    """Someone who follows a run. Both methods are synchronous and never switch greenlets."""

    def deliver(self, envelope: Envelope) -> None:
        """Take one envelope."""

    def flush(self) -> None:
        """Everything of this batch was delivered: send it."""


class Emitter:
    """See the module.

    :ivar late: events that came after the terminal. :ivar detached: subscribers that raised.
    """

    def __init__(self, clock: Clock, state: RunState, run_log: RunLog) -> None:
        self._now = clock.now_ms
        self._state = state
        self._log = run_log
        self._seq = 0
        self._subscribers: list[Subscriber] = []
        self._thinking_left = THINKING_CAP
        self._thinking_by_block: dict[str, int] = {}
        self._thinking_cut: list[str] = []  # no set: an empty one takes 216 bytes, and few are cut
        self.ended = False
        self.late = 0
        self.detached = 0

    def attach(self, subscriber: Subscriber) -> None:
        """Deliver from the next envelope on."""
        self._subscribers.append(subscriber)

    def detach(self, subscriber: Subscriber) -> None:
        """Deliver no more. Unknown subscribers are ignored."""
        if subscriber in self._subscribers:
            self._subscribers = [s for s in self._subscribers if s is not subscriber]

    def turn_of(self, state: BlockState) -> int:
        """The open turn of a block, -1 for none: also one of which nothing was told yet."""
        return state.turn

    def emit(self, event: RunEvent) -> None:
        """Give the event its place and hand it to state, log and subscribers.

        :raises InvariantBroken: it may not come here; then nothing was changed.
        """
        if self.ended:
            self.late += 1
            return
        if type(event) is ThinkingDelta:
            capped = self._cap(event)
            if capped is None:
                return
            event = capped
        envelope = Envelope(self._seq + 1, self._now(), event)
        self._state.apply(envelope)
        self.ended = self._state.terminal is not None
        self._show(envelope)

    def end(self, terminal: Terminal) -> None:
        """Emit the terminal. One that the fold refuses (a fault of ours) is shown all the same: no reader may
        wait for an end that never comes.
        """
        try:
            self.emit(terminal)
        except InvariantBroken:
            log.exception("the run was not in order at its end")
            self.ended = True
            self._show(Envelope(self._seq + 1, self._now(), terminal))

    # -- what is stored before it is shown -----------------------------------------------------

    def hold(self, event: RunEvent) -> Envelope:
        """The next envelope, which nobody has yet; until :meth:`release` or :meth:`resume` nothing is told."""
        self.ended = True
        return Envelope(self._seq + 1, self._now(), event)

    def release(self, envelope: Envelope) -> None:
        """Show what was held; nothing follows it."""
        try:
            self._state.apply(envelope)
        except InvariantBroken:
            log.exception("the run was not in order at its end")
        self._show(envelope)

    def resume(self) -> None:
        """What was held is not told after all, and the run goes on."""
        self.ended = False

    def go_on(self, seq: int) -> None:
        """The numbers up to this one are taken."""
        self._seq = seq

    def count_thinking(self, shown: Mapping[str, int]) -> None:
        """So much thinking was shown before, by block."""
        self._thinking_left -= sum(shown.values())
        self._thinking_by_block = {block: THINKING_CAP - units for block, units in shown.items()}
        self._thinking_cut = [block for block, left in self._thinking_by_block.items() if left <= 0]

    def _show(self, envelope: Envelope) -> None:
        self._seq += 1
        self._log.append(envelope)
        for subscriber in self._subscribers:
            try:
                subscriber.deliver(envelope)
            except Exception:
                self._drop(subscriber)

    def flush(self) -> None:
        """One batch is over: every subscriber sends what it has."""
        for subscriber in self._subscribers:
            try:
                subscriber.flush()
            except Exception:
                self._drop(subscriber)

    def _drop(self, subscriber: Subscriber) -> None:
        """A subscriber that raises is detached and counted; it can neither fail nor slow the run."""
        self.detached += 1
        self.detach(subscriber)
        log.exception("a subscriber raised and was detached")

    def _cap(self, event: ThinkingDelta) -> ThinkingDelta | None:
        """The event, cut where the cap is crossed; None past the one cut that was shown."""
        block, text = event.block, event.text
        left = min(self._thinking_left, self._thinking_by_block.get(block, THINKING_CAP))
        units = units_of(text)
        if units <= left:
            self._thinking_left -= units
            self._thinking_by_block[block] = self._thinking_by_block.get(block, THINKING_CAP) - units
            return event
        if block in self._thinking_cut:
            return None
        self._thinking_cut.append(block)
        self._thinking_by_block[block] = 0
        text = text.encode("utf-16-le", "surrogatepass")[: left * 2].decode("utf-16-le", "ignore")
        return ThinkingDelta(block, event.turn, text, event.redacted, True)


def units_of(text: str) -> int:
    """UTF-16 units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
