"""Durable runs that no process carries: whoever finds one goes on with it.

Law of this room: a run is taken by one statement of the store, so that of several who try one gets it. What is stored
says everything (an answer, a wish to stop, an owner that is gone); nothing has to reach this process by another way,
and what could not be done is done by the next look.
"""

from __future__ import annotations

import logging
import time
import typing as t
from collections.abc import Sequence

import gevent
from gevent.event import Event

from app.engine import leaving
from app.engine.recompiled import obstacle
from app.engine.resume import locked, resumed
from app.store.errors import StaleOwner, StoreFailed

if t.TYPE_CHECKING:
    from app.engine.registry import RunRegistry
    from app.engine.run import Run
    from app.engine.services import Services
    from app.store.checkpoints import Claim

log = logging.getLogger("studio.runs")

#: Runs that one look takes up at most.
MOST = 50
#: Seconds in which a run that is only to end comes to where it was; then it ends wherever it is.
HALT_S = 1.0
#: The age of a heartbeat elsewhere at which its process counts as dead.
DEAD_AFTER_S = 35.0
#: Seconds for which a run that this process cannot make is left to others; then nobody can, and it fails (contract
#: 7.4: within 60 s). :data:`LOOK_S`: how often is looked whether it still cannot.
LEAVE_S, LOOK_S = 45.0, 5.0


class Carrier:
    """What a registry has to do with the durable runs of all processes."""

    def __init__(self, services: Services, runs: RunRegistry) -> None:
        self._services = services
        self._runs = runs
        self._taking: dict[str, Event] = {}
        #: Runs that are this process's, and could not be begun yet: nobody else may take them.
        self._claims: dict[str, Claim] = {}
        #: Runs that this process cannot make: since when, and when that was looked at last.
        self._left: dict[str, tuple[float, float]] = {}

    def obstacle(self, run_id: str) -> str | None:
        """Why this process cannot go on with a run that no process carries; None: it can.

        :raises StoreFailed: the database cannot be read.
        """
        documents = self._services.store.durable.documents(run_id)
        if documents is None:
            return None
        return locked(self._services, documents) or obstacle(documents, self._services.compiler)

    def deliver(self, runs: Sequence[Run]) -> None:
        """Hand runs of this process the answers to what they ask, whoever got them."""
        asking = {run.id: run for run in runs if run.durable is not None and run.durable.people.waits}
        if not asking:
            return
        for row in self._services.store.decisions.settled_of(asking.keys()):
            durable = asking[row.run_id].durable
            if durable is not None:
                durable.people.deliver(row)

    def take(self, run_id: str, *, halt: str | None = None, address: str | None = None) -> Run | None:
        """Go on with a run that no process carries; the run, also when this process has it already.

        :param halt: do no more than to end it, for this reason. :param address: of who wants it to go on.
        """
        while (going := self._taking.get(run_id)) is not None:
            going.wait()
        live = self._runs.get(run_id)
        if live is not None and not live.leaves:
            return live
        if self._runs.draining:
            return None
        self._taking[run_id] = done = Event()
        try:
            if live is not None and not _has_left(live):
                if halt is not None:
                    live.cancel(halt)
                self.deliver([live])
                return live
            return self._claimed(run_id, halt, address)
        finally:
            del self._taking[run_id]
            done.set()

    def _claimed(self, run_id: str, halt: str | None, address: str | None) -> Run | None:
        store = self._services.store
        if halt is None and self._leaves_it(run_id):
            return None
        claim = self._claims.pop(run_id, None)
        if claim is None:
            claim = store.durable.claim(run_id, store.owner_id, asked=halt is not None)
        if claim is None:
            return None
        if claim.row["stop_requested"] is not None:  # of a process that did not come to it
            halt = "stop_requested"
        try:
            run = resumed(self._services, claim, self._runs.ended_here, halt)
        except StaleOwner:
            return None
        except Exception:
            self._claims[run_id] = claim
            raise
        if halt is not None:
            run.scope.deadline(HALT_S, halt)
        self._runs.begin(run, address=address)
        return run

    def sweep(self) -> None:
        """Settle questions whose time is up, and go on with runs that wait for a process."""
        store = self._services.store
        expired = {row.run_id for row in store.decisions.expire(self._services.clock.now_ms())}
        self.deliver([run for run_id in expired if (run := self._runs.get(run_id)) is not None])
        if self._runs.draining:
            return
        room = min(MOST, self._services.settings.max_streams - len(self._runs))
        if room <= 0:
            return
        found = store.durable.claimable(room + len(self._left), DEAD_AFTER_S)
        self._left = {run_id: since for run_id, since in self._left.items() if run_id in found}
        for run_id in (*self._claims, *found):
            try:
                self.take(run_id)
            except Exception:  # the others are no worse for it
                log.exception("run %s could not be taken up", run_id)

    def _leaves_it(self, run_id: str) -> bool:
        """Whether a run is left to other processes, since this one cannot make its workflow."""
        now = time.monotonic()
        since, looked = self._left.get(run_id, (now, -LOOK_S))
        if now - looked >= LOOK_S:
            why = self.obstacle(run_id)
            if why is None:
                self._left.pop(run_id, None)
                return False
            if run_id not in self._left:
                log.warning("run %s is left to other processes for %g s: %s", run_id, LEAVE_S, why)
            self._left[run_id] = since, now
        return now - since < LEAVE_S

    def pause(self, run: Run) -> None:
        """Pause a run, and go on at once with one that was answered or stopped meanwhile."""
        durable = run.durable
        if durable is None or not leaving.pause(run, durable):
            return
        run.done.wait()
        try:
            if durable.wish == "stop_requested":
                self.take(run.id, halt="stop_requested")
            elif self._services.store.durable.due(run.id):
                self.take(run.id)
        except StoreFailed:
            log.exception("run %s is paused; whether it was answered or stopped could not be read", run.id)


def _has_left(run: Run) -> bool:
    """Wait for a run that is about to leave; False: its pause could not be stored, so it goes on here."""
    if run.durable is not None:
        gevent.wait((run.done, run.durable.stayed), count=1)
    return run.done.is_set()
