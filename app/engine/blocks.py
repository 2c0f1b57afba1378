"""Running one block instance: its events, its deadline, its errors.

Law of this room: one ``BlockFinished`` per start whatever happens; a failed block with an ``error`` edge goes on
there, any other failure ends the region it is in.
"""

from __future__ import annotations

import logging
import typing as t
from collections.abc import Mapping

from gevent.event import Event

from app import events as ev
from app.agents import hashes
from app.engine import instances, pins, settle
from app.engine.budgets import EXCEEDED
from app.engine.context import RunningBlock
from app.engine.following import Bodies
from app.engine.given import given
from app.engine.instances import Inner
from app.engine.replay import BlockEnd, Fault, block_hash
from app.engine.scheduler import BlockRow
from app.engine.scope import Cancelled, RunScope
from app.engine.seen import seen_by
from app.errors import BlockError, RunError
from app.state import BlockState
from app.workflows.compiled import CompiledBlock

if t.TYPE_CHECKING:
    from app.engine.frames import Frame
    from app.engine.run import Run

log = logging.getLogger("studio.runs")


def run(run: Run, block: CompiledBlock, frame: Frame, outer: RunScope) -> BlockRow:
    """Run a block to its end; the row says which handles its end took.

    :raises BlockError: it failed and nothing takes its failure up.
    """
    row = _Instance(run, block, frame, outer).run()
    if block.id == run.request.stop_after and frame.owner is not None:
        run.enough(frame.name(block.id))
    return row


class _Instance:
    """One execution of one block in one frame."""

    __slots__ = (
        "_block",
        "_context",
        "_execution",
        "_frame",
        "_handles",
        "_outer",
        "_run",
        "_started",
        "name",
    )

    def __init__(self, run: Run, block: CompiledBlock, frame: Frame, outer: RunScope) -> None:
        self._run = run
        self._block = block
        self._frame = frame
        self._outer = outer
        self._handles: frozenset[str] = frozenset({""})
        self._context: RunningBlock | None = None
        self._started = run.services.clock.now_ms()
        self.name = frame.name(block.id)
        self._execution = 0

    def run(self) -> BlockRow:
        if self._outer.cause is not None:  # whatever has ended around it: nothing more starts
            raise Cancelled(self._outer.cause)
        durable = self._run.durable
        if durable is None:
            self._execution = self._run.state.executions(self.name) + 1
            return self._running()
        self._execution = durable.replay.visit(self.name)
        if durable.replay.was_cut(self.name, self._execution):
            with self._outer.wait():
                Event().wait()
        known = durable.replay.again(self.name, self._execution, self._hash())
        if known is not None:
            return known
        if durable.halt is not None and self._halts and not self._begun:
            self._run.scope.cancel(durable.halt)
            raise Cancelled(durable.halt)
        durable.motion.step(1)
        try:
            return self._running()
        finally:
            durable.motion.step(-1)

    @property
    def _begun(self) -> bool:
        """Whether an earlier process began this execution, and nobody has ended it."""
        known = self._run.state.blocks.get(self.name)
        return known is not None and known.status == "running" and known.execution == self._execution

    @property
    def _halts(self) -> bool:
        """Whether it is only brought to where it was, since the run is to end."""
        durable = self._run.durable
        return durable is not None and durable.halt is not None and not self._contains

    def _wait_for_others(self) -> None:
        """Where it is only brought to where it was, the others that ran beside it are, too, before the run ends."""
        durable = self._run.durable
        if durable is None or not self._halts or self._run.scope.cause is not None:
            return
        durable.motion.ask(1)
        try:
            with self._outer.wait():
                Event().wait()
        finally:
            durable.motion.ask(-1)

    @property
    def _contains(self) -> bool:
        """Whether it runs other blocks."""
        return bool(self._block.bodies) or self._block.child is not None

    def _hash(self) -> str:
        return block_hash(self._run.request.workflow, self._block)

    def _begin(self) -> None:
        """Tell that it begins, unless an earlier process has."""
        run, block = self._run, self._block
        standing = run.state.blocks.get(self.name)
        if standing is not None:
            if self._begun:
                self._started = standing.started_at or self._started
                return
            if standing.final_text or standing.partial:
                run.emitter.emit(ev.AnswerRetracted(self.name, "iteration"))
        told = given(block, seen_by(run, self._frame), self._shown) if run.request.draft else None
        run.emitter.emit(ev.BlockStarted(self.name, block.type.type_name, block.name, self._execution, told))
        run.emitter.flush()  # it may be silent for long

    def _shown(self, value: t.Any) -> t.Any:
        """A value as it may be told."""
        return value if self._run.redaction is None else self._run.redaction.other(value, self.name)

    def _running(self) -> BlockRow:
        run = self._run
        self._begin()
        counts = 0 if self._contains else 1  # what a container runs counts by itself
        run.queue_time.block(counts)
        try:
            output = self._output()
        except BlockError as error:
            if error.block is None:
                error.block = self.name
            row = self._failed(error)
            if row is None:
                raise
            return row
        except Cancelled:
            self._wait_for_others()
            self._cut_off()
            raise
        else:
            return self._executed(output)
        finally:
            run.queue_time.block(-counts)
            # They hold each other: a run is freed with its last use, not by a collection.
            self._context = None

    def _output(self) -> Mapping[str, t.Any]:
        """The block's output, after up to ``retries`` further attempts."""
        for number in range(1, self._block.retries + 1):
            if self._failed_before(number):
                continue
            try:
                return self._attempt(number)
            except BlockError as error:
                state = self._run.state.blocks[self.name]
                # Something was shown: a repeat would show it twice.
                if state.calls or state.live or state.spoke or error.code == EXCEEDED:
                    raise  # and what a workflow has used up is used up again
                settle.turn(self._run.emitter, state)
                self._note_try(number, error)
        return self._attempt(self._block.retries + 1)

    def _failed_before(self, number: int) -> bool:
        """Whether this try of a container has failed in an earlier process; any other block begins with the first."""
        durable = self._run.durable
        return (
            durable is not None
            and self._contains
            and durable.replay.failed(self.name, self._execution, f"try {number}") is not None
        )

    def _note_try(self, number: int, error: BlockError) -> None:
        if self._run.durable is not None and self._contains:
            end = BlockEnd("failed", visits=self._visits(), fault=Fault.of(error))
            self._run.durable.replay.write(self.name, self._execution, end, key=f"try {number}")

    def _note(self, row: BlockRow, fault: Fault | None = None, cut: bool = False) -> BlockRow:
        """Take down how it ended: in the same moment in which it is told."""
        if self._run.durable is not None:
            end = BlockEnd(row.outcome, tuple(sorted(row.handles)), row.output, self._visits(), fault, cut)
            self._run.durable.replay.write(self.name, self._execution, end, self._hash())
        return row

    def _visits(self) -> dict[str, int]:
        durable = self._run.durable
        return {} if durable is None or not self._contains else durable.replay.inside(self._inside())

    def _attempt(self, number: int) -> Mapping[str, t.Any]:
        run, block = self._run, self._block
        try:
            with self._outer.child() as scope:
                if block.timeout_s is not None:
                    scope.deadline(block.timeout_s, "block_timeout")
                if run.durable is not None and run.durable.halt is not None and self._halts:
                    scope.cancel(run.durable.halt)  # it takes note that it was stopped, and waits for nothing
                try:
                    context = RunningBlock(
                        run, block, self._frame, self._execution, scope, self._take, number
                    )
                    self._context = context
                    return block.type.run(context, block.config)
                except Cancelled:
                    if scope.cause == "block_timeout" and self._outer.cause is None:
                        raise BlockError(
                            "block_timeout", f"{block.name} did not finish within {block.timeout_s:g} s."
                        ) from None
                    raise
        except BlockError:
            raise
        except RunError as error:
            if error.code == hashes.MISMATCH:  # no block's failure: the run itself is not what it was
                raise
            raise BlockError(error.code, error.message, detail=error.detail) from error
        except Exception as error:
            log.exception("run %s: block %s failed unexpectedly", run.id, self.name)
            raise BlockError("block_failed", f"{block.name} failed; see the server's log.") from error

    def _take(self, handles: frozenset[str]) -> None:
        self._handles = handles

    def _executed(self, output: Mapping[str, t.Any]) -> BlockRow:
        run = self._run
        if not self._frame.looping:
            self._settle(self.name, self._block, output)
        self._settle_body()
        self._lose_body()
        if (flow := pins.after(self._block, self.name, output, run.state.pinned)) is not None:
            run.emitter.emit(flow)
        self._finish(
            ev.BlockFinished(self.name, "executed", output, None, None, self._since(), self._execution)
        )
        if run.redaction is not None:  # what goes on from here is what was let through
            output = run.state.blocks[self.name].output or {}
        return self._note(BlockRow("executed", self._handles, output))

    def _failed(self, error: BlockError) -> BlockRow | None:
        """Tell of a failure. None: nothing takes it up, so the region ends with it."""
        run, block = self._run, self._block
        state = run.state.blocks[self.name]
        settle.block(run.emitter, state, "error", run.services.clock.now_ms)
        self._end_left()
        self._settle_body()
        own = error.output if error.block == self.name else {}
        self._finish(
            ev.BlockFinished(
                self.name,
                "failed",
                {**own, "error": error.message, "code": error.code},
                error.code,
                error.message,
                self._since(),
                self._execution,
            ),
        )
        error.message = state.message or ""  # as it was let through
        leads_on = any(edge.handle == "error" for edge in run.request.workflow.outgoing.get(block.id, ()))
        if not leads_on and block.on_error != "continue":
            self._note(BlockRow("failed"), Fault.of(error))
            return None
        self._lose(self.name, block)
        self._lose_body()
        if leads_on:
            run.caught.append(self.name)
        return self._note(BlockRow("failed", frozenset({"error" if leads_on else block.onward or ""})))

    def _end_left(self) -> None:
        """What an earlier process had going inside of it, and this one never came to."""
        if self._run.durable is not None and self._run.durable.resumed:
            for name, _, state in reversed(self._inside()):
                if state.status == "running":
                    self._cut(name, state)

    def _cut_off(self) -> None:
        """What is around this block has ended, and the run goes on: so has this. A run that ends closes all itself,
        and may want to know what was left to do.
        """
        run = self._run
        if run.scope.cause is not None:
            if self._block.bodies:
                known = self._context
                run.standing.bodies[self.name] = Bodies(True) if known is None else known.standing()
            return
        self._cut(self.name, run.state.blocks[self.name])
        self._note(BlockRow("failed"), cut=True)

    def _cut(self, name: str, state: BlockState) -> None:
        run = self._run
        now = run.services.clock.now_ms()
        settle.block(run.emitter, state, "cancelled", run.services.clock.now_ms)
        message = "It was stopped, since the block around it had ended."
        duration = now - (state.started_at or now)
        self._finish(ev.BlockFinished(name, "failed", None, "cancelled", message, duration, state.execution))

    def _settle_body(self) -> None:
        """What was said in a loop's body, or in a workflow that was tried again, is final when that has ended."""
        if not self._frame.looping:
            for name, block, state in self._inside():
                if state.status == "executed" and state.output is not None:
                    self._settle(name, block, state.output)

    def _lose_body(self) -> None:
        """Tell of text that was shown inside of it and came to no answer: the run goes on without."""
        for name, block, state in self._inside():
            if state.status == "failed":
                self._lose(name, block)

    def _lose(self, name: str, block: CompiledBlock) -> None:
        state = self._run.state
        found = state.blocks[name]
        if found.partial and block.type.answers and name not in state.lost:
            self._run.emitter.emit(ev.StreamFailed(name, found.message or ""))

    def _inside(self) -> list[Inner]:
        return instances.inside(self._run, self._block, self._frame)

    def _settle(self, name: str, block: CompiledBlock, output: Mapping[str, t.Any]) -> None:
        """Tell the final answer of a block that has one: its final turn's text, or what it made of its agents'."""
        state = self._run.state.blocks[name]
        if block.type.answers and state.settled is None:
            text = output.get("content") if state.final_text is None else state.final_text
            if isinstance(text, str):
                self._run.emitter.emit(ev.AnswerSettled(name, text))

    def _finish(self, event: ev.BlockFinished) -> None:
        if self._run.durable is not None:
            self._run.durable.people.withdraw(event.block)
        self._run.emitter.emit(event)
        self._run.emitter.flush()

    def _since(self) -> int:
        return self._run.services.clock.now_ms() - self._started
