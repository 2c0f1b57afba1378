"""Runs of workflows that something else than blocks runs: the engine's side of :mod:`plugins.spec.runners`.

Law of this room: the runner works in a greenlet of its own, so that one which does not come back when it is cancelled
keeps nobody from ending the run; what it reports afterwards is not told.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

from app import events as ev
from app.engine.context import RunningBlock
from app.engine.frames import Frame
from app.engine.node_runs import NodeExecution
from app.engine.scope import Cancelled, RunScope
from app.errors import BlockError, RunError
from app.state import plain
from app.store.errors import StaleOwner
from plugins.spec.decisions import Answer, Ask
from plugins.spec.runners import NodeRun, RunnerFailed
from providers.spec import Waits

if t.TYPE_CHECKING:
    from app.engine.run import Run

#: Where what a runner notes is kept in the journal; no node has such an id.
_NOTES = "*"


def drive(run: Run) -> ev.Terminal:
    """Run the workflow's runner to its end.

    :raises RunError: it failed. :raises Cancelled: the run was, or left this process.
    """
    runner = run.request.workflow.runner
    assert runner is not None
    if run.durable is not None and run.durable.halt is not None:
        run.scope.cancel(run.durable.halt)
        raise Cancelled(run.durable.halt)
    output: list[Mapping[str, t.Any]] = []
    with run.scope.child() as scope, _moves(run):
        context = RunnerRun(run, scope)
        scope.spawn(lambda: output.append(runner.run(context)))
        scope.join()
        if scope.error is not None and run.scope.cause is None:
            raise _told(scope.error)
        if scope.cause is not None:
            raise Cancelled(scope.cause)
    context.settle()
    state, made = run.state, output[0]
    if run.redaction is not None:
        made = run.redaction.answer(made)
    return ev.RunCompleted(made, state.outputs(), state.tool_calls(), run.usage())


@contextmanager
def _moves(run: Run) -> Iterator[None]:
    """Something of the run moves meanwhile."""
    run.queue_time.block(1)
    if run.durable is not None:
        run.durable.motion.step(1)
    try:
        yield
    finally:
        run.queue_time.block(-1)
        if run.durable is not None:
            run.durable.motion.step(-1)


def _told(error: BaseException) -> BaseException:
    """A failure as the run tells it."""
    if not isinstance(error, RunnerFailed):
        return error
    if error.node is None:
        return RunError(error.code, error.message, detail=error.detail)
    failed = BlockError(error.code, error.message, detail=error.detail)
    failed.block = error.node
    failed.__cause__ = error
    return failed


class RunnerRun:
    """See :class:`plugins.spec.runners.RunnerContext`."""

    def __init__(self, run: Run, scope: RunScope) -> None:
        self._run = run
        self._scope = scope
        self.run_id = run.id
        self.thread_id = run.request.thread_id or run.id
        self.in_thread = run.request.thread_id is not None
        self.input = run.request.input
        self.waits = scope
        self.adopt = scope.adopt
        self.flush = run.emitter.flush
        self._nodes: dict[str, NodeExecution] = {}
        for state in run.state.open_blocks():
            self._node(state.block)
        self.resumed = run.resumption is not None

    def _node(self, path: str) -> NodeExecution:
        block = self._run.request.workflow.find(path)
        if block is None:
            raise RunError("journal_mismatch", f"The graph of this run has no node '{plain(path)}' any more.")
        found = self._nodes[path] = NodeExecution(self._run, block, path)
        return found

    def start(self, node: str, within: NodeRun | None = None, several: bool = False) -> NodeRun:
        """See the protocol."""
        name = node.rpartition("/")[2]
        base = name if within is None else f"{within.path}/{name}"
        found = self._left(base, several) or self._node(self._free(base) if several else base)
        found.begin()
        return found

    def _left(self, base: str, several: bool) -> NodeExecution | None:
        """An execution that was left open and that nobody has taken up yet."""
        for path, node in self._nodes.items():
            if not node.claimed and (path == base or (several and path.startswith(f"{base}["))):
                return node
        return None

    def _free(self, base: str) -> str:
        index = 0
        while (known := self._nodes.get(f"{base}[{index}]")) is not None and known.open:
            index += 1
        return f"{base}[{index}]"

    def open_nodes(self) -> Sequence[NodeRun]:
        """See the protocol."""
        return [
            self._nodes.get(state.block) or self._node(state.block) for state in self._run.state.open_blocks()
        ]

    def recall(self, key: str) -> t.Any:
        """See the protocol."""
        row = self._run.journal.find(_NOTES, 1, 0, key)
        return None if row is None else row.value

    def note(self, key: str, value: t.Any) -> None:
        """See the protocol."""
        self._run.journal.write(_NOTES, 1, 0, key, "chosen", "done", value)

    def commit(self) -> None:
        """See the protocol."""
        durable = self._run.durable
        if durable is None:
            return
        try:
            durable.keeper.commit()
        except StaleOwner:
            raise Cancelled("owner_lost") from None

    def decide(self, asks: Sequence[tuple[NodeRun, Ask]]) -> Mapping[str, Answer]:
        """See the protocol."""
        by_node: dict[str, list[Ask]] = {}
        for node, ask in asks:
            by_node.setdefault(node.path, []).append(ask)
        answers: dict[str, Answer] = {}
        jobs = [partial(self._ask, path, wanted, answers) for path, wanted in by_node.items()]
        self._block(next(iter(by_node)), self._scope).gather(jobs)
        return answers

    def _ask(self, path: str, asks: list[Ask], answers: dict[str, Answer], waits: Waits) -> None:
        """Ask until each has its answer."""
        block, left = self._block(path, waits), list(asks)
        while left:
            for answer in block.decide(left):
                answers[answer.key] = answer
            left = [ask for ask in left if ask.key not in answers]

    def _block(self, path: str, waits: Waits) -> RunningBlock:
        """A node as a block sees itself."""
        node = self._nodes[path]
        frame, scope = Frame(), t.cast(RunScope, waits)
        block = RunningBlock(self._run, node.block, frame, node.state.execution, scope, lambda _: None)
        block.block = path
        return block

    def settle(self) -> None:
        """Tell the answers of nodes that might have run again, in the order in which they ended."""
        states = self._run.state.blocks.values()
        executed = [state for state in states if state.status == "executed"]
        for state in sorted(executed, key=lambda state: state.ended_at or 0):
            node = self._nodes.get(state.block) or self._node(state.block)
            node.settle()
