"""What of a block's work has been taken down, so that a further attempt goes on where the last one stood."""

from __future__ import annotations

import typing as t
from collections.abc import Sequence

#: ``asked``: what an agent was asked, rendered. ``decision``: what a person answered. ``chosen``: a choice that steers,
#: such as a route. ``told``: an announcement that stands in the stream, so that a further attempt does not repeat it.
StepKind = t.Literal["block", "asked", "turn", "decision", "tool", "chosen", "told"]
StepState = t.Literal["started", "done", "failed", "unknown"]


class Step(t.Protocol):
    """One row. ``value`` is what the step came to; None before that. ``input_hash``: of what went into it."""

    turn: int
    key: str
    kind: StepKind
    state: StepState
    value: t.Any
    input_hash: str | None


class BlockJournal(t.Protocol):
    """The rows of one execution of a block, or of one part of it."""

    def rows(self) -> Sequence[Step]:
        """All of them, in order of first writing; those of its parts are not among them."""

    def find(self, turn: int, key: str) -> Step | None:
        """The row of ``turn`` and ``key``, if there is one."""

    def write(
        self,
        turn: int,
        key: str,
        kind: StepKind,
        state: StepState,
        value: t.Any = None,
        input_hash: str | None = None,
    ) -> t.Any:
        """Insert or replace the row of ``turn`` and ``key``.

        :param turn: number of the model call it belongs to, from 0.
        """

    def part(self, key: str) -> BlockJournal:
        """The journal of a part, such as one of several agents, with rows of its own."""

    def forget(self) -> None:
        """Drop the rows of this part: what it came to did not stand, and a further attempt begins it anew."""
