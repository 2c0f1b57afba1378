"""Running one block instance: its events, its deadline, its errors.

Law of this room: one ``BlockFinished`` per start whatever happens; a failed block with an ``error`` edge goes on
there, any other failure ends the region it is in.
"""

from __future__ import annotations

import logging
import typing as t
from collections.abc import Mapping

from app import events as ev
from app.engine import pins, settle
from app.engine.context import RunningBlock
from app.engine.following import Bodies
from app.engine.scheduler import BlockRow
from app.engine.scope import Cancelled, RunScope
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
    return _Instance(run, block, frame, outer).run()


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
        self._execution = run.state.executions(self.name) + 1

    def run(self) -> BlockRow:
        if self._outer.cause is not None:  # whatever has ended around it: nothing more starts
            raise Cancelled(self._outer.cause)
        run, block = self._run, self._block
        standing = run.state.blocks.get(self.name)
        if standing is not None and (standing.final_text or standing.partial):
            run.emitter.emit(ev.AnswerRetracted(self.name, "iteration"))
        run.emitter.emit(ev.BlockStarted(self.name, block.type.type_name, block.name, self._execution))
        run.emitter.flush()  # it may be silent for long
        counts = 0 if block.bodies or block.child is not None else 1  # what a container runs counts by itself
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
            try:
                return self._attempt(number)
            except BlockError:
                state = self._run.state.blocks[self.name]
                # Something was shown: a repeat would show it twice.
                if state.calls or state.live or state.spoke:
                    raise
                settle.turn(self._run.emitter, state)
        return self._attempt(self._block.retries + 1)

    def _attempt(self, number: int) -> Mapping[str, t.Any]:
        run, block = self._run, self._block
        try:
            with self._outer.child() as scope:
                if block.timeout_s is not None:
                    scope.deadline(block.timeout_s, "block_timeout")
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
            raise BlockError(error.code, error.message, detail=error.detail) from error
        except Exception as error:
            log.exception("run %s: block %s failed unexpectedly", run.id, self.name)
            raise BlockError("block_failed", f"{block.name} failed; see the server's log.") from error

    def _take(self, handles: frozenset[str]) -> None:
        self._handles = handles

    def _executed(self, output: Mapping[str, t.Any]) -> BlockRow:
        if not self._frame.looping:
            self._settle(self.name, self._block, output)
        self._settle_body()
        self._lose_body()
        if (flow := pins.after(self._block, self.name, output, self._run.state.pinned)) is not None:
            self._run.emitter.emit(flow)
        self._finish(
            ev.BlockFinished(self.name, "executed", output, None, None, self._since(), self._execution)
        )
        return BlockRow("executed", self._handles)

    def _failed(self, error: BlockError) -> BlockRow | None:
        """Tell of a failure. None: nothing takes it up, so the region ends with it."""
        run, block = self._run, self._block
        state = run.state.blocks[self.name]
        settle.block(run.emitter, state, "error", run.services.clock.now_ms)
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
        leads_on = any(edge.handle == "error" for edge in run.request.workflow.outgoing.get(block.id, ()))
        if not leads_on and block.on_error != "continue":
            return None
        self._lose(self.name, block)
        self._lose_body()
        if leads_on:
            run.caught.append(self.name)
        return BlockRow("failed", frozenset({"error" if leads_on else block.onward or ""}))

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
        settle.block(run.emitter, run.state.blocks[self.name], "cancelled", run.services.clock.now_ms)
        message = "It was stopped, since the block around it had ended."
        self._finish(
            ev.BlockFinished(self.name, "failed", None, "cancelled", message, self._since(), self._execution)
        )

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

    def _inside(self) -> list[tuple[str, CompiledBlock, BlockState]]:
        """The block instances that it has run, in bodies or in the workflow that it names."""
        run, block, frame = self._run, self._block, self._frame
        if not (block.bodies or block.child):
            return []
        workflow, start = run.request.workflow, len(frame.path)
        inside = {inner for handle in block.bodies for inner in workflow.inside[block.id, handle]}
        if block.child is not None:
            inside.add(block.id)
        held = []
        for name, state in run.state.blocks.items():
            if not name.startswith(frame.path):
                continue
            base, _, index = name[start:].partition("/")[0].partition("[")
            if base in inside and f"[{index}".startswith(frame.suffix):  # in this one of several at once
                found = workflow.find(name[start:])
                if found is not None and found is not block:
                    held.append((name, found, state))
        return held

    def _settle(self, name: str, block: CompiledBlock, output: Mapping[str, t.Any]) -> None:
        """Tell the final answer of a block that has one: its final turn's text, or what it made of its agents'."""
        state = self._run.state.blocks[name]
        if block.type.answers and state.settled is None:
            text = output.get("content") if state.final_text is None else state.final_text
            if isinstance(text, str):
                self._run.emitter.emit(ev.AnswerSettled(name, text))

    def _finish(self, event: ev.BlockFinished) -> None:
        self._run.emitter.emit(event)
        self._run.emitter.flush()

    def _since(self) -> int:
        return self._run.services.clock.now_ms() - self._started
