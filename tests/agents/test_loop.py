"""The tool loop's decisions, as a pure function of rows."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.agents.loop import (
    AskModel,
    CallResult,
    Done,
    Hold,
    RunTools,
    SettleUnknown,
    Truncated,
    TurnResult,
    next_action,
)
from providers.spec import ToolCallReady


@dataclass
class Row:
    turn: int
    key: str
    kind: str
    state: str
    value: t.Any = None


def ready(call_id: str, error: str | None = None, name: str = "clock") -> ToolCallReady:
    return ToolCallReady(call_id, name, None if error else {}, "{}", error)


def turn(n: int, *calls: ToolCallReady, reason: str = "stop", tools_off: bool = False) -> Row:
    result = TurnResult("text", calls, t.cast(t.Any, reason), None, None, "w", None, 0, 0, 0, tools_off)
    return Row(n, "turn", "turn", "done", result)


def tool(n: int, call_id: str, state: str = "done") -> Row:
    return Row(n, call_id, "tool", state, CallResult(call_id, "clock", "", None, False, 0, 0))


def test_an_empty_journal_asks_the_model() -> None:
    assert next_action([]) == AskModel(0)


def test_a_turn_without_calls_is_the_answer() -> None:
    assert next_action([turn(0)]) == Done(0)


@pytest.mark.parametrize("reason", ["stop", "length", "other", "content_filter", "tool_calls"])
def test_a_turn_with_complete_calls_runs_them_whatever_its_label_says(reason: str) -> None:
    a, b = ready("a"), ready("b")
    assert next_action([turn(0, a, b, reason=reason)]) == RunTools(0, (a, b))


def test_calls_that_a_person_has_to_allow_are_held_and_the_others_run() -> None:
    a, b, c = ready("a", name="pay"), ready("b"), ready("c", name="pay")
    rows = [turn(0, a, b, c)]
    assert next_action(rows, held={"pay"}) == Hold(0, (a, c))
    rows += [tool(0, "a", "failed"), tool(0, "c", "failed")]
    assert next_action(rows, held={"pay"}) == RunTools(0, (b,))
    rows += [tool(0, "b")]
    assert next_action(rows, held={"pay"}) == AskModel(1)


def test_nobody_is_asked_about_what_cannot_run() -> None:
    bad = ready("a", "invalid_json", name="pay")
    assert next_action([turn(0, bad)], held={"pay"}) == RunTools(0, (bad,))
    late = ready("b", name="pay")
    assert next_action([turn(0, late, tools_off=True)], held={"pay"}) == RunTools(0, (late,), True)


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(["clock", "pay", "send"]), max_size=6), st.sets(st.sampled_from(["pay", "send"]))
)
def test_no_held_call_is_ever_among_those_that_run(names: list[str], held: set[str]) -> None:
    calls = [ready(str(place), name=name) for place, name in enumerate(names)]
    rows, settled = [turn(0, *calls)], []
    while isinstance(action := next_action(rows, held=held), (Hold, RunTools)):
        assert {call.name in held for call in action.calls} == {isinstance(action, Hold)}
        settled += [call.id for call in action.calls]
        rows += [tool(0, call.id) for call in action.calls]
    assert sorted(settled) == sorted(call.id for call in calls)
    assert action == (AskModel(1) if calls else Done(0))


def test_settled_calls_lead_to_the_next_turn() -> None:
    assert next_action([turn(0, ready("a")), tool(0, "a", "failed")]) == AskModel(1)


def test_an_unfinished_turn_is_asked_again() -> None:
    assert next_action([Row(0, "turn", "turn", "started")]) == AskModel(0)


def test_a_call_of_unknown_outcome_is_settled_not_run_again() -> None:
    a, b = ready("a"), ready("b")
    rows = [turn(0, a, b), tool(0, "a", "started")]
    assert next_action(rows) == SettleUnknown(0, (a,))


def test_the_same_call_id_in_two_turns_is_two_calls() -> None:
    a = ready("a")
    assert next_action([turn(0, a), tool(0, "a"), turn(1, a)]) == RunTools(1, (a,))


def test_the_cap_leads_to_one_synthesis_turn_whose_calls_are_refused() -> None:
    a, b = ready("a"), ready("b")
    rows = [turn(0, a), tool(0, "a")]
    assert next_action(rows, max_batches=1) == AskModel(1, tools_off=True)
    rows.append(turn(1, b, tools_off=True))
    assert next_action(rows, max_batches=1) == RunTools(1, (b,), refuse=True)
    rows.append(tool(1, "b", "failed"))
    assert next_action(rows, max_batches=1) == Done(1)


def test_a_cut_call_fails_the_run_after_its_retries() -> None:
    cut = ready("a", "cut")
    assert next_action([turn(0, cut)]) == Truncated(0, cut)
    assert next_action([turn(0, cut)], cut_call_retries=1) == RunTools(0, (cut,))
    again = ready("b", "cut")
    rows = [turn(0, cut), tool(0, "a", "failed"), turn(1, again)]
    assert next_action(rows, cut_call_retries=1) == Truncated(1, again)


@given(st.lists(st.integers(0, 4), max_size=8), st.integers(1, 5))
def test_every_conversation_ends_and_every_call_is_settled_once(batches: list[int], cap: int) -> None:
    """Drive the loop with a scripted model that asks for ``batches[n]`` tools in turn ``n``."""
    rows: list[Row] = []
    settled: list[tuple[int, str]] = []
    for _ in range(200):
        action = next_action(rows, cap)
        if isinstance(action, Done):
            break
        if isinstance(action, AskModel):
            wanted = batches[action.turn] if action.turn < len(batches) else 0
            calls = [ready(f"c{n}") for n in range(wanted)]
            rows.append(turn(action.turn, *calls, tools_off=action.tools_off))
        else:
            assert isinstance(action, RunTools)
            for call in action.calls:
                settled.append((action.turn, call.id))
                rows.append(tool(action.turn, call.id, "failed" if action.refuse else "done"))
    else:
        pytest.fail("the loop did not end")
    announced = [(r.turn, c.id) for r in rows if r.kind == "turn" for c in r.value.calls]
    assert sorted(settled) == sorted(announced)
    ran = {r.turn for r in rows if r.kind == "tool" and r.state == "done"}
    assert len(ran) <= cap
