"""Spans and metrics of runs that leave their process: for people, for a restart, by a crash."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.trace import StatusCode

from app import events as ev
from app.clock import trace_id_of
from app.engine import motion
from app.engine.observe.first import first_span_id
from app.engine.observe.metrics import Metrics
from app.engine.run import Run
from app.engine.services import Services
from tests.engine.durable_runs import carry_on, die, lose_owner
from tests.engine.test_metrics import values
from tests.support.engine import Recorder, agent, start
from tests.support.graphs import graph, playing
from tests.support.servers import wait_until
from tests.support.spans import Traces, context, events, said

pytestmark = pytest.mark.leak_check

PAY = {
    "name": "pay",
    "description": "Pays.",
    "parameters": {"type": "object"},
    "result": {"paid": True},
    "approval": "always",
}
SCRIPTS = {
    "pays": {
        "turns": [
            {"steps": [{"tool_call": {"name": "pay", "arguments": {"to": "marigold"}}}]},
            {"steps": [{"text": "Paid."}]},
        ]
    },
    "says": "Well.",
    "stalls": {"turns": [{"steps": [{"text": "Wait"}, {"stall": True}]}]},
}


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Services]:
    monkeypatch.setattr(motion, "QUIET_S", 0.001)
    with playing(tmp_path, SCRIPTS) as opened:
        yield opened


def part(traces: Traces, run: Run, epoch: int) -> t.Any:
    """The first span of a part of a run."""
    (found,) = [span for span in traces.spans if context(span).span_id == first_span_id(run.id, epoch)]
    return found


def answered(made: Services, run: Run, verdict: str) -> tuple[Run, Recorder]:
    """The run as it goes on after its one question was answered."""
    (row,) = made.store.decisions.open_of_run(run.id)
    assert made.store.decisions.answer(row.id, {"decision": verdict}, "key_1")[0]
    found = carry_on(made, run.id)
    assert found is not None
    assert found[0].done.wait(20)
    return found


def test_a_pause_ends_the_spans_and_what_goes_on_is_linked(made: Services) -> None:
    traces = Traces(made)
    run, recorder = start(made, agent("scripted/pays", tools=[PAY]))
    assert run.done.wait(20)
    assert isinstance(recorder.envelopes[-1].event, ev.RunPaused)
    assert traces.tree() == [
        "invoke_workflow test",
        "  start start",
        "  invoke_agent agent_1",
        "    chat pays",
    ]
    first = part(traces, run, 1)
    (pause,) = [pause for pause, _ in recorder.envelopes[-1].event.pauses]
    assert (said(first)["studio.run.status"], said(first)["studio.decisions"]) == ("paused", (pause,))
    waiting = traces.one("invoke_agent agent_1")
    assert said(waiting)["studio.status"] == "paused"
    assert ("decision_requested", pause) in [(n, a.get("studio.decision.id")) for n, a in events(waiting)]
    assert {span.status.status_code for span in traces.spans} == {StatusCode.UNSET}

    before = len(traces.spans)
    answered(made, run, "approve")
    later = traces.spans[before:]
    assert sorted(span.name for span in later) == [
        "chat pays",
        "execute_tool pay",
        "invoke_agent agent_1",
        "invoke_workflow test",
    ]
    second = part(traces, run, 2)
    (link,) = second.links
    assert (link.context.trace_id, link.context.span_id) == (context(first).trace_id, context(first).span_id)
    assert second.parent is None
    assert {f"{context(span).trace_id:032x}" for span in traces.spans} == {trace_id_of(run.id)}
    assert said(second)["studio.run.status"] == "completed"
    assert said(second)["studio.human_wait_ms"] >= 0
    (again,) = [span for span in later if span.name == "invoke_agent agent_1"]
    assert said(again)["studio.resumed"] is True
    assert ("decision_settled", "approve") in [(n, a.get("studio.decision")) for n, a in events(again)]
    assert "marigold" not in traces.everything()


def test_an_agent_of_a_sequence_speaks_on_after_a_pause(made: Services) -> None:
    traces = Traces(made)
    agents = [
        {"model": "scripted/says", "name": "Ada"},
        {"model": "scripted/pays", "name": "Ben", "tools": [PAY]},
    ]
    run, _ = start(made, graph([("row", "sequential", {"agents": agents})], "start > row"))
    assert run.done.wait(20)
    before = len(traces.spans)
    answered(made, run, "approve")
    later = {span.name: span for span in traces.spans[before:]}
    parents = {context(span).span_id: span.name for span in later.values()}
    assert parents[later["execute_tool pay"].parent.span_id] == "invoke_agent Ben"
    assert parents[later["invoke_agent Ben"].parent.span_id] == "sequential row"


def test_a_run_that_is_handed_over_and_one_that_was_lost_go_on_in_their_trace(made: Services) -> None:
    traces = Traces(made)
    doc = {**agent("scripted/stalls"), "settings": {"durable": True}}
    run, recorder = start(made, doc)
    wait_until(lambda: recorder.of(ev.TextDelta), "it speaks")
    assert run.hand_over()
    assert run.done.wait(20)
    first = part(traces, run, 1)
    assert said(first)["studio.run.status"] == "handed_over"
    assert first.status.status_code is StatusCode.UNSET
    assert {said(span).get("studio.status") for span in traces.named("invoke_agent agent_1")} == {
        "handed_over"
    }

    found = carry_on(made, run.id)
    assert found is not None
    lost, heard = found
    wait_until(lambda: heard.of(ev.TextDelta), "it speaks again")
    die(lost)
    lose_owner(made, lost)
    found = carry_on(made, run.id)
    assert found is not None
    last, heard = found
    wait_until(lambda: heard.of(ev.TextDelta), "it speaks once more")
    last.cancel("stop_requested")
    assert last.done.wait(20)
    ids = [context(part(traces, run, epoch)).span_id for epoch in (1, 2, 3)]
    assert [link.context.span_id for link in part(traces, run, 3).links] == [ids[1]]
    assert said(part(traces, run, 3))["studio.run.status"] == "cancelled"
    assert said(part(traces, run, 2))["studio.run.status"] == "owner_lost"
    assert len(traces.named("chat stalls")) == 3


def test_people_are_counted_by_what_they_decide_and_how_long_they_take(made: Services) -> None:
    metrics = Metrics()
    Traces(made)
    made.observing.metrics = metrics
    run, _ = start(made, agent("scripted/pays", tools=[PAY]), origin={"surface": "agent"})
    assert run.done.wait(20)
    made.observing.open(made)[0].kill()  # what it would do once a second is not wanted here
    assert "studio_decisions_open 1.0" in metrics.text().decode()
    answered(made, run, "reject")
    assert "studio_decisions_open 0.0" in metrics.text().decode()
    found = values(metrics)
    assert found['runs_started_total{surface="agent"}'] == 1
    assert found['runs_paused_total{surface="agent"}'] == 1
    assert found['runs_resumed_total{surface="agent"}'] == 1
    assert found['runs_ended_total{cause="",status="completed",surface="agent"}'] == 1
    assert found["human_wait_seconds_count"] == 1
    assert found['decisions_requested_total{kind="tool"}'] == 1
    assert found['decisions_settled_total{decision="reject"}'] == 1
    assert found['model_calls_total{family="scripted",model="pays",outcome="ok"}'] == 2, "none was made twice"
