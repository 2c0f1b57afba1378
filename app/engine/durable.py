"""What a durable run has beside any other: what it keeps, who of it moves, whom it asks, what it has done already.

Law of this room: a run has it or has not from the beginning; whoever looks asks once, and pays nothing where there is
none.
"""

from __future__ import annotations

import typing as t
import weakref
from functools import partial

from gevent.event import Event

from app.engine.asking import People
from app.engine.checkpoints import RESERVE, Keeper
from app.engine.motion import Motion
from app.engine.replay import Replay

if t.TYPE_CHECKING:
    from app.engine.run import Run
    from app.events import Envelope
    from app.store.checkpoints import LogBatch
    from app.store.sealing import Box


def box_of(run: Run) -> Box | None:
    """What seals that with which a run goes on, where that holds more than it may show.

    :raises SecretsLocked: there is no key for it.
    """
    if run.resumption is not None:
        return run.resumption.box
    sealed = run.redaction is not None and run.request.workflow.durable
    return run.services.store.secrets.box() if sealed else None


class DurableRun:
    """See the module.

    :param epoch: of every write of this process. :param reserved: the last number of an event that may be used.
    :ivar resumed: an earlier process began it.
    :ivar leaving: it leaves this process without an end: it pauses or is handed over.
    :ivar stayed: it was leaving, and does not: its pause could not be stored.
    :ivar wish: why it should end, of a run that was asked to while it was leaving.
    :ivar halt: why it ends as soon as something would have to run anew, or nothing but people is waited for; for a
        paused run that is stopped.
    """

    def __init__(
        self, run: Run, owner: str, epoch: int = 1, reserved: int = RESERVE, resumed: bool = False
    ) -> None:
        store = run.services.store.durable
        # It holds all this, and is freed with its last use, not by a collection.
        holder: Run = weakref.proxy(run)
        lost = partial(run.scope.cancel, "owner_lost")
        self.owner = owner
        self.keeper = Keeper(store, run.id, owner, epoch, reserved, lost, run.box)
        self.replay = Replay(self.keeper.journal)
        self.people = People(holder, weakref.proxy(self))
        self.motion = Motion(lambda: holder.still())
        self.resumed = resumed
        self.leaving = False
        self.stayed = Event()
        self.wish: str | None = None
        self.halt: str | None = None

    def end(self, last: Envelope) -> LogBatch | None:
        """The run has ended; what it said last, to be stored with its record."""
        self.people.closed = True
        self.motion.close()
        return self.keeper.end(last)

    def close(self) -> None:
        """The run is over here."""
        self.people.closed = True
        self.motion.close()
        self.keeper.freeze()
