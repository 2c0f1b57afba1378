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
    RunTools,
    SettleUnknown,
    Truncated,
    TurnResult,
    decision_key,
    next_action,
    told_key,
    used_ids,
)
from plugins.spec.decisions import Answer
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


def decided(n: int, call_id: str, verdict: t.Any = "approve") -> Row:
    return Row(n, decision_key(call_id), "decision", "done", Answer(decision_key(call_id), verdict, 0))


def test_calls_that_a_person_has_to_allow_are_held_beside_the_others() -> None:
    a, b, c = ready("a", name="pay"), ready("b"), ready("c", name="pay")
    rows = [turn(0, a, b, c)]
    assert next_action(rows, held={"pay"}) == RunTools(0, (a, b, c), held=frozenset({"a", "c"}))
    rows += [tool(0, "b"), decided(0, "a")]
    assert next_action(rows, held={"pay"}) == RunTools(0, (a, c), held=frozenset({"c"}))
    rows += [tool(0, "a"), decided(0, "c", "reject"), tool(0, "c", "failed")]
    assert next_action(rows, held={"pay"}) == AskModel(1)


def test_a_decision_of_an_earlier_turn_allows_no_call_of_a_later_one() -> None:
    a = ready("a", name="pay")
    rows = [turn(0, a), decided(0, "a"), tool(0, "a"), turn(1, a)]
    assert next_action(rows, held={"pay"}) == RunTools(1, (a,), held=frozenset({"a"}))


def test_nobody_is_asked_about_what_cannot_run() -> None:
    bad = ready("a", "invalid_json", name="pay")
    assert next_action([turn(0, bad)], held={"pay"}) == RunTools(0, (bad,))
    late = ready("b", name="pay")
    assert next_action([turn(0, late, tools_off=True)], held={"pay"}) == RunTools(0, (late,), True)


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(["clock", "pay", "send"]), max_size=6),
    st.sets(st.sampled_from(["pay", "send"])),
    st.data(),
)
def test_no_held_call_runs_before_its_decision(names: list[str], held: set[str], data: st.DataObject) -> None:
    """Decisions and results come in any order; each call is settled once."""
    calls = [ready(str(place), name=name) for place, name in enumerate(names)]
    rows, settled, allowed = [turn(0, *calls)], [], set()
    while isinstance(action := next_action(rows, held=held), RunTools):
        may_run = [call for call in action.calls if call.id not in action.held]
        assert all(call.name not in held or call.id in allowed for call in may_run)
        assert all(
            call.name in held and call.id not in allowed for call in action.calls if call.id in action.held
        )
        steps = [*(("run", call.id) for call in may_run), *(("decide", name) for name in sorted(action.held))]
        what, call_id = data.draw(st.sampled_from(steps))
        if what == "run":
            settled.append(call_id)
            rows.append(tool(0, call_id))
        else:
            allowed.add(call_id)
            rows.append(decided(0, call_id))
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


def test_a_call_of_unknown_outcome_that_may_be_repeated_runs_again() -> None:
    a, b, c = ready("a"), ready("b"), ready("c", name="pay")
    rows = [turn(0, a, b, c), tool(0, "a", "started"), tool(0, "b")]
    assert next_action(rows, repeatable={"clock"}) == RunTools(0, (a, c))
    rows += [tool(0, "c", "started")]
    assert next_action(rows, repeatable={"clock"}) == SettleUnknown(0, (c,))


def test_an_approved_call_that_began_is_not_asked_about_again() -> None:
    a = ready("a", name="pay")
    rows = [turn(0, a), decided(0, "a"), tool(0, "a", "started")]
    assert next_action(rows, held={"pay"}, repeatable={"pay"}) == RunTools(0, (a,))
    assert next_action(rows, held={"pay"}) == SettleUnknown(0, (a,))


def test_ids_that_were_announced_are_spoken_for_also_in_a_turn_that_was_cut_off() -> None:
    rows = [
        Row(0, told_key("a"), "told", "done"),
        turn(0, ready("a")),
        tool(0, "a"),
        Row(1, "turn", "turn", "started"),
        Row(1, told_key("b"), "told", "done"),
        Row(0, "asked", "asked", "done"),
    ]
    assert used_ids(rows) == {"a", "b"}


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
