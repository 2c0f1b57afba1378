"""Agents whose process ends at any moment: they come to the same, and tell and do nothing twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from app.errors import RunError
from plugins.spec.decisions import Answer
from providers.spec import ModelEvent, ModelRequest, TextDelta
from tests.agents.acts import (
    agent,
    asked,
    calls,
    each_ended_once,
    results,
    text,
    tool,
    turns,
    without_ids,
)
from tests.agents.cutting import Paused, Process, World, cuts, many_cuts, played


def tools_once(request: ModelRequest) -> Sequence[ModelEvent]:
    """Two calls, one of which may be repeated; then what came of them."""
    if turns(request) == 0:
        return [TextDelta("let me"), *calls(("c1", "look", {"n": 1}), ("c2", "pay", {"n": 2}))]
    return text("so: ", " / ".join(results(request)))


def with_tools() -> World:
    return World(tools_once, [tool("look", idempotent=True), tool("pay")])


@pytest.mark.parametrize("lost", [False, True], ids=["all kept", "only what had to be"])
def test_an_agent_goes_on_and_no_call_is_made_twice_that_may_not_be(lost: bool) -> None:
    run = agent(tools=["look", "pay"])
    whole = played(with_tools(), run)
    for world, output in cuts(with_tools, run, lost):
        each_ended_once(world)
        made = Counter(name for name, _ in world.ran)
        assert made["pay"] <= 1
        content = output["content"]
        assert content in (
            whole["content"],
            "so: look 1 / The outcome of this call is unknown: the server stopped while it ran.",
        )
        if content == whole["content"]:
            assert made["pay"] == 1
            assert without_ids(output) == without_ids(whole)
        else:
            assert [c["status"] for c in output["toolCalls"]["list"]] == ["success", "error"]


@pytest.mark.parametrize("seed", range(20))
def test_an_agent_whose_process_ends_again_and_again(seed: int) -> None:
    world, output = many_cuts(with_tools, agent(tools=["look", "pay"]), seed)
    each_ended_once(world)
    assert Counter(name for name, _ in world.ran)["pay"] <= 1
    assert output["content"].startswith("so: look 1 / ")


def test_what_an_agent_was_asked_stands_though_its_templates_would_say_something_else_now() -> None:
    heard: list[tuple[str | None, str]] = []

    def says(request: ModelRequest) -> Sequence[ModelEvent]:
        heard.append((request.system, asked(request)))
        return tools_once(request)

    world = World(says, [tool("look"), tool("pay", approval="always")])
    run = agent(tools=["look", "pay"])
    with pytest.raises(Paused):
        run(Process(world))
    world.restart(lost=True)
    world.variables = {**world.variables, "input": {"message": "something else"}}
    world.answers["c2"] = Answer("c2", "approve", 1)
    run(Process(world))
    assert heard == [("Be brief.", "go")] * 2


def test_another_agent_of_the_same_name_gets_none_of_its_answers() -> None:
    world = with_tools()
    world.tools["pay"] = tool("pay", approval="always")
    with pytest.raises(Paused):
        agent(tools=["look", "pay"])(Process(world))
    world.restart(lost=False)
    with pytest.raises(RunError) as caught:
        agent(tools=["look", "pay"], temperature=1.0)(Process(world))
    assert caught.value.code == "journal_mismatch"


def test_a_result_is_not_taken_for_that_of_another_call() -> None:
    world = with_tools()
    played(world, agent(tools=["look", "pay"]))
    row = world.journal.find("b", 1, 0, "c2")
    assert row is not None
    row.input_hash = "of another call"
    with pytest.raises(RunError) as caught:
        agent(tools=["look", "pay"])(Process(world))
    assert caught.value.code == "journal_mismatch"
