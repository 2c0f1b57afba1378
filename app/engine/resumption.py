"""A run that an earlier process began: how it stood, and how it goes on.

Law of this room: what was told is not told again; what was cut off in the middle is closed before anything goes on. Its
state is the fold of what it said, its journal what it wrote, and nothing else is known of it.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from app import events as ev
from app.engine.emitter import units_of
from app.engine.replay import END, check_rows
from app.engine.run_log import RunLog
from app.errors import RunError
from app.state import BlockState, RunState

if t.TYPE_CHECKING:
    from app.engine.journal import Step
    from app.engine.run import Run
    from app.store.checkpoints import DecisionRow, StepRow
    from app.store.sealing import Box

_NOT_MADE = "The server stopped before this call was made. Nothing was run."


@dataclass(slots=True)
class Resumption:
    """See the module.

    :ivar epoch: of this process's writes. :ivar reserved: the last number of an event that may be used.
    :ivar last: the last number that may have been told; what is in no log up to it is lost.
    :ivar active_ms: how long it was active so far. :ivar queued_ms: how long it stood in line, also for a process.
    :ivar human_wait_ms: how long people were waited for, in all. :ivar waited: how long this time; None: they were not.
    :ivar doom: why it cannot go on. :ivar unread: its beginning is stored, and cannot be read.
    :ivar halt: why it ends as soon as something would have to run anew.
    :ivar box: opens what is stored of it; None: that is not sealed.
    """

    epoch: int
    reserved: int
    last: int
    created_at: int
    active_ms: int
    queued_ms: int
    human_wait_ms: int
    waited: int | None
    steps: Sequence[StepRow] = ()
    decisions: Sequence[DecisionRow] = ()
    said: Sequence[ev.Envelope] = ()
    doom: RunError | None = None
    unread: bool = False
    halt: str | None = None
    box: Box | None = None
    state: RunState = field(default_factory=RunState)
    log: RunLog = field(default_factory=RunLog)

    def restore(self, run: Run) -> None:
        """Give a run what it had. What cannot be taken over dooms it."""
        durable = run.durable
        assert durable is not None
        run.emitter.go_on(run.log.last)
        run.emitter.count_thinking(_thinking(self.said))
        durable.halt = self.halt
        asked = [e.event.pause_id for e in self.said if isinstance(e.event, ev.DecisionRequested)]
        durable.people.restore(self.decisions, asked)
        self.said = ()
        if self.doom is not None:
            return
        try:
            durable.keeper.journal.restore(self.steps)
            ends = durable.keeper.journal.steps("block")
            check_rows(run.request.workflow, ends)
        except RunError as error:
            self.doom = error
        except Exception as error:  # a row that is none of this program's
            self.doom = cannot(f"its journal cannot be read ({type(error).__name__})")
        else:
            run.caught = _caught(ends)
        self.steps = ()

    def begin(self, run: Run, started: ev.RunStarted) -> None:
        """Say what may be missing and that it goes on, and close what was cut off.

        :param started: told first where not even that is known to have been.
        :raises RunError: it cannot go on.
        """
        assert run.durable is not None
        emit = run.emitter.emit
        if run.state.started_at is None and not self.unread:
            emit(started)
        if run.log.last < self.last:  # numbers up to it may have been told
            first = run.log.last + 1
            run.emitter.go_on(self.last)
            emit(ev.Gap(first, self.last, "worker_lost"))
        if run.state.started_at is None:  # it is stored, and cannot be read
            emit(started)
        emit(ev.RunResumed(self.waited))
        for state in run.state.open_blocks():
            if state.turn >= 0:
                for event in _closing(state, run.services.clock.now_ms()):
                    emit(event)
        run.durable.people.catch_up()
        run.durable.keeper.changed()
        run.emitter.flush()
        if self.doom is not None:
            raise self.doom


def cannot(why: str) -> RunError:
    """The failure of a run that cannot go on."""
    return RunError("resume_failed", f"The run cannot go on from where it stood: {why}. Start a new run.")


def _closing(state: BlockState, now: int) -> Iterable[ev.RunEvent]:
    """The end of a turn that was cut off, and of the calls it had announced; it is asked again."""
    yield ev.TurnEnded(state.block, state.turn, "intermediate", "resumed")
    for call in list(state.calls.values()):
        if call.status is None and call.turn == state.turn:
            yield ev.ToolFinished(
                state.block,
                call.turn,
                call.id,
                call.name,
                "error",
                None,
                {"error": _NOT_MADE},
                now,
                call.started_at,
            )


def _thinking(said: Iterable[ev.Envelope]) -> Mapping[str, int]:
    """How much thinking was shown, by block, in UTF-16 units."""
    shown: dict[str, int] = {}
    for envelope in said:
        if isinstance(event := envelope.event, ev.ThinkingDelta):
            shown[event.block] = shown.get(event.block, 0) + units_of(event.text)
    return shown


def _caught(ends: Iterable[Step]) -> list[str]:
    """Blocks of the run's own whose failure an error edge took up, in order."""
    return [
        step.path
        for step in ends
        if step.key == END and step.value.handles == ("error",) and "/" not in step.path
    ]
