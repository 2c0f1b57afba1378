"""The tool loop: what an agent does next. Pure.

Law of this room: one function over the journal's rows; no greenlets, clock, network or store, and no
memory of its own, so a resumed run decides exactly as the first one did. Vendor finish labels are not
trusted over the content: a turn with complete calls is intermediate whatever its label says.
"""

from __future__ import annotations

import typing as t
from collections.abc import Container, Iterable, Sequence

import msgspec

from app.agents.usage import Spent
from plugins.spec.journal import Step
from providers.spec import FinishReason, ToolCallReady, Usage


class TurnResult(msgspec.Struct):
    """What one model call came to. Instants are epoch ms.

    ``model`` is the vendor's own name for what answered, ``asked`` the ``<family>/<model>`` that was asked.
    ``tools_off``: the synthesis turn. ``spent``: what the turn used, failed attempts included, the answer's own last.
    ``given_up``: ids of calls that models announced before they were given up; they are spoken for.
    """

    text: str
    calls: tuple[ToolCallReady, ...]
    reason: FinishReason
    usage: Usage | None
    replay: t.Any
    wire: str
    model: str | None
    started_at: int
    first_at: int | None
    ended_at: int
    tools_off: bool = False
    asked: str = ""
    spent: tuple[Spent, ...] = ()
    given_up: tuple[str, ...] = ()


class CallResult(msgspec.Struct):
    """What one call came to. ``content`` is what the model is told; ``result`` the value as the tool gave it.

    ``ran``: the tool was begun, whatever came of it; False for a call that was answered without it. ``changed``: the
    arguments it was called with, where a person changed them.
    """

    id: str
    name: str
    content: str
    result: t.Any
    is_error: bool
    started_at: int
    ended_at: int
    ran: bool = True
    changed: dict[str, t.Any] | None = None


class AskModel(msgspec.Struct, frozen=True):
    """Make model call ``turn`` (from 0). ``tools_off``: the batch cap was reached, write the answer."""

    turn: int
    tools_off: bool = False


class RunTools(msgspec.Struct, frozen=True):
    """Run these calls of ``turn`` concurrently. ``refuse``: tools are off, settle them ``error`` instead.

    ``held``: ids of those that a person has to decide about first; the others wait for nobody.
    """

    turn: int
    calls: tuple[ToolCallReady, ...]
    refuse: bool = False
    held: frozenset[str] = frozenset()


class SettleUnknown(msgspec.Struct, frozen=True):
    """These calls were started and their outcome is unknown: settle them ``error`` and tell the model."""

    turn: int
    calls: tuple[ToolCallReady, ...]


class Truncated(msgspec.Struct, frozen=True):
    """The output limit cut a call once too often: the run fails ``tool_call_truncated``."""

    turn: int
    call: ToolCallReady


class Done(msgspec.Struct, frozen=True):
    """The text of ``turn`` is the answer."""

    turn: int


Action = AskModel | RunTools | SettleUnknown | Truncated | Done

#: Key of a turn's own row.
TURN: t.Final = "turn"


def decision_key(call_id: str) -> str:
    """Key of the row with what a person decided about a call."""
    return f"decision {call_id}"


def told_key(call_id: str) -> str:
    """Key of the row that says that a call was announced; its value is the id it was shown with, if another."""
    return f"call {call_id}"


def next_action(
    rows: Sequence[Step],
    max_batches: int = 20,
    cut_call_retries: int = 0,
    held: Container[str] = (),
    repeatable: Container[str] = (),
) -> Action:
    """Decide from the rows of one execution of one agent.

    :param max_batches: tool batches before the synthesis turn with tools off (contract 3.7).
    :param cut_call_retries: how often the model is told that its call was cut before the run fails.
    :param held: names of the tools whose calls a person has to allow.
    :param repeatable: names of the tools whose calls may run again when it is not known how they ended.
    """
    turns = {row.turn: row for row in rows if row.kind == TURN}
    if not turns:
        return AskModel(0, max_batches <= 0)
    last = max(turns)
    row = turns[last]
    if row.state != "done":
        return AskModel(last, _batches(turns, last) >= max_batches)
    result: TurnResult = row.value
    if not result.calls:
        return Done(last)
    cut = [call for call in result.calls if call.error == "cut"]
    if cut and not result.tools_off and _cut_turns(turns) > cut_call_retries:
        return Truncated(last, cut[0])
    states = {r.key: r.state for r in rows if r.kind == "tool" and r.turn == last}
    begun = [c for c in result.calls if states.get(c.id) == "started"]
    unknown = tuple(c for c in begun if c.name not in repeatable)
    if unknown:
        return SettleUnknown(last, unknown)
    missing = tuple(c for c in result.calls if states.get(c.id, "started") == "started")
    if missing:
        asks = () if result.tools_off else (c for c in missing if c.error is None and c.name in held)
        return RunTools(last, missing, result.tools_off, _undecided(rows, last, asks))
    if result.tools_off:
        return Done(last)
    return AskModel(last + 1, _batches(turns, last + 1) >= max_batches)


def _undecided(rows: Sequence[Step], turn: int, calls: Iterable[ToolCallReady]) -> frozenset[str]:
    """Ids of those of ``calls`` that no person has decided about."""
    decided = {row.key for row in rows if row.kind == "decision" and row.turn == turn}
    return frozenset(call.id for call in calls if decision_key(call.id) not in decided)


def answered_last(rows: Sequence[Step]) -> str | None:
    """The ``<family>/<model>`` that made the last turn; None before the first."""
    done = [row for row in rows if row.kind == TURN and row.state == "done"]
    return max(done, key=lambda row: row.turn).value.asked if done else None


def used_ids(rows: Sequence[Step]) -> frozenset[str]:
    """Every call id that was ever announced, also in a turn that was cut off."""
    before = told_key("")
    ids = {row.key for row in rows if row.kind == "tool"}
    ids.update(row.key.removeprefix(before) for row in rows if row.key.startswith(before))
    for row in rows:
        if row.kind == TURN and row.state == "done":
            ids.update(row.value.given_up)
    return frozenset(ids)


def _batches(turns: dict[int, Step], before: int) -> int:
    """Turns before ``before`` that ended in calls."""
    return sum(1 for n, row in turns.items() if n < before and row.state == "done" and row.value.calls)


def _cut_turns(turns: dict[int, Step]) -> int:
    return sum(
        1
        for row in turns.values()
        if row.state == "done" and any(call.error == "cut" for call in row.value.calls)
    )
