"""Running one block of a run: its events, its deadline, its errors.

Law of this room: one ``BlockFinished`` per start whatever happens; a failed block with an ``error``
edge goes on there, any other failure ends the run.
"""

from __future__ import annotations

import logging
import typing as t
from collections.abc import Mapping

from gevent.event import Event

from app import events as ev
from app.engine import settle
from app.engine.context import RunningBlock
from app.engine.scheduler import BlockRow
from app.engine.scope import Cancelled, RunScope
from app.errors import BlockError, RunError
from app.workflows.compiled import AGENT, CompiledBlock

if t.TYPE_CHECKING:
    from app.engine.run import Run

log = logging.getLogger("studio.runs")


class BlockRunner:
    """Runs the blocks of one run."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._moved: Event | None = None

    def wait_for_one(self) -> None:
        """Block until a block that runs in its own greenlet has ended."""
        self._moved = Event()
        with self._run.scope.wait():
            self._moved.wait()

    def run(self, block_id: str) -> None:
        """Run a block to its end and note which handle its end took.

        :raises BlockError: it failed and no ``error`` edge leads on.
        """
        run = self._run
        block = run.request.workflow.blocks[block_id]
        started = run.services.clock.now_ms()
        run.emitter.emit(ev.BlockStarted(block_id, block.type.type_name, block.name))
        run.queue_time.block(1)
        try:
            output = self._output(block)
        except BlockError as error:
            if error.block is None:
                error.block = block_id
            self._failed(block, error, started)
        else:
            self._executed(block, output, started)
        finally:
            run.queue_time.block(-1)
            if self._moved is not None:
                self._moved.set()

    def _output(self, block: CompiledBlock) -> Mapping[str, t.Any]:
        """The block's output, after up to ``retries`` further attempts."""
        for _ in range(block.retries):
            try:
                return self._attempt(block)
            except BlockError:
                state = self._run.state.blocks[block.id]
                if state.calls or state.live:  # something was shown: a repeat would show it twice
                    raise
        return self._attempt(block)

    def _attempt(self, block: CompiledBlock) -> Mapping[str, t.Any]:
        run = self._run
        try:
            with run.scope.child() as scope:
                if block.timeout_s is not None:
                    scope.deadline(block.timeout_s, "block_timeout")
                try:
                    return block.type.run(self._context(block, scope), block.config)
                except Cancelled:
                    if scope.cause == "block_timeout" and run.scope.cause is None:
                        raise BlockError(
                            "block_timeout", f"{block.name} did not finish within {block.timeout_s:g} s."
                        ) from None
                    raise
        except BlockError:
            raise
        except RunError as error:
            raise BlockError(error.code, error.message, detail=error.detail) from error
        except Exception as error:
            log.exception("run %s: block %s failed unexpectedly", run.id, block.id)
            raise BlockError("block_failed", f"{block.name} failed; see the server's log.") from error

    def _context(self, block: CompiledBlock, scope: RunScope) -> t.Any:
        run = self._run
        return RunningBlock(
            run.services,
            run.id,
            block.id,
            block.name,
            scope,
            run.emitter,
            run.journal,
            self._variables,
            run.request.show_thinking,
            run.request.workflow.predecessors(block.id),
            (run.request.workflow_id, run.request.conversation_id or run.id),
            run.queue_time,
        )

    def _variables(self) -> Mapping[str, t.Any]:
        """What templates see: ``input``, ``blocks.<id>.<field>``, ``vars``."""
        run = self._run
        return {
            "input": run.request.input,
            "blocks": run.state.visible(),
            "vars": run.request.workflow.variables,
        }

    def _executed(self, block: CompiledBlock, output: Mapping[str, t.Any], started: int) -> None:
        run = self._run
        if block.type.type_name == AGENT:
            run.emitter.emit(ev.AnswerSettled(block.id, str(output["content"])))
        self._finish(ev.BlockFinished(block.id, "executed", output, None, None, self._since(started)))
        run.rows[block.id] = BlockRow("executed")

    def _failed(self, block: CompiledBlock, error: BlockError, started: int) -> None:
        run = self._run
        state = run.state.blocks[block.id]
        settle.block(run.emitter, state, "error", run.services.clock.now_ms)
        self._finish(
            ev.BlockFinished(
                block.id,
                "failed",
                {"error": error.message, "code": error.code},
                error.code,
                error.message,
                self._since(started),
            ),
        )
        leads_on = any(edge.handle == "error" for edge in run.request.workflow.outgoing.get(block.id, ()))
        if not leads_on and block.on_error != "continue":
            raise error
        if state.partial and state.type == AGENT:
            run.emitter.emit(ev.StreamFailed(block.id, error.message))
        run.rows[block.id] = BlockRow("failed", "error" if leads_on else "")

    def _finish(self, event: ev.BlockFinished) -> None:
        self._run.emitter.emit(event)
        self._run.emitter.flush()

    def _since(self, started: int) -> int:
        return self._run.services.clock.now_ms() - started
