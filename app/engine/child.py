"""A run inside a block of another: a workflow that a workflow runs.

Law of this room: one stream, one state, one scope tree and one record. A child has its own document and input, and
paths under the block that runs it (``parent/child``); what it is not given of the run around it, it does not see.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from app import events as ev
from app.engine import settle
from app.engine.budgets import EXCEEDED, Budget
from app.engine.frames import Frame, level
from app.engine.meters import Meter
from app.engine.region import check_not_ended, run_body, run_region
from app.engine.scope import Cancelled, RunScope
from app.errors import BlockError
from app.workflows.compiled import MAX_DEPTH, CompiledBlock, Pinned, Region
from plugins.spec.blocks import BodyResult

if t.TYPE_CHECKING:
    from app.engine.durable import DurableRun
    from app.engine.emitter import Emitter
    from app.engine.following import Standing
    from app.engine.journal import Journal
    from app.engine.limits import QueueTime
    from app.engine.memory import RunMemories
    from app.engine.observe.observer import RunObserver
    from app.engine.redaction import Redaction
    from app.engine.run import Run
    from app.engine.run_request import RunRequest
    from app.engine.services import Services
    from app.state import RunState


class ChildRun:
    """What blocks of a child see as their run.

    :param block: instance path of the block it runs in.
    :param given: its input.
    :ivar caught: blocks of it whose failure an error edge took up.
    """

    def __init__(self, outer: Run | ChildRun, block: str, pinned: Pinned, given: t.Any) -> None:
        self.id: str = outer.id
        self.services: Services = outer.services
        self.scope: RunScope = outer.scope
        self.state: RunState = outer.state
        self.emitter: Emitter = outer.emitter
        self.redaction: Redaction | None = outer.redaction
        self.journal: Journal = outer.journal
        self.memories: RunMemories = outer.memories
        self.queue_time: QueueTime = outer.queue_time
        self.observer: RunObserver | None = outer.observer
        self.meter: Meter | None = outer.meter
        self.standing: Standing = outer.standing
        self.durable: DurableRun | None = outer.durable
        self.caught: list[str] = []
        self.path = f"{block}/"
        self.request: RunRequest = replace(
            outer.request,
            workflow_id=pinned.workflow_id,
            version=pinned.version,
            workflow=pinned.workflow,
            input=given,
            stop_after=None,
        )
        counted = (
            {name: state.execution for name, state in self.state.blocks.items()}
            if self.durable is None
            else self.durable.replay.visits
        )
        self._before = {name: number for name, number in counted.items() if name.startswith(self.path)}

    def body(self, region: Region, frame: Frame, outer: RunScope) -> BodyResult:
        """See :func:`app.engine.region.run_body`."""
        return run_body(t.cast("Run", self), region, frame, outer)

    def child(
        self, block: CompiledBlock, frame: Frame, given: t.Any, outer: RunScope, told: bool = False
    ) -> t.Any:
        """See :func:`run_child`."""
        return run_child(self, block, frame, given, outer, told)

    def visible(self) -> Mapping[str, Mapping[str, t.Any]]:
        """What its templates see of its own blocks, by their ids."""
        seen, path = self.state.visible(self.path), self.path
        return {name: output for name, output in seen.items() if self._fresh(path + name)}

    @contextmanager
    def metered(self, scope: RunScope) -> Iterator[None]:
        """While open, its own budget holds beside those around it.

        :param scope: what is ended when it is exceeded.
        """
        limit = self.request.workflow.settings.budget
        if limit is None:
            yield
            return
        name, used = self.path[:-1], self.state.usages
        budget = Budget(f"workflow:{self.request.workflow_id}", "run", limit.tokens, limit.cost)
        meter = Meter(
            (budget,),
            self.services.store.spending,
            scope,
            self.services.clock,
            used[self.state.children.get(name, len(used)) :],
            path=self.path,
            outer=self.meter,
        )
        self.meter = meter
        meter.listen(self.state)
        try:
            yield
        finally:
            meter.leave(self.state)

    def enough(self, block: str) -> None:
        """A block of it is none with which the run ends."""

    def outputs(self) -> Mapping[str, Mapping[str, t.Any]]:
        """The outputs of its executed blocks, by their ids."""
        outputs = self.state.outputs()
        return level({name: output for name, output in outputs.items() if self._fresh(name)}, self.path)

    def _fresh(self, block: str) -> bool:
        """Whether it ran in this run, and not in an earlier one in the same block, such as a loop's last iteration."""
        return not self._before or self.state.blocks[block].execution > self._before.get(block, 0)


def _pinned(outer: Run | ChildRun, block: CompiledBlock, name: str) -> Pinned:
    """The workflow that ``block`` runs.

    :raises BlockError: there is none, or it would run too deep inside of others.
    """
    pinned = outer.request.workflow.children.get(block.id)
    if pinned is None:
        raise BlockError(
            "workflow_unavailable",
            f"The workflow that {block.name} runs was not there when the run began; deploy it.",
        )
    if name.count("/") >= MAX_DEPTH:
        raise BlockError(
            "workflow_too_deep",
            f"Workflows may run inside one another up to {MAX_DEPTH} deep; put some of it into one workflow.",
        )
    return pinned


def run_child(
    outer: Run | ChildRun,
    block: CompiledBlock,
    frame: Frame,
    given: t.Any,
    scope: RunScope,
    told: bool = False,
) -> t.Any:
    """Run the workflow that ``block`` names to its end.

    :param told: an earlier process has told that it begins.
    :returns: its output.
    :raises BlockError: a block of it failed, it took longer than its own ``timeout_s``, or used more than its own
        ``budget``; nothing of it goes on.
    """
    name = frame.name(block.id)
    pinned = _pinned(outer, block, name)
    workflow = pinned.workflow
    edges = [(e.source, e.handle, e.target) for e in workflow.edges]
    child = ChildRun(outer, name, pinned, given)
    if not told:
        infos = workflow.infos()
        outer.emitter.emit(ev.ChildStarted(name, pinned.workflow_id, pinned.version, infos, edges))
    # A block that may be tried again settles what its child's agents said when it has ended.
    inner = Frame(path=child.path, owner=name, looping=frame.looping or block.retries > 0)
    check_not_ended(t.cast("Run", child), workflow.root, inner, scope)
    with scope.child() as own, child.metered(own):
        own.deadline(workflow.settings.timeout_s, "workflow_timeout")
        try:
            last = run_region(t.cast("Run", child), workflow.root, inner, own)[1]
            if child.meter is not None:
                child.meter.check()
        except Cancelled:
            failed = None if scope.cause is not None else _ended_alone(child, block, own)
            if failed is None:
                raise
            raise failed from None
    return settle.run_output(workflow, child.outputs(), last)


def _ended_alone(child: ChildRun, block: CompiledBlock, own: RunScope) -> BlockError | None:
    """What its block fails with when it went past a limit of its own, which ends nothing around it."""
    if own.cause == "workflow_timeout":
        limit = child.request.workflow.settings.timeout_s
        message = f"The workflow of {block.name} did not finish within {limit:g} s, its own timeout_s."
        return BlockError("workflow_timeout", message)
    if own.cause == EXCEEDED and child.meter is not None and child.meter.over is not None:
        message = child.meter.over.told(whose=f"the workflow that {block.name} runs")
        return BlockError(EXCEEDED, message)
    return None
