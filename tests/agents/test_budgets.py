"""Budgets of a run: wherever one is used up, the run ends once, in order, and tells whose it was who may know."""

from __future__ import annotations

import logging
import typing as t
from collections.abc import Callable, Mapping

import gevent.event
import pytest

from app import events as ev
from app.engine.budgets import Budget, check_start, period_of, resets_at_ms
from app.engine.run_request import RunRequest
from app.errors import ApiError
from app.store.spending import Spent
from app.workflows.runner_graph import compile_runner
from plugins.spec import RunnerGraph, RunnerNode, RunnerSettings, Tool
from tests.agents.conftest import Agents
from tests.field.rig import Live, until
from tests.field.wires import sse
from tests.support.engine import Recorder, agent, start
from tests.support.graphs import graph
from tests.support.vendor import Call

#: Two dollars a million tokens in, ten out.
MODEL = "priced/one"
CALL = {"name": "calculator", "arguments": '{"expression":"6*7"}'}


def turn(into: int, out: int, text: str = "", reason: str = "stop", *calls: str) -> Callable[[Call], None]:
    """A turn that says ``text``, asks for calls with these ids, and states what it used."""

    def say(call: Call) -> None:
        if text:
            call.text(text)
        for index, name in enumerate(calls):
            call.send({"tool_calls": [{"index": index, "id": name, "function": CALL}]})
        call.send({}, "tool_calls" if calls else reason)
        usage = {"prompt_tokens": into, "completion_tokens": out}
        call.send_bytes(sse({"choices": [], "usage": usage}) + b"data: [DONE]\n\n")
        call.end_body()

    return say


def begin(agents: Agents, document: Mapping[str, t.Any], *held: Budget, **options: t.Any) -> Live:
    """Start a run within budgets."""
    return Live(t.cast(t.Any, agents), *start(agents.services, document, budgets=held, **options))


def run_budget(tokens: int | None = None, cost: float | None = None) -> Budget:
    return Budget("workflow:wf_test", "run", tokens, cost)


def assert_over(live: Live, whose: str = "this workflow") -> None:
    """It ended by a budget, and is recorded so; what was open is settled."""
    live.end()
    assert isinstance(live.terminal, ev.RunFailed), live.terminal
    assert (live.terminal.code, live.terminal.block) == ("budget_exceeded", None)
    assert whose in live.terminal.message
    row = live.row
    assert (row["status"], row["cause"], row["error"]["code"]) == ("failed",) + ("budget_exceeded",) * 2
    assert all(block["status"] != "running" for block in row["blocks"])


def test_a_run_within_its_budget_is_like_any_other(agents: Agents) -> None:
    live = begin(agents, agent(MODEL, tools=["calculator"]), run_budget(tokens=1000, cost=1.0))
    turn(100, 10, "", "", "c1")(live.call())
    turn(200, 10, "42")(live.call())
    live.end()
    assert live.output["content"] == "42"
    assert live.ends == [("calculator", "success")]


def test_it_ends_before_the_call_for_which_too_little_is_left(agents: Agents) -> None:
    """Between turns: the tools of the last turn have run."""
    live = begin(agents, agent(MODEL, tools=["calculator"]), run_budget(tokens=120))
    turn(100, 10, "Let me see.", "", "c1")(live.call())
    assert_over(live)
    assert live.ends == [("calculator", "success")]
    assert live.terminal.usage["tokens"]["total"] == 110
    assert live.row["partial_text"] is None, "the turn with the call was over"


@pytest.mark.parametrize("calls", [(), ("c1", "c2")])
def test_the_call_that_uses_too_much_is_the_last(agents: Agents, calls: tuple[str, ...]) -> None:
    """Its tools never run, and its text is no answer."""
    live = begin(agents, agent(MODEL, tools=["calculator"]), run_budget(tokens=100))
    turn(100, 1, "So it is", "stop", *calls)(live.call())
    assert_over(live)
    assert live.ends == [("calculator", "error")] * len(calls)
    assert live.recorder.of(ev.ToolExecuting) == []
    assert live.recorder.of(ev.AnswerSettled) == []
    assert live.row["partial_text"] == {"agent_1": "So it is"}


def test_to_the_last_token_is_within(agents: Agents) -> None:
    live = begin(agents, agent(MODEL), run_budget(tokens=100))
    turn(60, 40, "Yes.")(live.call())
    assert live.end().output["content"] == "Yes."


def test_money_is_counted_by_the_prices_that_are_known(agents: Agents) -> None:
    spent = 100_000 * 2e-6 + 10_000 * 10e-6
    for most, ends in ((spent, False), (spent * 0.999, True)):
        live = begin(agents, agent(MODEL), run_budget(cost=most))
        turn(100_000, 10_000, "Yes.")(live.call())
        assert isinstance(live.end().terminal, ev.RunFailed) is ends
    assert "US dollars a run" in live.terminal.message


def test_a_model_without_a_price_does_not_count_and_that_is_said(
    agents: Agents, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "studio.budgets")
    document = agent("openai-compatible/x", tools=["calculator"])
    live = begin(agents, document, run_budget(cost=0.01))
    turn(10**6, 10**6, "", "", "c1")(live.call())
    turn(10**6, 10**6, "42")(live.call())
    assert live.end().output["content"] == "42"
    (line,) = [record.getMessage() for record in caplog.records]
    assert "openai-compatible/x" in line


@pytest.mark.parametrize(
    ("held", "own", "asked"),
    [
        (run_budget(tokens=500), None, 493),  # 500 less the prompt, by its length
        (run_budget(tokens=500), 100, 100),
        (run_budget(tokens=500), 5000, 493),
        (run_budget(cost=0.004), None, 398),  # 398 of ten dollars a million, after the prompt for two
        (run_budget(tokens=10**12), None, 10**12 - 7),
    ],
)
def test_what_is_left_bounds_what_the_next_call_may_say(
    agents: Agents, held: Budget, own: int | None, asked: int
) -> None:
    live = begin(agents, agent(MODEL, max_tokens=own), held)
    call = live.call()
    assert call.body["max_tokens"] == asked
    turn(8, 2, "Yes.")(call)
    assert live.end().output["content"] == "Yes."


def test_an_answer_that_the_budget_cut_is_no_answer(agents: Agents) -> None:
    live = begin(agents, agent(MODEL), run_budget(tokens=500))
    turn(8, 480, "It was a dark and", "length")(live.call())
    assert_over(live)
    live = begin(agents, agent(MODEL, max_tokens=50), run_budget(tokens=500))
    turn(8, 50, "It was a dark and", "length")(live.call())
    assert live.end().output["finishReason"] == "length", "its own limit cut it"


def test_what_a_failed_call_used_counts(agents: Agents) -> None:
    live = begin(agents, agent(MODEL, retries=3), run_budget(tokens=100))
    call = live.call()
    call.send_bytes(sse({"choices": [], "usage": {"prompt_tokens": 90, "completion_tokens": 20}}))
    call.send_bytes(sse({"error": {"message": "Too busy.", "type": "overloaded_error"}}))
    call.end_body()
    assert_over(live)


def test_an_error_edge_or_another_try_does_not_take_it_up(agents: Agents) -> None:
    blocks = [
        ("a", "agent", {"model": MODEL, "prompt": "hi", "retries": 2}),
        ("b", "set", {"values": {"x": "caught"}}),
    ]
    live = begin(agents, graph(blocks, "start > a", "a -error> b"), run_budget(tokens=100))
    turn(90, 20, "Too much")(live.call())
    assert_over(live)


def test_branches_end_wherever_they_are(agents: Agents) -> None:
    """One uses it up while another hears its model, and a third waits for a tool."""

    def hold(arguments: t.Any, context: t.Any) -> t.Any:
        with context.waits.wait():
            gevent.event.Event().wait()

    agents.services.plugins.tools["calculator"] = Tool("calculator", "Holds.", {"type": "object"}, hold)
    blocks = [
        (name, "agent", {"model": MODEL, "prompt": name, "tools": ["calculator"] if name == "c" else []})
        for name in "abc"
    ]
    document = graph(blocks, "start > a", "start > b", "start > c")
    live = begin(agents, document, run_budget(tokens=10_000))
    calls = {call.body["messages"][-1]["content"]: call for call in (live.call() for _ in blocks)}
    turn(10, 1, "", "", "c1")(calls["c"])
    live.until(ev.ToolExecuting)
    calls["b"].text("Half ")
    live.until(ev.TextDelta)
    turn(9990, 20, "All of it")(calls["a"])
    assert_over(live)
    assert calls["b"].left.wait(20)
    assert live.row["partial_text"]["b"] == "Half "
    assert live.ends == [("calculator", "error")]


def test_a_child_counts_in_its_parent(agents: Agents) -> None:
    from tests.engine.flows import save, start_saved

    save(agents.services, inner={**agent(MODEL), "name": "inner"})
    blocks = [("sub", "workflow", {"workflow": "inner", "input": {"message": "hi"}})]
    save(agents.services, outer={**graph(blocks, "start > sub"), "name": "outer"})
    live = Live(
        t.cast(t.Any, agents), *start_saved(agents.services, "outer", budgets=(run_budget(tokens=100),))
    )
    turn(90, 20, "Too much")(live.call())
    assert_over(live)
    assert live.row["usages"][0]["block"] == "sub/agent_1"


def test_a_secret_vote_is_counted_as_one(agents: Agents) -> None:
    """Nothing tells at whose ballot it was used up."""
    voters = [{"model": MODEL, "prompt": f"voter {n}", "max_tokens": 30} for n in range(3)]
    vote = {"voters": voters, "options": ["yes", "no"], "secret": True}
    live = begin(agents, graph([("v", "vote", vote)], "start > v"), run_budget(tokens=2000))
    for call in [live.call() for _ in voters]:
        turn(600, 200, "yes")(call)
    assert_over(live)
    (used,) = live.recorder.of(ev.UsageReported)
    assert used.block == "v"
    assert "voter" not in str(live.terminal)


class Runner:
    """Brings its own way to run: one node that reports what it has used, and waits."""

    id = "test:spends"
    title = "Spends"
    settings = RunnerSettings()

    def topology(self) -> RunnerGraph:
        return RunnerGraph([RunnerNode("one", "One", ends=True, answers=True)], [], ["one"])

    def run(self, context: t.Any) -> Mapping[str, t.Any]:
        node = context.start("one")
        node.tool_started("c1", "pay", {})
        node.usage("m", {"input": 60, "output": 50})
        with context.waits.wait():
            gevent.event.Event().wait()
        raise AssertionError


def test_what_a_graph_of_somebody_else_reports_counts_too(agents: Agents) -> None:
    made = agents.services
    request = RunRequest(
        made.clock.new_id("run"), "test:spends", None, compile_runner(Runner()), {}, 20,
        budgets=(run_budget(tokens=100),),
    )  # fmt: skip
    recorder = Recorder()
    live = Live(t.cast(t.Any, agents), made.runs.start(request, (recorder,)), recorder)
    assert_over(live)
    assert live.ends == [("pay", "error")]


# -- what several runs share -----------------------------------------------------------------------


def test_runs_at_the_same_time_share_a_budget(agents: Agents) -> None:
    held = Budget("key:key_1", "day", tokens=100)
    one, other = (begin(agents, agent(MODEL, max_tokens=20), held) for _ in range(2))
    first, second = one.call(), one.call()
    turn(60, 10, "Yes.")(first)
    until(lambda: one.run.done.is_set() or other.run.done.is_set(), "one has ended")
    ends = (one, other) if one.run.done.is_set() else (other, one)
    turn(60, 10, "Yes.")(second)
    for live in ends:
        live.end()
    assert isinstance(ends[0].terminal, ev.RunCompleted)
    assert_over(ends[1], "this API key is used up: 100 tokens a day (UTC)")
    spending, now = agents.services.store.spending, agents.services.clock.now_ms()
    assert spending.read("key:key_1", period_of(held, now)) == Spent(140, pytest.approx(2 * 0.00022))
    with pytest.raises(ApiError) as refused:
        check_start((held,), spending, now)
    assert (refused.value.status, refused.value.code) == (429, "budget_exceeded")
    wait = int(refused.value.headers["Retry-After"])
    assert resets_at_ms(held, now) - 1000 < now + wait * 1000 < resets_at_ms(held, now) + 1000
    with pytest.raises(ApiError, match=r"^Not now\.$"):
        check_start((held,), spending, now, "Not now.")
    check_start((Budget("key:key_2", "day", tokens=100),), spending, now)
    check_start((run_budget(tokens=1),), spending, now)


def test_the_tightest_of_several_counts(agents: Agents) -> None:
    wide, narrow = Budget("key:key_3", "month", tokens=10**6), run_budget(tokens=500)
    live = begin(agents, agent(MODEL), wide, narrow)
    call = live.call()
    assert call.body["max_tokens"] == 493
    turn(600, 1, "So")(call)
    assert_over(live, "this workflow")
    now = agents.services.clock.now_ms()
    assert agents.services.store.spending.read("key:key_3", period_of(wide, now)).tokens == 601, "all counts"


def test_what_a_stopped_run_used_counts(agents: Agents) -> None:
    held = Budget("key:key_4", "day", tokens=10**6)
    live = begin(agents, agent(MODEL), held)
    call = live.call()
    call.send_bytes(sse({"choices": [], "usage": {"prompt_tokens": 70, "completion_tokens": 3}}))
    call.text("Half")
    live.until(ev.TextDelta)
    assert live.run.cancel("stop_requested")
    assert isinstance(live.end().terminal, ev.RunCancelled)
    now = agents.services.clock.now_ms()
    assert agents.services.store.spending.read("key:key_4", period_of(held, now)).tokens == 73


def held_now(agents: Agents, subject: str) -> Spent:
    """What calls hold of a budget that several runs share, also those of processes that are gone."""
    store = agents.services.store
    sql = "SELECT count(*), coalesce(sum(tokens), 0) FROM spending WHERE subject = ?"
    (row,) = store._writer.submit(lambda link: link.raw.execute(sql, (f"held {subject}",)).fetchall()).wait()
    return Spent(*row)


def waits(agents: Agents) -> None:
    """Some call waits for others to end."""
    before = len(agents.clock.slept)
    until(lambda: len(agents.clock.slept) > before + 2, "a call waits")


@pytest.mark.parametrize("whose", ["key:key_5", "workflow:wf_test"])
def test_calls_at_the_same_time_do_not_all_begin_on_the_last_of_it(agents: Agents, whose: str) -> None:
    """Two fit in, by what they may say at most. The third waits, and is made when one has used less than that."""
    is_shared = whose.startswith("key")
    held = Budget(whose, "day" if is_shared else "run", tokens=250)
    blocks = [(name, "agent", {"model": MODEL, "prompt": name, "max_tokens": 100}) for name in "abc"]
    document = graph(blocks, "start > a", "start > b", "start > c")
    live = begin(agents, document, held)
    first, second = live.call(), live.call()
    waits(agents)
    assert agents.vendor.calls.empty()
    if is_shared:
        assert held_now(agents, whose) == (2, 2 * 107)
    turn(7, 20, "Short.")(first)
    third = live.call()
    assert third.body["max_tokens"] == 100
    turn(7, 20, "Short.")(second)
    turn(7, 20, "Short.")(third)
    assert isinstance(live.end().terminal, ev.RunCompleted)
    assert held_now(agents, whose) == (0, 0)


@pytest.mark.parametrize("how", ["stopped", "failed"])
def test_what_a_call_held_is_given_back_however_it_ends(agents: Agents, how: str) -> None:
    held = Budget("key:key_6", "day", tokens=300)
    one = begin(agents, agent(MODEL, max_tokens=200, retries=0), held)
    call = one.call()
    other = begin(agents, agent(MODEL, max_tokens=200), held)
    waits(agents)
    if how == "stopped":
        assert one.run.cancel("stop_requested")
    else:
        call.send_bytes(sse({"error": {"message": "No.", "type": "invalid_request_error"}}))
        call.end_body()
    one.end()
    turn(7, 20, "Mine.")(other.call())
    assert other.end().output["content"] == "Mine."
    assert held_now(agents, "key:key_6") == (0, 0)


def test_whoever_waits_can_be_stopped(agents: Agents) -> None:
    held = Budget("key:key_8", "day", tokens=300)
    one = begin(agents, agent(MODEL, max_tokens=200), held)
    call = one.call()
    other = begin(agents, agent(MODEL, max_tokens=200), held)
    waits(agents)
    assert other.run.cancel("stop_requested")
    assert isinstance(other.end().terminal, ev.RunCancelled)
    turn(7, 20, "Mine.")(call)
    assert one.end().output["content"] == "Mine."


def test_a_call_that_would_not_fit_in_alone_waits_for_nobody(agents: Agents) -> None:
    held = Budget("key:key_9", "day", tokens=100)
    one = begin(agents, agent(MODEL, max_tokens=20), held)
    call = one.call()
    other = begin(agents, agent(MODEL, system="x" * 400, max_tokens=200), held)
    assert_over(other, "this API key")
    turn(7, 20, "Mine.")(call)
    one.end()


# -- over a pause ----------------------------------------------------------------------------------


def test_a_run_that_goes_on_after_a_pause_keeps_counting(agents: Agents) -> None:
    """Another process has taken it up, with its budgets and with what it had used."""
    tools = [{"name": "calculator", "approval": "always"}]
    live = begin(agents, agent(MODEL, tools=tools), run_budget(tokens=400))
    turn(100, 50, "Let me see.", "", "c1")(live.call())
    assert live.run.done.wait(20)
    assert live.run.paused is not None
    store = agents.services.store
    (asked,) = store.decisions.open_of_run(live.run.id)
    assert store.decisions.answer(asked.id, {"decision": "approve"}, "key_7")[0]
    resumed = agents.services.runs.go_on(live.run.id)
    assert resumed is not None
    assert resumed is not live.run
    call = live.call()
    assert call.body["max_tokens"] < 250
    turn(260, 1, "42")(call)
    assert resumed.done.wait(20)
    ends = [e.event for e in resumed.log if isinstance(e.event, ev.Terminal)]
    assert [type(end) for end in ends] == [ev.RunFailed]
    assert (live.row["cause"], live.row["usage"]["tokens"]["total"]) == ("budget_exceeded", 411)
