"""The context of a block as one of its agents gets it: in the open, or in secret.

Law of this room: everything an agent inside of a block shows carries the block's id, turns and call ids that are the
block's own; its text is never shown as it comes. Of one that is asked in secret nothing gets out but what was used.
"""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Mapping, Sequence

import msgspec

from app import events as ev
from app.agents.loop import TURN, told_key
from plugins.spec import BlockContext
from plugins.spec.decisions import Answer, Ask
from plugins.spec.journal import StepKind, StepState


class _Company(t.Protocol):
    """What an agent knows of those around it; see :class:`app.agents.participants.Company`."""

    turns: int
    taken: set[str]

    def spend(self, report: ev.UsageReported) -> None:
        """Count what a call in secret used."""


class Inside:
    """The block's context as one of its agents gets it. What is not here is the block's own."""

    def __init__(
        self, company: _Company, outer: BlockContext, journal: t.Any, seen: Mapping[str, t.Any]
    ) -> None:
        self._company = company
        self._outer = outer
        self._seen = seen
        self._open = False
        self.journal = journal
        self._base = company.turns
        #: Calls by their agent's id: the id they were shown with.
        self._ids: dict[str, str] = {}
        before = told_key("")
        for row in journal.rows():
            if row.key.startswith(before):
                call = row.key.removeprefix(before)
                self._ids[call] = row.value or call
        company.taken.update(self._ids.values())

    def __getattr__(self, name: str) -> t.Any:
        return getattr(self._outer, name)

    def leave(self) -> None:
        """It has answered: the next one's turns come after its own, also where they come back from the journal."""
        turns = [row.turn for row in self.journal.rows() if row.kind == TURN]
        self._turn(max(turns, default=0))

    def at_once(self, jobs: Sequence[t.Callable[[BlockContext], None]]) -> None:
        """See :class:`plugins.spec.BlockContext`."""

        def within(job: t.Callable[[BlockContext], None]) -> t.Callable[[BlockContext], None]:
            def run(outer: BlockContext) -> None:
                # Not copy.copy: it asks for attributes of an object that has none, and __getattr__ needs one.
                inner = object.__new__(type(self))
                inner.__dict__.update(self.__dict__, _outer=outer)
                job(t.cast(BlockContext, inner))

            return run

        self._outer.at_once([within(job) for job in jobs])

    def decide(self, asks: Sequence[Ask]) -> Sequence[Answer]:
        """See :class:`plugins.spec.BlockContext`. People are asked about calls by the ids they were shown with."""
        own = {self._ids[ask.key]: ask.key for ask in asks}
        shown = [dataclasses.replace(ask, key=self._ids[ask.key], turn=self._turn(ask.turn)) for ask in asks]
        return [dataclasses.replace(found, key=own[found.key]) for found in self._outer.decide(shown)]

    def variables(self) -> Mapping[str, t.Any]:
        """See :class:`plugins.spec.BlockContext`."""
        return {**self._outer.variables(), **self._seen}

    def render(self, template: str, **extra: t.Any) -> str:
        """See :class:`plugins.spec.BlockContext`."""
        return self._outer.render(template, **{**self._seen, **extra})

    def emit(self, event: t.Any) -> None:
        """Pass on what may be shown, with turns and ids that are the block's."""
        kind = type(event)
        if kind is ev.TextDelta:
            return
        show = _SHOWN.get(kind)
        shown = event if show is None else show(self, event)
        if shown is not None:
            self._outer.emit(shown)

    def _turn(self, number: int) -> int:
        turn = self._base + number
        self._company.turns = max(self._company.turns, turn + 1)
        return turn

    def _thinking(self, event: ev.ThinkingDelta) -> ev.ThinkingDelta:
        self._open = True
        return msgspec.structs.replace(event, turn=self._turn(event.turn))

    def _tool_started(self, event: ev.ToolStarted) -> ev.ToolStarted:
        self._open = True
        call = event.id if event.id not in self._company.taken else self._outer.new_id("call")
        self._company.taken.add(call)
        self._ids[event.id] = call
        if call != event.id:
            self.journal.write(event.turn, told_key(event.id), "told", "done", call)
        return msgspec.structs.replace(event, turn=self._turn(event.turn), id=call)

    def _later(self, event: ev.ToolExecuting | ev.ToolFinished) -> ev.RunEvent:
        """What is told of a call that was announced."""
        return msgspec.structs.replace(event, turn=self._turn(event.turn), id=self._ids[event.id])

    def _turn_ended(self, event: ev.TurnEnded) -> ev.TurnEnded | None:
        """A turn that nothing was shown of need not end. None is the block's answer, so none is final."""
        if not self._open:
            return None
        self._open = False
        reason = event.reason if event.kind == "intermediate" else None
        return ev.TurnEnded(event.block, self._turn(event.turn), "intermediate", reason)

    def with_own_ids(self, output: Mapping[str, t.Any]) -> Mapping[str, t.Any]:
        """``output`` with the ids its calls were shown with."""
        if all(call == shown for call, shown in self._ids.items()):
            return output
        calls = [{**call, "id": self._ids[call["id"]]} for call in output["toolCalls"]["list"]]
        timing = output["providerTiming"]
        segments = [
            {**segment, "toolCallId": self._ids[segment["toolCallId"]]}
            if "toolCallId" in segment
            else segment
            for segment in timing["timeSegments"]
        ]
        return {
            **output,
            "toolCalls": {"list": calls, "count": len(calls)},
            "providerTiming": {**timing, "timeSegments": segments},
        }


_SHOWN: Mapping[type, t.Callable[[Inside, t.Any], ev.RunEvent | None]] = {
    ev.ThinkingDelta: Inside._thinking,
    ev.ToolStarted: Inside._tool_started,
    ev.ToolExecuting: Inside._later,
    ev.ToolFinished: Inside._later,
    ev.TurnEnded: Inside._turn_ended,
}


class Unseen(Inside):
    """The context of somebody who is asked in secret: nothing gets out but what was used."""

    #: Nobody will see it, so nobody is asked for it.
    show_thinking = False
    #: Nobody looks at the calls of somebody who is asked in secret.
    observer = None

    def emit(self, event: t.Any) -> None:
        """Keep what was used."""
        if isinstance(event, ev.UsageReported):
            self._company.spend(event)

    def flush(self) -> None:
        """There is nothing to send."""


class _Row(msgspec.Struct):
    """See :class:`plugins.spec.journal.Step`."""

    turn: int
    key: str
    kind: StepKind
    state: StepState
    value: t.Any
    input_hash: str | None


class Rows:
    """The rows of one agent, kept nowhere: a secret vote is one step of the run, done anew as a whole."""

    def __init__(self) -> None:
        self._rows: dict[tuple[int, str], _Row] = {}

    def rows(self) -> Sequence[_Row]:
        """All rows, oldest first."""
        return list(self._rows.values())

    def find(self, turn: int, key: str) -> _Row | None:
        """One row."""
        return self._rows.get((turn, key))

    def write(
        self,
        turn: int,
        key: str,
        kind: StepKind,
        state: StepState,
        value: t.Any = None,
        input_hash: str | None = None,
    ) -> _Row:
        """Insert or replace a row."""
        row = self._rows[turn, key] = _Row(turn, key, kind, state, value, input_hash)
        return row
