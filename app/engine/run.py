"""One run: from its first event to its stored record.

Law of this room: whatever happens (failure, stop, timeout, shutdown, a failing sink, a fault of ours)
the run ends in exactly one terminal event, its record is stored before that event is shown, and no
greenlet or connection of it is left.
"""

from __future__ import annotations

import logging
import typing as t
from collections.abc import Mapping
from dataclasses import replace

import gevent
import msgspec
from gevent.event import Event

from app import events as ev
from app.engine import endings, leaving, pins, runners, settle
from app.engine.child import run_child
from app.engine.durable import DurableRun, box_of
from app.engine.emitter import Subscriber
from app.engine.following import Standing, following
from app.engine.frames import Frame
from app.engine.gate import FlowGate
from app.engine.journal import Journal
from app.engine.limits import QueueTime
from app.engine.memory import RunMemories
from app.engine.meters import Meter
from app.engine.observe.observer import RunObserver
from app.engine.readers import Readers
from app.engine.record import block_rows, run_row, usage_rows
from app.engine.redacting import emitter_of
from app.engine.redaction import redaction_of
from app.engine.region import RegionRun, run_body
from app.engine.resumption import Resumption
from app.engine.run_log import RunLog
from app.engine.run_request import RunRequest
from app.engine.scope import Cancelled, RunScope
from app.engine.services import Services
from app.engine.usage import usage_object
from app.redaction import log_lines
from app.state import RunState
from app.store.errors import StaleOwner
from app.workflows.compiled import CompiledBlock, Region
from app.workflows.regions import wanted
from plugins.spec.blocks import BodyResult

log = logging.getLogger("studio.runs")


class Run:
    """A live run. ``done`` is set once the record is stored and the terminal was delivered, or once it has left this
    process without an end.

    :param resumption: of a run that an earlier process began.
    :ivar redaction: what is masked in it; None where nothing is. :ivar box: seals what is stored of it meanwhile.
    :ivar durable: what it has if it is durable. :ivar paused: how it left, if it has paused.
    """

    def __init__(
        self,
        services: Services,
        request: RunRequest,
        on_end: t.Callable[[Run], None],
        resumption: Resumption | None = None,
    ) -> None:
        self.id = request.run_id
        self.request = request
        self.services = services
        self.resumption = resumption
        self.state = RunState() if resumption is None else resumption.state
        self.log = RunLog() if resumption is None else resumption.log
        self.gate = FlowGate()
        self.scope = RunScope(gate=self.gate)
        self.redaction = redaction_of(services, request, self.scope.cancel)
        self.emitter = emitter_of(services.clock, self.state, self.log, self.redaction)
        #: What it has used of its budgets; None: it has none.
        self.meter = self._meter() if request.budgets else None
        self.box = box_of(self)
        self.durable = self._durable()
        self.journal: Journal = Journal() if self.durable is None else self.durable.keeper.journal
        #: What agents remember of a run that is in nobody's thread.
        self.memories: RunMemories = {}
        self.done = Event()
        self.queue_time = QueueTime(services.clock.now_ms)
        self.created_at = services.clock.now_ms() if resumption is None else resumption.created_at
        self.detail = ""
        self.failed_model = ""
        #: Who looks at it from outside; None: nobody.
        self.observer: RunObserver | None = None
        self.ending: ev.Terminal | None = None
        #: The store knows that it has ended.
        self.is_recorded = False
        self.paused: ev.RunPaused | None = None
        #: How it stood when it was stopped.
        self.standing = Standing()
        #: Blocks whose failure an error edge took up, in order.
        self.caught: list[str] = []
        #: The block inside of others with whose end it is over; empty: none.
        self.came_to = ""
        self._on_end = on_end
        self._starter: object = None
        self.readers = Readers(
            request.on_disconnect, request.disconnect_grace_s, lambda: self.cancel("client_disconnected")
        )

    def _meter(self) -> Meter:
        request, services = self.request, self.services
        meter = Meter(request.budgets, services.store.spending, self.scope, services.clock, self.state.usages)
        meter.listen(self.state)
        return meter

    def _durable(self) -> DurableRun | None:
        if not self.request.workflow.durable:
            return None
        resumption, owner = self.resumption, self.services.store.owner_id
        made = (
            DurableRun(self, owner)
            if resumption is None
            else DurableRun(self, owner, resumption.epoch, resumption.reserved, resumed=True)
        )
        self.emitter.attach(made.keeper)
        return made

    # -- for surfaces ------------------------------------------------------------------------

    def attach(self, subscriber: Subscriber) -> None:
        """Deliver to ``subscriber`` from the next event on, and count it as a reader. The first one, before the run
        begins, is its starter.
        """
        if not self.log.last and not len(self.readers):
            self._starter = subscriber
        self.follow(subscriber)
        self.add_reader(subscriber)

    def add_reader(self, reader: object) -> None:
        """Count someone who waits for the result, or reads the log until it is up to date."""
        self.readers.add(reader)
        if len(self.readers) > 1:
            self.gate.open()  # one reader does not slow the others

    def sole(self, reader: object) -> bool:
        """Whether this is the starter and nobody else reads: then it may slow the run (contract 1.11)."""
        return reader is self._starter and self.readers.only(reader)

    def follow(self, subscriber: Subscriber) -> None:
        """Deliver to a reader from the next event on."""
        self.emitter.attach(subscriber)

    def unfollow(self, subscriber: Subscriber) -> None:
        """Deliver no more to a reader; it reads the log instead."""
        self.emitter.detach(subscriber)

    def reader_gone(self, reader: t.Any) -> None:
        """A reader left. The last one's leaving cancels the run where the workflow says so."""
        self.emitter.detach(reader)
        if reader is self._starter:
            self._starter = None
        if self.ending is None:
            self.readers.remove(reader)

    def cancel(self, cause: str) -> bool:
        """Ask the run to end; the first cause wins. False when it is already ending."""
        if self.ending is not None:
            return False
        if self.durable is not None and self.durable.leaving:
            self.durable.wish = self.durable.wish or cause
        else:
            self.scope.cancel(cause)
        return True

    def hand_over(self) -> bool:
        """Leave this process, so that another one goes on with the run; False when it cannot or is ending."""
        if self.durable is None or self.durable.leaving or self.scope.cause or self.ending is not None:
            return False
        self.durable.leaving = True
        self.scope.cancel(leaving.HANDED_OVER)
        return True

    @property
    def leaves(self) -> bool:
        """Whether it is about to leave this process without an end, or has."""
        return self.durable is not None and (self.durable.leaving or self.scope.cause in leaving.LEAVES)

    def still(self) -> None:
        """Nothing of it moves before somebody has decided. Called on the hub."""
        self.services.runs.pause(self)

    @property
    def status(self) -> str:
        """``running``, ``paused``, or the status of the end."""
        if self.ending is None:
            return "running" if self.paused is None else "paused"
        return settle.status_of(self.ending)

    def record(self) -> dict[str, t.Any]:
        """The run as the store would give it: its row, with ``blocks`` and ``usages``."""
        row = run_row(self, self.state.terminal)
        return {**row, "blocks": block_rows(self.state), "usages": usage_rows(self.state)}

    def record_started(self) -> dict[str, t.Any]:
        """The row that says the run was accepted."""
        return run_row(self, None)

    # -- the run's greenlet ------------------------------------------------------------------

    def main(self) -> None:
        """Run to the end. Never raises."""
        terminal: ev.Terminal | None = None
        if self.redaction is not None:
            log_lines.also(self.redaction.text)
        try:
            self.scope.deadline(self._time_left(), "execution_timeout")
            terminal = self._drive()
        except Cancelled:
            if self.scope.cause == "block_failed" and self.scope.error is not None:
                terminal = endings.failed(self, self.scope.error)
        except BaseException as exc:
            if self.scope.cause in (
                None,
                "block_failed",
            ):  # else it was stopped first, and this only followed
                terminal = endings.failed(self, exc)
            else:
                log.warning("run %s: %r while it was being stopped", self.id, exc)
        finally:
            if self._leaves(terminal):
                self._leave()
            else:
                self._end(terminal)

    def _time_left(self) -> float:
        """Seconds before its time is over; what it has used of it is the time in which it was active."""
        used = 0 if self.resumption is None else self.resumption.active_ms
        return max(0.0, self.request.timeout_s - used / 1000)

    def _drive(self) -> ev.Terminal:
        """Run the region that lies in no body, and with it everything."""
        request, workflow = self.request, self.request.workflow
        edges = [(e.source, e.handle, e.target) for e in workflow.edges]
        started = ev.RunStarted(self.id, request.workflow_id, workflow.infos(), edges)
        if self.resumption is None:
            self.emitter.emit(started)
        else:
            self.resumption.begin(self, started)
        if workflow.runner is not None:
            completed = runners.drive(self)
            self._within_budget()
            return completed
        last = RegionRun(self, self._root(), Frame(), self.scope).drive()
        self._within_budget()
        if self.scope.cause == "stop_requested":  # it was accepted, and the last block waited for nothing
            raise Cancelled(self.scope.cause)
        return endings.completed(self, last)

    def _within_budget(self) -> None:
        """:raises Cancelled: the last of it used more than may be, or it was to end anyhow."""
        if self.meter is not None:
            self.meter.check()

    def _root(self) -> Region:
        """What is scheduled first: from the start, or from the block that keeps the thread."""
        root, thread = wanted(self.request.workflow, self.request.stop_after), self.request.thread
        if thread is None or thread.pinned is None:
            return root
        entry = pins.entry(self.request.workflow, thread.pinned)
        if self.resumption is None or not self.state.flow_changed:
            self.emitter.emit(ev.FlowChanged(entry))
        return root if entry is None else replace(root, entries=(entry,))

    def enough(self, block: str) -> None:
        """A block inside of others has ended with which the run is over: whatever else goes on is given up."""
        self.came_to = self.came_to or block
        self.scope.cancel(endings.ENOUGH)

    def body(self, region: Region, frame: Frame, outer: RunScope) -> BodyResult:
        """See :func:`app.engine.region.run_body`."""
        return run_body(self, region, frame, outer)

    def child(
        self, block: CompiledBlock, frame: Frame, given: t.Any, outer: RunScope, told: bool = False
    ) -> t.Any:
        """See :func:`app.engine.child.run_child`."""
        return run_child(self, block, frame, given, outer, told)

    def visible(self) -> Mapping[str, Mapping[str, t.Any]]:
        """What templates see of the run's own blocks, by their ids; a child's stay its own."""
        return self.state.visible()

    def _leaves(self, terminal: ev.Terminal | None) -> bool:
        """Whether it leaves without an end; one that came to its end in spite of all has that."""
        cause = self.scope.cause
        return cause == leaving.LOST or (terminal is None and cause in leaving.LEAVES)

    def _leave(self) -> None:
        assert self.durable is not None
        leaving.leave(self, self.durable)
        self._over()

    def _over(self) -> None:
        self.scope.close()
        self._on_end(self)
        self.done.set()

    def _end(self, terminal: ev.Terminal | None) -> None:
        """Settle what is open, store the record, show the terminal. Each step survives the others' failure."""
        if terminal is None:
            terminal = endings.cancelled(self, self.scope.cause or "server_shutdown")
        if self.redaction is not None and self.redaction.broken:
            terminal = endings.without_words(terminal)
        self.ending = terminal
        self.readers.close()
        if isinstance(terminal, ev.RunCancelled):
            # Its upstream is closed. When a thousand clients leave at once, let the others close theirs before
            # the first of them writes its record.
            gevent.sleep(0)
        held: ev.Envelope | None = None
        stale = False
        try:
            terminal = self._settle(terminal)
            terminal = self.ending = settle.with_usage(terminal, self.usage())
            if self.durable is not None:
                held = self.emitter.hold(terminal)
            self._store(terminal, held)
        except StaleOwner:
            stale = self.durable is not None  # another process has the run, and tells its end
            log.warning("run %s has ended already, or belongs to another process", self.id)
        except Exception:
            log.exception("run %s: its end could not be recorded", self.id)
        finally:
            if stale:
                self._leave()
            else:
                self._show(terminal, held)

    def _settle(self, terminal: ev.Terminal) -> ev.Terminal:
        """End what the run left going, then what it left open in the stream; the terminal, knowing what was cut off."""
        try:
            if self.scope.greenlets:
                self.scope.cancel("ended")
                self.scope.join()
            if isinstance(terminal, ev.RunCancelled):
                terminal = msgspec.structs.replace(terminal, following=self._following())
            settle.run(self.emitter, self.state, terminal, self.services.clock.now_ms)
        except Exception:
            log.exception("run %s: what it left open could not be settled", self.id)
        return terminal

    def _following(self) -> tuple[str, ...]:
        running = {state.block for state in self.state.open_blocks()}
        return following(self.standing, running, tuple(self.request.workflow.blocks))

    def _show(self, terminal: ev.Terminal, held: ev.Envelope | None) -> None:
        try:
            if held is None:
                self.emitter.end(terminal)
            else:
                self.emitter.release(held)
            self.emitter.flush()
        except Exception:
            log.exception("run %s: its terminal event failed", self.id)
        finally:
            self._over()

    def _store(self, terminal: ev.Terminal, held: ev.Envelope | None) -> None:
        thread, store = self.request.thread, self.services.store
        if thread is not None and self.state.flow_changed:
            store.threads.pin(thread.id, self.id, thread.pins, self.state.pinned)
        said = None if self.durable is None or held is None else self.durable.end(held)
        row = run_row(self, terminal)
        store.runs.finished(row, block_rows(self.state), usage_rows(self.state), said).wait()
        self.is_recorded = True
        if self.redaction is not None and self.durable is not None:
            store.decisions.forget_answers(self.id)

    def usage(self) -> dict[str, t.Any]:
        """The usage object up to now."""
        now = self.services.clock.now_ms()
        duration = now - self.created_at
        queued, waited = self.queue_time.total_ms(now), 0
        if self.resumption is not None:
            queued += self.resumption.queued_ms
            waited = self.resumption.human_wait_ms
        times = {
            "durationMs": duration,
            "activeMs": duration - queued - waited,
            "queuedMs": queued,
            "humanWaitMs": waited,
        }
        return usage_object(self.state.usages, times)
