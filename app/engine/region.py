"""Running one region: the root of a run, an iteration of a loop, a branch.

Law of this room: the scheduler says what is next, this does it; branches advance independently in greenlets of their
own, and only a join waits. A region that fails has ended everything it started before its failure is told.
"""

from __future__ import annotations

import typing as t

from gevent.event import Event

from app import events as ev
from app.engine import blocks
from app.engine.following import Interrupted
from app.engine.frames import Frame
from app.engine.scheduler import BlockRow, Finished, Skip, next_steps, taken
from app.engine.scope import Cancelled, RunScope
from app.workflows.compiled import Region
from app.workflows.regions import leaving
from plugins.spec.blocks import BodyResult

if t.TYPE_CHECKING:
    from app.engine.run import Run


class RegionRun:
    """One run through a region."""

    __slots__ = ("_moved", "_open", "_region", "_run", "frame", "rows", "scope")

    def __init__(self, run: Run, region: Region, frame: Frame, scope: RunScope) -> None:
        self._run = run
        self._region = region
        self.frame = frame
        self.scope = scope
        self.rows: dict[str, BlockRow] = {}
        self._moved: Event | None = None
        #: Blocks to look at: a way to them has become known. None: all, to begin with.
        self._open: set[str] | None = None

    def drive(self) -> tuple[str, ...]:
        """Do what the scheduler says until nothing is left; the blocks reached last.

        :raises BlockError: a block failed, and nothing took its failure up.
        """
        try:
            return self._drive()
        except Cancelled:
            if self._run.scope.cause is not None:  # the run ends, and is asked what would have come next
                self._run.standing.regions.append(Interrupted(self._region, self.rows, self.frame))
            raise

    def _drive(self) -> tuple[str, ...]:
        while True:
            steps, self._open = next_steps(self._region, self.rows, self._open), set()
            starts: list[str] = []
            for step in steps:
                if isinstance(step, Finished):
                    return step.last
                if isinstance(step, Skip):
                    self._skip(step.block)
                else:
                    starts.append(step.block)
            if len(starts) == len(steps):
                self._start(starts)
            else:  # a skip may free more blocks: ask again before anything runs
                self._open.update(starts)

    def leaves(self) -> frozenset[str]:
        """Of a region that has ended, the handles by which it led out of its body."""
        return frozenset(
            leaving(edge.source, edge.handle)
            for edge in self._region.leaves
            if taken(self.rows, edge.source, edge.handle)
        )

    def _known(self, block: str, row: BlockRow) -> None:
        """A block has ended, or never runs: look at where its edges lead."""
        self.rows[block] = row
        assert self._open is not None
        self._open.update(edge.target for edge in self._region.outgoing.get(block, ()))

    def _skip(self, block: str) -> None:
        self._known(block, BlockRow("skipped"))
        name, run = self.frame.name(block), self._run
        standing = run.state.blocks.get(name)
        told = 0 if standing is None else standing.execution
        execution = told + 1 if run.durable is None else run.durable.replay.skip(name)
        if execution > told:
            if standing is not None and (standing.final_text or standing.partial):
                run.emitter.emit(
                    ev.AnswerRetracted(name, "iteration")
                )  # what it said before stands no longer
            run.emitter.emit(ev.BlockFinished(name, "skipped", execution=execution))

    def _start(self, starts: list[str]) -> None:
        """Run the only block that can move in this greenlet; several each in their own.

        Without any, and with no greenlet left, a block has failed: the wait raises what its failure cancelled.
        """
        if len(starts) == 1 and not self.scope.greenlets:
            self._one(starts[0])
            return
        for block in starts:
            self.rows[block] = BlockRow("running")
            self.scope.spawn(self._one, block)
        self._moved = Event()
        with self.scope.wait():
            self._moved.wait()

    def _one(self, block: str) -> None:
        try:
            self._known(
                block,
                blocks.run(self._run, self._run.request.workflow.blocks[block], self.frame, self.scope),
            )
        finally:
            if self._moved is not None:
                self._moved.set()


def check_not_ended(run: Run, region: Region, frame: Frame, outer: RunScope) -> None:
    """See that a region may still begin.

    :raises Cancelled: what is around it has ended; where the run has, what would have begun is noted.
    """
    if outer.cause is not None:
        if run.scope.cause is not None:
            run.standing.regions.append(Interrupted(region, {}, frame))
        raise Cancelled(outer.cause)


def run_body(run: Run, region: Region, frame: Frame, outer: RunScope) -> BodyResult:
    """Run a body once, in a scope of its own.

    :raises BlockError: a block in it failed; then everything else in it has ended.
    """
    going, last = run_region(run, region, frame, outer)
    found = {}
    for block in last:
        output = going.rows[block].output
        if output is not None:
            repeats = run.request.workflow.blocks[block].type.repeats
            found[block] = {k: v for k, v in output.items() if k not in repeats} if repeats else output
    return BodyResult(found, going.leaves())


def run_region(run: Run, region: Region, frame: Frame, outer: RunScope) -> tuple[RegionRun, tuple[str, ...]]:
    """Run a region once, in a scope of its own; what ran, and the blocks it reached last.

    :raises BlockError: a block in it failed; then everything else in it has ended.
    """
    check_not_ended(run, region, frame, outer)
    with outer.child() as scope:
        going = RegionRun(run, region, frame, scope)
        try:
            return going, going.drive()
        except Cancelled:
            scope.join()
            if scope.cause == "block_failed" and scope.error is not None and outer.cause is None:
                raise scope.error from None
            raise
        except BaseException:
            scope.cancel("block_failed")
            scope.join()
            raise
