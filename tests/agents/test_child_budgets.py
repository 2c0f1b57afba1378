"""A workflow inside another one has a budget of its own: it ends by it, and what runs it goes on as after a failure."""

from __future__ import annotations

import typing as t

import pytest

from app import events as ev
from app.engine.budgets import Budget
from tests.agents.conftest import Agents
from tests.agents.test_budgets import MODEL, assert_over, run_budget, turn
from tests.engine.flows import save, start_saved
from tests.field.rig import Live
from tests.support.engine import agent
from tests.support.graphs import graph

WHOSE = "The budget of the workflow that sub runs is used up: 100 tokens a run."
CAUGHT = ("sorry", "set", {"values": {"code": "{{ blocks.sub.code }}", "why": "{{ blocks.sub.error }}"}})


def child(tokens: int | None = 100, cost: float | None = None, **config: t.Any) -> dict[str, t.Any]:
    """One agent, with a budget of its own."""
    return {
        **agent(MODEL, **config),
        "name": "inner",
        "settings": {"budget": {"tokens": tokens, "cost": cost}},
    }


def outer(*edges: str, more: tuple[t.Any, ...] = (), **config: t.Any) -> dict[str, t.Any]:
    """A document that runs ``inner`` in its block ``sub``."""
    blocks = [("sub", "workflow", {"workflow": "inner", **config}), *more]
    return {**graph(blocks, "start > sub", *edges), "name": "outer"}


def begin(agents: Agents, documents: dict[str, dict[str, t.Any]], *held: Budget) -> Live:
    """Store documents, the last of which runs."""
    save(agents.services, **documents)
    *_, last = documents
    return Live(t.cast(t.Any, agents), *start_saved(agents.services, last, budgets=held))


def ends(live: Live) -> list[tuple[str, str]]:
    return [(e.block, e.status) for e in live.recorder.of(ev.BlockFinished) if e.block != "start"]


def test_it_ends_by_its_own_budget_and_the_block_around_it_has_failed(agents: Agents) -> None:
    live = begin(agents, {"inner": child(tools=["calculator"]), "outer": outer()})
    turn(90, 20, "Too much", "", "c1")(live.call())
    live.end()
    assert isinstance(live.terminal, ev.RunFailed), live.terminal
    assert (live.terminal.code, live.terminal.block, live.terminal.message) == (
        "budget_exceeded",
        "sub",
        WHOSE,
    )
    assert (live.row["status"], live.row["cause"]) == ("failed", "budget_exceeded")
    assert ("sub", "failed") in ends(live)
    assert live.recorder.of(ev.ToolExecuting) == [], "its tools never run"
    assert live.row["usages"][0]["block"] == "sub/agent_1"


def test_an_error_edge_takes_it_up(agents: Agents) -> None:
    live = begin(agents, {"inner": child(), "outer": outer("sub -error> sorry", more=(CAUGHT,))})
    turn(90, 20, "Too much")(live.call())
    live.end()
    assert live.output == {"code": "budget_exceeded", "why": WHOSE}
    assert live.terminal.success is False


def test_within_it_nothing_is_different(agents: Agents) -> None:
    live = begin(agents, {"inner": child(), "outer": outer()})
    turn(60, 40, "Yes.")(live.call())
    assert live.end().output["content"] == "Yes."


def test_money_counts_as_well(agents: Agents) -> None:
    live = begin(agents, {"inner": child(None, 0.001), "outer": outer()})
    turn(100, 81, "Too much")(live.call())
    live.end()
    assert (live.terminal.code, live.terminal.block) == ("budget_exceeded", "sub")
    assert "0.001 US dollars" in live.terminal.message


def test_what_it_leaves_bounds_what_a_call_may_say(agents: Agents) -> None:
    """The tighter of its own and those around it; a call for which its own leaves too little is not made."""
    live = begin(
        agents, {"inner": child(500, tools=["calculator"]), "outer": outer()}, run_budget(tokens=1000)
    )
    call = live.call()
    assert 400 < call.body["max_tokens"] < 500
    turn(100, 395, "Wait.", "", "c1")(call)
    live.end()
    assert (live.terminal.code, live.terminal.block) == ("budget_exceeded", "sub")
    live = begin(agents, {"inner": child(10**6), "outer": outer()}, run_budget(tokens=1000))
    call = live.call()
    assert 900 < call.body["max_tokens"] < 1000
    turn(1, 1, "Yes.")(call)
    live.end()


def test_what_it_uses_counts_around_it_too_and_that_ends_all(agents: Agents) -> None:
    document = outer("sub -error> sorry", more=(CAUGHT,))
    live = begin(agents, {"inner": child(1000), "outer": document}, run_budget(tokens=100))
    turn(90, 20, "Too much")(live.call())
    assert_over(live)
    assert live.row["output"] is None


def test_what_goes_on_beside_it_does_not_count_in_it(agents: Agents) -> None:
    beside = ("own", "agent", {"model": MODEL, "prompt": "beside"})
    live = begin(agents, {"inner": child(), "outer": outer("start > own", more=(beside,))})
    calls = {call.body["messages"][-1]["content"]: call for call in (live.call(), live.call())}
    turn(500, 500, "Much.")(calls.pop("beside"))
    live.until(ev.AnswerSettled)
    (call,) = calls.values()
    turn(60, 40, "Yes.")(call)
    assert isinstance(live.end().terminal, ev.RunCompleted)


def test_the_innermost_that_is_exceeded_fails_and_those_around_it_count_it(agents: Agents) -> None:
    """Deep inside: what takes the failure up has used what the deepest used, and no more may follow."""
    middle = {
        **graph(
            [
                ("deep", "workflow", {"workflow": "inner"}),
                ("again", "agent", {"model": MODEL, "prompt": "again", "system": "x" * 600}),
            ],
            "start > deep",
            "deep -error> again",
        ),
        "name": "middle",
        "settings": {"budget": {"tokens": 200}},
    }
    top = outer("sub -error> sorry", more=(CAUGHT,), workflow="middle")
    live = begin(agents, {"inner": child(), "middle": middle, "outer": top})
    turn(90, 20, "Too much")(live.call())
    live.end()
    assert live.output["code"] == "budget_exceeded"
    assert "200 tokens a run" in live.output["why"], "90 are left, and the next prompt has 150"
    assert [block for block, status in ends(live) if status == "failed"] == [
        *("sub/deep/agent_1", "sub/deep"),
        *("sub/again", "sub"),
    ]


def test_each_run_of_it_in_a_loop_has_its_own(agents: Agents) -> None:
    top = {
        **graph(
            [
                ("each", "loop", {"kind": "for_each", "items": [1, 2, 3]}),
                ("sub", "workflow", {"workflow": "inner"}),
                ("sorry", "set", {"values": {"code": "{{ blocks.sub.code }}"}}),
            ],
            "start > each",
            "each -loop> sub",
            "sub > each",
            "sub -error> sorry",
            "sorry > each",
        ),
        "name": "outer",
    }
    live = begin(agents, {"inner": child(), "outer": top})
    for out in (20, 41, 40):
        turn(60, out, "So.")(live.call())
    live.end()
    assert isinstance(live.terminal, ev.RunCompleted), live.terminal
    assert [status for block, status in ends(live) if block == "sub"] == ["executed", "failed", "executed"]


def test_of_several_at_once_only_the_one_that_exceeds_fails(agents: Agents) -> None:
    top = {
        **graph(
            [
                ("all", "parallel", {"items": ["x", "y"], "on_error": "continue"}),
                ("sub", "workflow", {"workflow": "inner", "input": "{{ loop.item }}"}),
            ],
            "start > all",
            "all -loop> sub",
            "sub > all",
        ),
        "name": "outer",
    }
    live = begin(agents, {"inner": child(), "outer": top})
    calls = {call.body["messages"][-1]["content"]: call for call in (live.call(), live.call())}
    turn(90, 20, "Too much")(calls["x"])
    turn(60, 40, "Yes.")(calls["y"])
    live.end()
    assert {e for e in ends(live) if e[0].startswith("sub[") and "/" not in e[0]} == {
        ("sub[0]", "failed"),
        ("sub[1]", "executed"),
    }


def test_another_try_of_the_block_would_use_it_up_again(agents: Agents) -> None:
    live = begin(agents, {"inner": child(), "outer": outer(retries=2)})
    turn(90, 20, "Too much")(live.call())
    live.end()
    assert (live.terminal.code, live.terminal.block) == ("budget_exceeded", "sub")


# -- over a pause, and over the death of a process ---------------------------------------------------


ASKS = [{"name": "calculator", "approval": "always"}]


def answered(agents: Agents, run_id: str) -> None:
    store = agents.services.store
    (asked,) = store.decisions.open_of_run(run_id)
    assert store.decisions.answer(asked.id, {"decision": "approve"}, "key_7")[0]


@pytest.mark.parametrize("edges", [(), ("sub -error> sorry",)])
def test_it_keeps_counting_over_a_pause(agents: Agents, edges: tuple[str, ...]) -> None:
    top = outer(*edges, more=(CAUGHT,) if edges else ())
    live = begin(agents, {"inner": child(400, tools=ASKS), "outer": top})
    turn(100, 50, "Let me see.", "", "c1")(live.call())
    assert live.run.done.wait(20)
    assert live.run.paused is not None
    answered(agents, live.run.id)
    resumed = agents.services.runs.go_on(live.run.id)
    assert resumed is not None
    call = live.call()
    assert call.body["max_tokens"] < 250, "of 400, 150 were used before"
    turn(260, 1, "42")(call)
    assert resumed.done.wait(20)
    (end,) = [e.event for e in resumed.log if isinstance(e.event, ev.Terminal)]
    if edges:
        assert end.output["code"] == "budget_exceeded"
    else:
        assert (end.code, end.block) == ("budget_exceeded", "sub")
    assert live.row["usage"]["tokens"]["total"] == 411


def test_only_what_this_run_of_it_used_counts_where_it_goes_on(agents: Agents) -> None:
    """The second time around of a loop waits for somebody; what the first had used is no longer of interest."""
    top = {
        **graph(
            [
                ("each", "loop", {"kind": "for_each", "items": [1, 2]}),
                ("sub", "workflow", {"workflow": "inner"}),
            ],
            "start > each",
            "each -loop> sub",
            "sub > each",
        ),
        "name": "outer",
    }
    live = begin(agents, {"inner": child(400, tools=ASKS), "outer": top})
    turn(300, 90, "No tool.")(live.call())
    turn(100, 50, "Let me see.", "", "c1")(live.call())
    assert live.run.done.wait(20)
    answered(agents, live.run.id)
    resumed = agents.services.runs.go_on(live.run.id)
    assert resumed is not None
    turn(200, 49, "42")(live.call())
    assert resumed.done.wait(20)
    (end,) = [e.event for e in resumed.log if isinstance(e.event, ev.Terminal)]
    assert isinstance(end, ev.RunCompleted), end
