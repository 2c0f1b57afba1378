"""The journal: the steps of a run that steer what happens next.

Law of this room: the pure cores (scheduler, tool loop) read rows and nothing else; a driver performs
an action, writes its row and asks again. This is the in-memory journal; that of a durable run
(:mod:`app.engine.durable_journal`) is the same and says what is to be stored of it.
"""

from __future__ import annotations

import typing as t
from collections.abc import Sequence

import msgspec

from plugins.spec.journal import StepKind, StepState


class Step(msgspec.Struct):
    """One row. Key: ``(path, execution, turn, key)``; ``value`` is what the step produced."""

    path: str
    execution: int
    turn: int
    key: str
    kind: StepKind
    state: StepState
    value: t.Any = None
    input_hash: str | None = None


class Journal:
    """All steps of one run, in memory."""

    def __init__(self) -> None:
        self._steps: dict[tuple[str, int], dict[tuple[int, str], Step]] = {}

    def write(
        self,
        path: str,
        execution: int,
        turn: int,
        key: str,
        kind: StepKind,
        state: StepState,
        value: t.Any = None,
        input_hash: str | None = None,
    ) -> Step:
        """Insert or replace the row of that key."""
        step = Step(path, execution, turn, key, kind, state, value, input_hash)
        self._steps.setdefault((path, execution), {})[turn, key] = step
        return step

    def steps(self, kind: StepKind) -> list[Step]:
        """Every row of a kind, in order of first writing."""
        return [step for steps in self._steps.values() for step in steps.values() if step.kind == kind]

    def forget(self, path: str, execution: int) -> None:
        """Drop the rows of one part of an execution, which is to begin anew."""
        self._steps.pop((path, execution), None)

    def bind(self, path: str, execution: int) -> BlockJournal:
        """The journal as one block instance's execution sees it."""
        return BlockJournal(self, path, execution)

    def find(self, path: str, execution: int, turn: int, key: str) -> Step | None:
        """One row."""
        return self._steps.get((path, execution), {}).get((turn, key))

    def of(self, path: str, execution: int) -> list[Step]:
        """The rows of one instance's execution, its own block row left out."""
        return [s for s in self._steps.get((path, execution), {}).values() if s.kind != "block"]


class BlockJournal:
    """The slice of the journal that belongs to one execution; see :class:`plugins.spec.journal.BlockJournal`."""

    def __init__(self, journal: Journal, path: str, execution: int) -> None:
        self._journal = journal
        self._path = path
        self._execution = execution

    def rows(self) -> Sequence[Step]:
        """All rows of this execution but its own, oldest first."""
        return self._journal.of(self._path, self._execution)

    def part(self, key: str) -> BlockJournal:
        """The rows of a part of this execution, such as one agent's turn in a debate."""
        return BlockJournal(self._journal, f"{self._path}/{key}", self._execution)

    def find(self, turn: int, key: str) -> Step | None:
        """One row of this execution."""
        return self._journal.find(self._path, self._execution, turn, key)

    def write(
        self,
        turn: int,
        key: str,
        kind: StepKind,
        state: StepState,
        value: t.Any = None,
        input_hash: str | None = None,
    ) -> Step:
        """Insert or replace a row."""
        return self._journal.write(self._path, self._execution, turn, key, kind, state, value, input_hash)

    def forget(self) -> None:
        """Drop the rows of this part: what it came to did not stand, and a further attempt begins it anew."""
        self._journal.forget(self._path, self._execution)
