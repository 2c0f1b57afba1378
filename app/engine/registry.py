"""The runs of this process: admission, start, look-up, drain.

Law of this room: a run never lives in a request's greenlet; a process refuses new runs once it
drains, and does not exit before each of its runs has ended.
"""

from __future__ import annotations

import logging
import typing as t
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

import gevent
from gevent.event import Event

from app.clock import first_id
from app.engine import leaving
from app.engine.carrying import Carrier
from app.engine.emitter import Subscriber
from app.engine.resume import started_of
from app.engine.retained import KeptRun, Retained
from app.engine.run import Run
from app.engine.run_request import RunRequest
from app.engine.scope import spawn_service, start_run, stop_service
from app.errors import ApiError

if t.TYPE_CHECKING:
    from app.engine.services import Services

__all__ = ["Run", "RunRegistry", "RunRequest"]

log = logging.getLogger("studio.runs")

#: Seconds between looks for dead owners, and the age at which one elsewhere counts as dead (contract 7.4: 60 s).
SWEEP_S = 10.0
#: Seconds between looks for runs of ours that another process was asked to stop (contract 7.2: within 1 s).
STOP_S = 0.5
DEAD_AFTER_S = 35.0
#: Seconds between looks for durable runs that wait for a process, and for questions whose time is up.
CARRY_S = 1.0
#: Seconds between looks for stored logs of durable runs that are too old.
LOGS_S = 60.0
#: Seconds between two transactions that delete old runs.
_BETWEEN_S = 0.05


class RunRegistry:
    """See the module."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._runs: dict[str, Run] = {}
        self._by_key: Counter[str] = Counter()
        self._by_address: Counter[str] = Counter()
        self._addresses: dict[str, str] = {}
        self._empty = Event()
        self._empty.set()
        self._tasks: list[t.Any] = []
        settings = services.settings
        self._retained = Retained(settings.run_log_s, settings.run_log_bytes)
        self._carrier = Carrier(services, self)
        self.draining = False

    def __len__(self) -> int:
        return len(self._runs)

    def open(self, carry_on: bool = True) -> None:
        """Announce this process and begin to look for runs whose process died; the store's writer beats.

        :param carry_on: go on with durable runs that no process carries; not for a process that will soon end.
        """
        if not self._tasks:
            store = self._services.store
            store.runs.heartbeat(store.owner_id)
            self._sweep()
            self._tasks = [
                spawn_service(self._every, SWEEP_S, self._sweep, "looking for lost runs"),
                spawn_service(self._every, STOP_S, self._stop_asked, "looking for runs to stop"),
                spawn_service(self._every, SWEEP_S, self._retained.sweep, "letting go of old run logs"),
            ]
            if carry_on:
                self._tasks += [
                    spawn_service(self._carry_on),
                    spawn_service(self._every, LOGS_S, self._sweep_logs, "deleting old logs of durable runs"),
                    spawn_service(self._every, LOGS_S, self._sweep_kept, "deleting what is too old"),
                ]
            self._tasks += self._services.observing.open(self._services)

    def admit(self, key_id: str | None, address: str | None) -> None:
        """Refuse before the first byte what could not be served.

        :raises ApiError: 503 ``draining`` or ``at_capacity``, 429 ``rate_limited``; all with ``Retry-After``.
        """
        settings = self._services.settings
        if self.draining:
            raise ApiError(
                503, "draining", "This server is shutting down; try again.", headers={"Retry-After": "1"}
            )
        if len(self._runs) >= settings.max_streams:
            raise ApiError(
                503,
                "at_capacity",
                f"All {settings.max_streams} runs of this server are taken (STUDIO_MAX_STREAMS); try again.",
                headers={"Retry-After": "5"},
            )
        for counter, name, limit in (
            (self._by_key, key_id, settings.max_streams_per_key),
            (self._by_address, address, settings.max_streams_per_address),
        ):
            if limit and name is not None and counter[name] >= limit:
                raise ApiError(
                    429,
                    "rate_limited",
                    f"{limit} runs are open already; wait for one to end.",
                    headers={"Retry-After": "5"},
                )

    def start(
        self,
        request: RunRequest,
        subscribers: Sequence[Subscriber] = (),
        readers: Sequence[object] = (),
        address: str | None = None,
    ) -> Run:
        """Start a run with its first readers attached, so that they miss nothing.

        :raises StoreFailed: the store is closed, or a durable run could not be stored; then nothing was started or
            counted.
        """
        run = Run(self._services, request, self.ended_here)
        if run.durable is None:
            self._services.store.runs.started(run.record_started())
        else:
            # Whoever is told of it finds it, whatever becomes of this process.
            self._services.store.durable.begin(run.record_started(), *started_of(request, run.box)).wait()
        self.begin(run, subscribers, readers, address)
        return run

    def begin(
        self,
        run: Run,
        subscribers: Sequence[Subscriber] = (),
        readers: Sequence[object] = (),
        address: str | None = None,
    ) -> None:
        """Let a run run whose row is stored, and count it."""
        self._services.observing.attach(run)
        for subscriber in subscribers:
            run.attach(subscriber)
        for reader in readers:
            run.add_reader(reader)
        self._runs[run.id] = run
        self._empty.clear()
        if run.request.key_id is not None:
            self._by_key[run.request.key_id] += 1
        if address is not None:
            self._by_address[address] += 1
            self._addresses[run.id] = address
        start_run(run.main)
        if self.draining:  # it was admitted before; those that ran then were told already
            _shut_down(run)

    # -- durable runs --------------------------------------------------------------------------

    def go_on(self, run_id: str, address: str | None = None) -> Run | None:
        """Let a durable run go on whose question was answered, or whose time to answer is up.

        :param address: of who wants it to.
        :returns: the run, where this process carries it now; None when another one does, or it has ended.
        :raises StoreFailed: the store cannot be read or written; then a sweep tries again.
        """
        run = self._runs.get(run_id)
        if run is not None and not run.leaves:
            self._carrier.deliver([run])
            return run
        return self._carrier.take(run_id, address=address)

    def obstacle(self, run_id: str) -> str | None:
        """Why this process cannot go on with a paused run, such as a plugin that it lacks; None: it can.

        :raises StoreFailed: the store cannot be read.
        """
        return self._carrier.obstacle(run_id)

    def stop(self, run_id: str) -> bool:
        """End a run that is paused; False when it is not, or no longer is.

        :raises StoreFailed: the store cannot be read or written.
        """
        return self._carrier.take(run_id, halt="stop_requested") is not None

    def pause(self, run: Run) -> None:
        """Nothing of a run moves before somebody has decided. Called on the hub."""
        start_run(partial(self._carrier.pause, run))

    def get(self, run_id: str) -> Run | None:
        """A live run of this process."""
        return self._runs.get(run_id)

    def ended(self, run_id: str) -> KeptRun | None:
        """A run that ended in this process and whose log is still kept."""
        return self._retained.get(run_id)

    def forget(self, run_id: str) -> None:
        """Let go of the log of a run that was deleted."""
        self._retained.drop(run_id)

    def live(self) -> list[Run]:
        """The live runs of this process, in order of their start."""
        return list(self._runs.values())

    def ended_here(self, run: Run) -> None:
        """A run has ended, or left this process."""
        self._runs.pop(run.id, None)
        self._services.observing.detach(run)
        if run.request.key_id is not None:
            _less(self._by_key, run.request.key_id)
        address = self._addresses.pop(run.id, None)
        if address is not None:
            _less(self._by_address, address)
        if not self._runs:
            self._empty.set()
        try:
            if run.ending is not None:
                self._retained.keep(run)
        except Exception:  # then it is told from its record; whoever waits for its end must not wait for ever
            log.exception("the log of run %s could not be kept", run.id)

    def drain(self, timeout_s: float) -> bool:
        """Take no new runs, hand durable ones over, cancel the others (``server_shutdown``), wait until all have left.

        :returns: whether all ended within ``timeout_s``.
        """
        self.draining = True
        for run in list(self._runs.values()):
            _shut_down(run)
        ended = bool(self._empty.wait(timeout_s)) or not self._runs
        if not ended:
            log.error("%d runs did not end within %g s", len(self._runs), timeout_s)
        return ended

    def close(self) -> None:
        """Stop looking."""
        for task in self._tasks:
            stop_service(task)
        self._tasks = []

    def _every(self, seconds: float, look: Callable[[], None], what: str) -> None:
        while True:
            gevent.sleep(seconds)
            try:
                look()
            except Exception:  # the next one may succeed; a failed one must not end the service
                log.exception("%s failed", what)

    def _carry_on(self) -> None:
        try:
            self._carrier.sweep()
        except Exception:
            log.exception("looking for durable runs that nobody carries failed")
        self._every(CARRY_S, self._carrier.sweep, "looking for durable runs that nobody carries")

    def _stop_asked(self) -> None:
        """Stop the runs of this process that others asked for, in the store: it is the one way that always works."""
        if not self._runs:
            return
        store = self._services.store
        for run_id in store.runs.stopping(store.owner_id):
            if (run := self._runs.get(run_id)) is not None:
                run.cancel("stop_requested")
        self._carrier.deliver(self.live())

    def _sweep_logs(self) -> None:
        older_than_ms = round(self._services.settings.run_log_s * 1000)
        while self._services.store.durable.sweep_logs(older_than_ms):
            pass  # there may be more

    def _sweep_kept(self) -> None:
        store, days = self._services.store, self._services.settings.audit_days
        for kept in (store.files, store.idempotency):
            while kept.sweep():
                pass  # there may be more
        before = first_id("aud", self._services.clock.now_ms() - days * 86_400_000)
        while days and store.audit.forget_before(before):
            pass
        self._sweep_runs(self._services.settings.run_days)

    def _sweep_runs(self, days: int) -> None:
        deleted = last = self._services.store.retention.sweep(days) if days else 0
        while last:
            gevent.sleep(_BETWEEN_S)  # others write, too
            deleted += (last := self._services.store.retention.sweep(days))
        if deleted:
            log.info("deleted %d runs that ended more than %d days ago", deleted, days)

    def _sweep(self) -> None:
        lost = self._services.store.runs.fail_lost(DEAD_AFTER_S)
        if lost:
            log.warning("%d run(s) of a process that died are now failed (worker_lost)", lost)
        self._services.store.idempotency.settle()
        self._services.store.spending.give_up(DEAD_AFTER_S)


def _shut_down(run: Run) -> None:
    """The process ends: another one goes on with what is durable."""
    if not run.hand_over():
        run.cancel(leaving.SHUT_DOWN)


def _less(counter: Counter[str], name: str) -> None:
    counter[name] -= 1
    if counter[name] <= 0:
        del counter[name]
