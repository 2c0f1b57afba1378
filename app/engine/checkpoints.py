"""Keeping a durable run: its journal and what it said, in one transaction up to one moment.

Law of this room: what is captured at once was written and told without a switch in between, so what is stored is the
run as it stood at some moment; nothing here switches but what says that it waits. What could not be stored is stored
with the next checkpoint. A run that has changed hands stores nothing more.
"""

from __future__ import annotations

import logging
import typing as t
import weakref
from collections import deque
from collections.abc import Callable, Sequence

from gevent import get_hub

from app.engine import envelopes
from app.engine.durable_journal import DurableJournal, Unsaved
from app.events import Envelope
from app.store.checkpoints import Checkpoint, DecisionRow, LogBatch, Pause
from app.store.errors import StaleOwner, StoreFailed

if t.TYPE_CHECKING:
    from app.store.durable import Durable
    from app.store.sealing import Box
    from app.store.writer import Ticket

log = logging.getLogger("studio.runs")

_NOTHING = Unsaved((), ())
#: Numbers of events are reserved so many at a time, and as soon as so few are left.
RESERVE, NEAR = 1_000, 500


class _Flight(t.NamedTuple):
    """A checkpoint on its way."""

    ticket: Ticket
    unsaved: Unsaved
    checkpoint: Checkpoint


class Paused(t.NamedTuple):
    """A pause that is to be stored. ``last``: the envelope that tells it, shown once it is."""

    stored: Pause
    last: Envelope


class Keeper:
    """See the module. A subscriber of its run's emitter.

    :param reserved: numbers of events up to this one may be used. :param lost: called when the run has changed hands.
    :param box: what the journal is sealed with.
    :ivar frozen: nothing is stored any more.
    """

    def __init__(
        self,
        store: Durable,
        run_id: str,
        owner: str,
        epoch: int,
        reserved: int,
        lost: Callable[[], None],
        box: Box | None = None,
    ) -> None:
        self._store, self._run_id, self._owner = store, run_id, owner
        self.epoch = epoch
        self.reserved = reserved
        holder: Keeper = weakref.proxy(self)  # it is freed with its last use
        self.journal = DurableJournal(lambda: holder.changed(), box)
        self.frozen = False
        self._lost = lost
        self._said: list[Envelope] = []
        self._taken: list[str] = []
        self._withdrawn: list[str] = []
        self._late: list[LogBatch] = []
        #: That these numbers are reserved could not be stored.
        self._unreserved = False
        self._flying: deque[_Flight] = deque()
        self._scheduled = False

    # -- from the emitter ----------------------------------------------------------------------

    def deliver(self, envelope: Envelope) -> None:
        """Keep what was said, and reserve numbers before they are used."""
        self._said.append(envelope)
        if envelope.seq + NEAR > self.reserved and not self.frozen:
            self.reserved += RESERVE
            self._send(Checkpoint(seq_reserved=self.reserved))  # no cut: something may be half told

    def flush(self) -> None:
        """Nothing is sent."""

    # -- from the run --------------------------------------------------------------------------

    def changed(self) -> None:
        """There is something to store: it is captured when whoever wrote it has come to an end of its turn."""
        if not self._scheduled:
            self._scheduled = True
            get_hub().loop.run_callback(self._capture)

    def took(self, decision: str) -> None:
        """The run has taken note of an answer."""
        self._taken.append(decision)
        self.changed()

    def withdrew(self, decision: str) -> None:
        """Nobody needs an answer to this one any more."""
        self._withdrawn.append(decision)
        self.changed()

    def save(
        self,
        *,
        asks: Sequence[DecisionRow] = (),
        pause: Paused | None = None,
        release: bool = False,
    ) -> Ticket | None:
        """Store everything up to now; None when that is refused.

        :param pause: store this by itself, once the rest is: that is waited for.
        :raises StoreFailed: only with ``pause``: the rest could not be stored, so the pause was not tried.
        """
        self.reap()
        if self.frozen:
            return None
        self._send_late()
        said, self._said = self._said, []
        unsaved = self.journal.take()
        taken, self._taken = self._taken, []
        withdrawn, self._withdrawn = self._withdrawn, []
        unreserved, self._unreserved = self._unreserved, False
        ticket = self._send(
            Checkpoint(
                unsaved.steps,
                unsaved.forgotten,
                _batch(said) if said else None,
                asks,
                taken,
                withdrawn,
                seq_reserved=self.reserved if unreserved else None,
                release=release,
            ),
            unsaved,
        )
        if pause is None:
            return ticket
        # Whoever takes up a paused run has to find all of it. And where only the pause cannot be stored, the run goes
        # on as if it had never been tried.
        self.wait()
        return self._send(Checkpoint(log=_batch([pause.last]), pause=pause.stored))

    def end(self, last: Envelope) -> LogBatch | None:
        """What was said and not stored, with what is said last; nothing else is stored any more."""
        self.reap()
        if self.frozen:
            return None
        self.frozen = True
        self._send_late()
        said, self._said = [*self._said, last], []
        return _batch(said)

    def commit(self) -> None:
        """Wait until everything written so far is stored.

        :raises StaleOwner: the run belongs to another process. :raises StoreFailed: it could not be stored.
        """
        self.reap()
        if self.journal.dirty and self.save() is None and not self.frozen:
            raise StoreFailed(
                f"What run {self._run_id} is about to do cannot be stored: the store is closed."
            )
        self.wait()

    def wait(self) -> None:
        """Wait until what is on its way is stored; see :meth:`commit`."""
        try:
            for flight in tuple(self._flying):
                flight.ticket.wait()
        finally:
            self.reap()
        if self.frozen:
            raise StaleOwner(self._run_id)

    def freeze(self) -> None:
        """Store nothing any more."""
        self.frozen = True

    def reap(self) -> None:
        """See what became of what was on its way."""
        while self._flying and self._flying[0].ticket.done:
            flight = self._flying.popleft()
            try:
                flight.ticket.wait()
            except StaleOwner:
                self._gone()
            except StoreFailed:
                log.exception("run %s: a checkpoint could not be stored", self._run_id)
                self._give_back(flight.unsaved, flight.checkpoint)

    # -- within --------------------------------------------------------------------------------

    def _capture(self) -> None:
        self._scheduled = False
        if self.frozen or not (self.journal.dirty or self._taken or self._withdrawn):
            return
        self.save()

    def _send_late(self) -> None:
        while self._late:
            if self._send(Checkpoint(log=self._late.pop(0))) is None:
                return

    def _send(self, checkpoint: Checkpoint, unsaved: Unsaved = _NOTHING) -> Ticket | None:
        try:
            ticket = self._store.save(self._run_id, self._owner, self.epoch, checkpoint)
        except StoreFailed:  # it is closed
            log.exception("run %s: a checkpoint could not be stored", self._run_id)
            self._give_back(unsaved, checkpoint)
            return None
        self._flying.append(_Flight(ticket, unsaved, checkpoint))
        return ticket

    def _give_back(self, unsaved: Unsaved, checkpoint: Checkpoint) -> None:
        self.journal.give_back(unsaved)
        self._taken[:0] = checkpoint.taken
        self._withdrawn[:0] = checkpoint.withdrawn
        self._unreserved = self._unreserved or checkpoint.seq_reserved is not None
        if checkpoint.log is not None and checkpoint.pause is None:
            self._late.append(checkpoint.log)

    def _gone(self) -> None:
        if not self.frozen:
            self.frozen = True
            self._lost()


def _batch(said: Sequence[Envelope]) -> LogBatch:
    return LogBatch(said[0].seq, said[-1].seq, envelopes.packed(said))
