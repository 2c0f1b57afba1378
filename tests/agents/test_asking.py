"""Calls that a person has to allow: each is asked about once, and exactly what was allowed is run, once."""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Sequence

import pytest

from app import events as ev
from app.errors import RunError
from plugins.spec.decisions import Answer, Ask
from providers.spec import ModelEvent, ModelRequest
from tests.agents.acts import (
    OPEN,
    agent,
    calls,
    each_ended_once,
    results,
    text,
    tool,
    turns,
)
from tests.agents.cutting import Paused, Process, World, cuts


def three_calls(request: ModelRequest) -> Sequence[ModelEvent]:
    if turns(request) == 0:
        return calls(*((f"c{n}", "pay", {"n": n}) for n in range(3)), ("free", "look", {"n": 9}))
    return text(" / ".join(results(request)))


def held(approval: t.Any = "always") -> World:
    return World(three_calls, [tool("pay", approval=approval), tool("look")])


PAYING = agent(tools=["pay", "look"])


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)])
def test_calls_are_approved_in_any_order_each_in_a_process_of_its_own(order: tuple[int, ...]) -> None:
    world = held()
    for place in order:
        with pytest.raises(Paused):
            PAYING(Process(world))
        world.restart(lost=False)
        # By the id of the first event that named the call.
        (first,) = [e.id for e in world.told if isinstance(e, ev.ToolStarted) and e.id.endswith(str(place))]
        verdicts: list[t.Any] = ["approve", "edit", "reject"]
        world.answers[first] = Answer(
            first, verdicts[place], 1, arguments={"n": 77} if place == 1 else None, reason="too much"
        )
        assert world.asked.keys() == {"c0", "c1", "c2"}
    output = PAYING(Process(world))
    each_ended_once(world)
    assert output["content"] == (
        'pay 0 / A person changed the arguments of this call before it ran, to {"n":77}. Its result:\npay 77 / '
        "A person did not allow this call. Nothing was run. Their reason: too much / look 9"
    )
    assert sorted(n["n"] for name, n in world.ran if name == "pay") == [0, 77]
    ran = [c["arguments"] for c in output["toolCalls"]["list"]]
    assert ran == [{"n": 0}, {"n": 77}, {"n": 2}, {"n": 9}]
    assert [e.arguments for e in world.told if isinstance(e, ev.ToolExecuting) and e.id == "c1"] == [
        {"n": 77}
    ]
    assert next(name for name, _ in world.ran) == "look", "it waits for nobody"


def test_what_a_person_is_asked_is_the_call_as_it_would_run() -> None:
    world = held()
    world.tools["pay"] = tool("pay", approval="always", approval_deadline_s=60)
    with pytest.raises(Paused):
        PAYING(Process(world))
    ask = world.asked["c1"]
    assert (ask.kind, ask.turn, ask.tool, ask.arguments) == ("tool", 0, "pay", {"n": 1})
    assert ask.parameters == OPEN
    assert ask.subject is not None
    assert ask.subject.startswith("pay:")


def answered(world: World, verdict: t.Any, **more: t.Any) -> t.Any:
    """What an agent comes to when every call is answered alike."""
    world.answers = {f"c{n}": Answer(f"c{n}", verdict, 1, **more) for n in range(3)}
    return PAYING(Process(world))


def test_a_call_that_nobody_has_allowed_in_time_is_not_made() -> None:
    world = held()
    said = answered(world, "expired")["content"].split(" / ")
    assert said[0] == "This call needs a person's approval, and nobody gave it in time. Nothing was run."
    assert world.ran == [("look", {"n": 9})]


def test_changed_arguments_that_do_not_fit_are_not_run() -> None:
    world = held()
    said = answered(world, "edit", arguments={"n": "many"})["content"].split(" / ")
    assert said[0].startswith("A person changed the arguments of this call. Invalid arguments. n: ")
    assert world.ran == [("look", {"n": 9})]


def test_a_tool_that_is_asked_about_once_is_asked_about_once() -> None:
    world = held("ask_once")
    output = answered(world, "approve")
    assert world.asked.keys() == {"c0"}
    assert output["content"] == "pay 0 / pay 1 / pay 2 / look 9"
    later = held("ask_once")
    later.approved = world.approved
    assert PAYING(Process(later))["content"] == output["content"]
    assert later.asked == {}


def test_a_tool_that_is_asked_about_once_is_asked_about_again_after_a_rejection() -> None:
    world = held("ask_once")
    world.answers = {"c0": Answer("c0", "reject", 1), "c1": Answer("c1", "approve", 1)}
    output = PAYING(Process(world))
    assert world.asked.keys() == {"c0", "c1"}
    assert [n["n"] for name, n in world.ran if name == "pay"] == [1, 2]
    assert output["content"].startswith("A person did not allow this call. Nothing was run. / pay 1")


def test_an_approval_for_the_thread_is_for_this_very_tool() -> None:
    def entry(url: str) -> dict[str, t.Any]:
        return {"name": "pay", "http": {"url": url}, "parameters": OPEN, "approval": "always"}

    subjects = set()
    for tools in (["pay"], [entry("http://a.test/")], [entry("http://b.test/")]):
        world = held()
        with pytest.raises(Paused):
            agent(tools=[*tools, "look"])(Process(world))
        subjects.add(world.asked["c0"].subject)
    assert len(subjects) == 3


def test_a_remembered_answer_is_kept_for_the_tool() -> None:
    world = held()
    world.answers = {f"c{n}": Answer(f"c{n}", "approve", 1, remember=n == 0) for n in range(3)}
    PAYING(Process(world))
    assert world.approved == {world.asked["c0"].subject}


@pytest.mark.parametrize("lost", [False, True], ids=["all kept", "only what had to be"])
def test_an_approved_call_is_made_once_wherever_its_process_ends(lost: bool) -> None:
    def decided(ask: Ask) -> Answer:
        place = (ask.arguments or {})["n"]
        verdicts: list[t.Any] = ["approve", "edit", "reject"]
        return Answer(ask.key, verdicts[place], 1, arguments={"n": 77} if place == 1 else None)

    def make() -> World:
        world = held()
        world.answer = decided
        return world

    for world, output in cuts(make, PAYING, lost):
        each_ended_once(world)
        made = Counter(str(arguments["n"]) for name, arguments in world.ran if name == "pay")
        assert set(made.values()) <= {1}
        assert made.keys() <= {"0", "77"}
        changed = [c["arguments"] for c in output["toolCalls"]["list"]][1]
        assert changed == {"n": 77}, "also where it is not known what came of it"


def test_a_decision_about_other_arguments_runs_nothing() -> None:
    world = held()
    world.answers["c0"] = Answer("c0", "approve", 1)
    with pytest.raises(Paused):
        PAYING(Process(world, None))
    row = world.journal.find("b", 1, 0, "decision c0")
    done = world.journal.find("b", 1, 0, "c0")
    assert row is not None
    assert done is not None
    row.input_hash = "of other arguments"
    world.journal._steps["b", 1].pop((0, "c0"))
    with pytest.raises(RunError) as caught:
        PAYING(Process(world))
    assert caught.value.code == "journal_mismatch"


def test_where_nobody_can_be_asked_nothing_that_needs_it_runs() -> None:
    world = held()
    process = Process(world)
    process.can_ask = False
    said = PAYING(process)["content"].split(" / ")
    assert said == [
        "This tool needs a person's approval, and nobody can be asked in this run. Nothing was run."
    ] * 3 + ["look 9"]
    assert world.asked == {}
