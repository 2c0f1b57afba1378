"""What a durable run has done already, when its blocks are run again from the beginning.

Law of this room: what has ended comes back from its row and does not run; a row of another step fails the run instead
(``journal_mismatch``). Executions are counted anew in every process, so that the same ones meet the same rows: what a
container ran inside is written down with its end, and what failed or was cut off is never counted twice.
"""

from __future__ import annotations

import os
import typing as t
import weakref
from collections.abc import Mapping, Sequence

import msgspec

from app.agents import hashes
from app.engine.scheduler import BlockOutcome, BlockRow
from app.errors import BlockError
from app.redaction.secrets import known_secrets, mask
from app.state import plain

if t.TYPE_CHECKING:
    from app.engine.instances import Inner
    from app.engine.journal import Journal, Step
    from app.workflows.compiled import CompiledBlock, CompiledWorkflow

#: Key of a block's own row.
END: t.Final = "end"
_HASHES: weakref.WeakKeyDictionary[CompiledWorkflow, dict[str, str]] = weakref.WeakKeyDictionary()


class Fault(msgspec.Struct, frozen=True, omit_defaults=True):
    """A failure, as :class:`app.errors.BlockError` has it."""

    code: str
    message: str
    block: str | None = None
    detail: str = ""
    model: str = ""
    output: t.Any = None

    @classmethod
    def of(cls, error: BlockError) -> Fault:
        """A failure that was raised; a vendor may have said our key in it."""
        detail = mask(error.detail, known_secrets(os.environ)) if error.detail else ""
        return cls(error.code, error.message, error.block, detail, error.model, error.output or None)

    def error(self) -> BlockError:
        """It, to be raised again."""
        return BlockError(
            self.code,
            self.message,
            detail=self.detail,
            model=self.model,
            block=self.block,
            output=self.output,
        )


class BlockEnd(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a block, a try of it or a body ended.

    :ivar handles: those its end took. :ivar visits: of what ran inside of it, how often by now.
    :ivar fault: of what failed and was not taken up. :ivar cut: what was around it ended first.
    """

    outcome: BlockOutcome
    handles: tuple[str, ...] = ()
    output: t.Any = None
    visits: Mapping[str, int] = {}
    fault: Fault | None = None
    cut: bool = False


class Replay:
    """The rows of what has ended, and how often each instance has run in this process."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.visits: dict[str, int] = {}

    def visit(self, name: str) -> int:
        """The number of an execution that begins."""
        number = self.visits[name] = self.visits.get(name, 0) + 1
        return number

    def was_cut(self, name: str, execution: int) -> bool:
        """Whether an execution was cut off, since what was around it had ended. That is not taken down yet, or this
        would not be met again; whatever ended it comes back and ends it again.
        """
        end = self._end(name, execution, END)
        return end is not None and end.cut

    def skip(self, name: str) -> int:
        """The number of an execution that is skipped."""
        number = self.visits[name] = self.visits.get(name, 0) + 1
        return number

    def again(self, name: str, execution: int, input_hash: str) -> BlockRow | None:
        """The row of an execution that has ended; None when it has not.

        :raises BlockError: it failed, and nothing took that up. :raises RunError: ``journal_mismatch``.
        """
        step = self._journal.find(name, execution, 0, END)
        if step is None:
            return None
        hashes.check(step.input_hash, f"block {name}", input_hash)
        end: BlockEnd = step.value
        self.visits.update(end.visits)
        if end.fault is not None:
            raise end.fault.error()
        return BlockRow(end.outcome, frozenset(end.handles), end.output)

    def failed(self, name: str, execution: int, key: str) -> BlockError | None:
        """How a try of a container, or a body of it, failed before; None when it did not."""
        end = self._end(name, execution, key)
        if end is None or end.fault is None:
            return None
        self.visits.update(end.visits)
        return end.fault.error()

    def write(
        self, name: str, execution: int, end: BlockEnd, input_hash: str | None = None, key: str = END
    ) -> None:
        """Take down how something ended."""
        state = "failed" if end.outcome == "failed" else "done"
        self._journal.write(name, execution, 0, key, "block", t.cast(t.Any, state), end, input_hash)

    def inside(self, inner: Sequence[Inner]) -> dict[str, int]:
        """How often these instances have run, now that what ran them has ended: also where an earlier process had begun
        what this one never came to.
        """
        for name, _, state in inner:
            self.visits[name] = max(self.visits.get(name, 0), state.execution)
        return {name: self.visits[name] for name, _, _ in inner}

    def _end(self, name: str, execution: int, key: str) -> BlockEnd | None:
        step = self._journal.find(name, execution, 0, key)
        return None if step is None else t.cast(BlockEnd, step.value)


def block_hash(workflow: CompiledWorkflow, block: CompiledBlock) -> str:
    """What goes into a block: its type, its config, and how it hangs together with others."""
    known = _HASHES.setdefault(workflow, {})
    found = known.get(block.id)
    if found is None:
        ways = [
            [(edge.source, edge.handle, edge.target) for edge in edges.get(block.id, ())]
            for edges in (workflow.incoming, workflow.outgoing)
        ]
        found = known[block.id] = hashes.of(block.type.type_name, block.config, *ways)
    return found


def check_rows(workflow: CompiledWorkflow, steps: Sequence[Step]) -> None:
    """See, before anything runs, that blocks which have ended are those of the workflow.

    :raises RunError: ``journal_mismatch``.
    """
    known: dict[str, str] = {}
    for step in steps:
        if step.key != END or step.input_hash is None:
            continue
        path = plain(step.path)
        if path not in known:
            known[path] = _hash_at(workflow, path)
        hashes.check(step.input_hash, f"block {step.path}", known[path])


def _hash_at(workflow: CompiledWorkflow, path: str) -> str:
    *homes, name = path.split("/")
    for home in homes:
        child = workflow.children.get(home)
        if child is None:
            return ""
        workflow = child.workflow
    block = workflow.blocks.get(name)
    return "" if block is None else block_hash(workflow, block)
