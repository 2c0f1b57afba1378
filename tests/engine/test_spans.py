"""Spans: a run as OpenTelemetry tells it, against what its stream tells, and what is never in them."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.trace import SpanKind, StatusCode

from app import events as ev
from app.clock import trace_id_of
from app.engine.services import Services
from app.store.documents import Draft
from tests.engine.flows import document, save, start_saved
from tests.support.engine import agent, start
from tests.support.graphs import alone, ended, graph, playing
from tests.support.servers import wait_until
from tests.support.spans import Traces, context, events, said

pytestmark = pytest.mark.leak_check

CALLS = {
    "turns": [
        {
            "steps": [
                {"text": "one moment"},
                {"tool_call": {"name": "calculator", "arguments": {"expression": "6 * 7"}}},
            ]
        },
        {"steps": [{"text": "It is marigold."}, {"usage": {"input": 10, "output": 5}}]},
    ]
}
REFUSES = {"turns": [{"steps": [{"error": {"code": "provider_bad_request", "message": "No."}}]}]}
BUSY = {"turns": [{"steps": [{"error": {"code": "provider_overloaded", "message": "Later."}}]}]}
SCRIPTS = {
    "says": "It is marigold.",
    "guilty": "guilty",
    "calls": CALLS,
    "refuses": REFUSES,
    "busy": BUSY,
    "silent": {"turns": [{"steps": [{"stall": True}]}]},
    "stalls": {"turns": [{"steps": [{"text": "Wait"}, {"stall": True}]}]},
    "invents": {
        "turns": [
            {"steps": [{"tool_call": {"name": "marigold_tool", "arguments": {}}}]},
            {"steps": [{"text": "ok"}]},
        ]
    },
    "judge": '{"reason": "marigold", "passed": true}',
    "routes": '{"reason": "marigold", "route": "left"}',
}


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Services]:
    with playing(tmp_path, SCRIPTS) as opened:
        yield opened


def model(script: str, **more: t.Any) -> dict[str, t.Any]:
    return {"model": f"scripted/{script}", "retries": 0, **more}


def ms(nanoseconds: int | None) -> int:
    assert nanoseconds is not None
    return nanoseconds // 1_000_000


# -- one run -------------------------------------------------------------------------------------


def test_a_run_its_blocks_its_calls_and_its_tools_are_one_tree(made: Services) -> None:
    traces = Traces(made)
    ended(made, agent("scripted/calls", tools=["calculator"], temperature=0.5, max_tokens=90))
    assert traces.tree() == [
        "invoke_workflow test",
        "  start start",
        "  invoke_agent agent_1",
        "    chat calls",
        "    execute_tool calculator",
        "    chat calls",
    ]
    first, last = traces.named("chat calls")
    assert (first.kind, traces.one("execute_tool calculator").kind) == (SpanKind.CLIENT, SpanKind.INTERNAL)
    assert said(first)["gen_ai.response.finish_reasons"] == ("tool_calls",)
    found = said(last)
    assert found["gen_ai.response.time_to_first_chunk"] >= 0
    del found["gen_ai.response.time_to_first_chunk"]
    assert found == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "scripted",
        "gen_ai.request.model": "calls",
        "gen_ai.request.stream": True,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.max_tokens": 90,
        "gen_ai.response.model": "calls",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 5,
        "studio.run.id": found["studio.run.id"],
        "studio.block.id": "agent_1",
        "studio.model": "scripted/calls",
    }


def test_ids_and_times_are_those_of_the_stream(made: Services) -> None:
    traces = Traces(made)
    run, recorder = start(made, agent("scripted/calls", tools=["calculator"]))
    assert run.done.wait(20)
    assert {f"{context(span).trace_id:032x}" for span in traces.spans} == {trace_id_of(run.id)}
    assert {said(span)["studio.run.id"] for span in traces.spans} == {run.id}

    tool, (end,) = said(traces.one("execute_tool calculator")), recorder.of(ev.ToolFinished)
    assert (tool["gen_ai.tool.call.id"], tool["studio.block.id"]) == (end.id, "agent_1")
    span = traces.one("execute_tool calculator")
    assert (ms(span.start_time), ms(span.end_time)) == (end.started_at, end.at)

    block = traces.one("invoke_agent agent_1")
    times = [e.ts for e in recorder.envelopes if getattr(e.event, "block", "") == "agent_1"]
    assert (ms(block.start_time), ms(block.end_time)) == (times[0], times[-1])

    whole, terminal = traces.one("invoke_workflow test"), recorder.envelopes[-1]
    assert ms(whole.end_time) == terminal.ts
    attributes = said(whole)
    assert attributes["studio.run.status"] == "completed"
    assert attributes["studio.usage.total"] == terminal.event.usage["tokens"]["total"]


def test_whoever_starts_a_run_with_a_trace_of_its_own_is_linked(made: Services) -> None:
    traces = Traces(made)
    run, _ = start(
        made, agent("scripted/says"), traceparent="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    )
    assert run.done.wait(20)
    (link,) = traces.one("invoke_workflow test").links
    assert f"{link.context.trace_id:032x}" == "4bf92f3577b34da6a3ce929d0e0e4736"
    assert f"{link.context.span_id:016x}" == "00f067aa0ba902b7"
    assert f"{context(traces.one('invoke_workflow test')).trace_id:032x}" == trace_id_of(run.id)


@pytest.mark.parametrize("sent", ["", "nonsense", "00-0-0-01", "00-" + "0" * 32 + "-" + "0" * 16 + "-01"])
def test_a_trace_that_is_none_is_left_out(made: Services, sent: str) -> None:
    traces = Traces(made)
    run, _ = start(made, agent("scripted/says"), traceparent=sent)
    assert run.done.wait(20)
    assert not traces.one("invoke_workflow test").links


# -- blocks --------------------------------------------------------------------------------------


def test_what_a_block_runs_lies_under_it(made: Services) -> None:
    """A loop in a branch of a parallel block, in a workflow of its own."""
    traces = Traces(made)
    inner = document(
        [
            ("each", "parallel", {"items": "{{ [1, 2] }}", "max_concurrency": 1}),
            ("twice", "loop", {"kind": "for", "times": 2}),
            ("say", "agent", model("says")),
        ],
        "start > each",
        "each -loop > twice",
        "twice -loop > say",
        "say > twice",
        "twice -exit > each",
    )
    save(made, inner=inner, outer=document([("sub", "workflow", {"workflow": "inner"})], "start > sub"))
    run, _ = start_saved(made, "outer")
    assert run.done.wait(20)
    branch = ["      loop twice", *["        invoke_agent say", "          chat says"] * 2]
    assert traces.tree() == [
        "invoke_workflow test",
        "  start start",
        "  invoke_workflow inner",
        "    start start",
        "    parallel each",
        *branch,
        *branch,
    ]
    assert [said(span)["studio.block.id"] for span in traces.named("loop twice")] == [
        "sub/twice[0]",
        "sub/twice[1]",
    ]
    assert [name for name, _ in events(traces.named("loop twice")[0])] == ["iteration", "iteration"]
    assert {said(span)["studio.child.workflow.id"] for span in traces.named("invoke_workflow inner")} == {
        "inner"
    }


def test_agents_of_a_composite_speak_one_after_the_other(made: Services) -> None:
    traces = Traces(made)
    people = [model("calls", name="Ada", tools=["calculator"]), model("says", name="Ben")]
    doc = graph(
        [
            ("talk", "debate", {"participants": people, "rounds": 1, "moderator": model("says", name="Mo")}),
            ("row", "sequential", {"agents": people}),
            ("poll", "vote", {"voters": [model("guilty", name="Cleo")], "options": ["guilty", "free"]}),
        ],
        "start > talk",
        "talk > row",
        "row > poll",
    )
    ended(made, doc)
    ada = ["    invoke_agent Ada", "      chat calls", "      execute_tool calculator", "      chat calls"]
    ben = ["    invoke_agent Ben", "      chat says"]
    assert traces.tree() == [
        "invoke_workflow test",
        "  start start",
        "  debate talk",
        *ada,
        *ben,
        "    invoke_agent Mo",
        "      chat says",
        "  sequential row",
        *ada,
        *ben,
        "  vote poll",
        "    invoke_agent Cleo",
        "      chat guilty",
    ]


def test_searches_and_guardrails_tell_numbers_and_verdicts(made: Services) -> None:
    traces = Traces(made)
    made.store.documents.put("plants", Draft("a.txt", "Marigold is a plant."))
    checks = [
        {"kind": "max_length", "limit": 3},
        {"kind": "model", "model": "scripted/judge", "instruction": "x"},
    ]
    doc = graph(
        [
            ("look", "retrieve", {"collection": "plants", "query": "marigold", "top_k": 3}),
            ("judged", "guardrail", {"input": "hi", "checks": checks}),
            ("guard", "guardrail", {"input": "marigold", "checks": checks, "on_fail": "route"}),
            ("after", "set", {"values": {"x": 1}}),
            ("skipped", "set", {"values": {"x": 1}}),
        ],
        "start > look",
        "look > judged",
        "judged -true > guard",
        "guard -false > after",
        "guard -true > skipped",
    )
    ended(made, doc)
    search = said(traces.one("retrieval"))
    assert search["gen_ai.operation.name"] == "retrieval"
    assert search["gen_ai.data_source.id"] == "plants"
    assert search["gen_ai.retrieval.top_k"] == 3
    assert search["studio.retrieval.count"] == 1
    assert said(traces.one("guardrail judged"))["studio.guardrail.passed"] is True
    refused = traces.one("guardrail guard")
    assert said(refused)["studio.guardrail.passed"] is False
    assert events(refused) == [
        ("check", {"studio.check": "max_length", "studio.check.verdict": "failed"}),
        ("check", {"studio.check": "model", "studio.check.verdict": "skipped"}),
    ]
    assert ("block_skipped", {"studio.block.id": "skipped"}) in events(traces.one("invoke_workflow test"))
    assert traces.tree()[3:5] == ["  guardrail judged", "    chat judge"]


def test_a_router_tells_the_way_but_not_why(made: Services) -> None:
    traces = Traces(made)
    routes = [{"name": "left", "description": "l"}, {"name": "right", "description": "r"}]
    doc = graph(
        [
            ("way", "router", {"mode": "model", "model": "scripted/routes", "routes": routes}),
            ("a", "set", {"values": {"x": 1}}),
        ],
        "start > way",
        "way -route:left > a",
    )
    ended(made, doc)
    assert said(traces.one("router way"))["studio.route"] == "left"
    assert "marigold" not in traces.everything()


# -- failures and ends ---------------------------------------------------------------------------


def test_a_failure_is_the_status_of_all_that_failed_by_it(made: Services) -> None:
    traces = Traces(made)
    ended(made, agent("scripted/refuses", retries=0))
    for name in ("chat refuses", "invoke_agent agent_1", "invoke_workflow test"):
        span = traces.one(name)
        assert span.status.status_code is StatusCode.ERROR
        assert said(span)["error.type"] == "provider_bad_request"
        assert span.status.description == "provider_bad_request"
    assert said(traces.one("chat refuses"))["gen_ai.response.finish_reasons"] == ("error",)
    assert traces.one("start start").status.status_code is StatusCode.UNSET


def test_attempts_at_one_model_are_one_call_and_the_next_model_is_another(made: Services) -> None:
    traces = Traces(made)
    ended(made, agent("scripted/busy", retries=1, fallbacks=["scripted/says"]))
    assert traces.tree()[2:] == ["  invoke_agent agent_1", "    chat busy", "    chat says"]
    busy = traces.one("chat busy")
    assert (said(busy)["studio.attempts"], said(busy)["error.type"]) == (2, "provider_overloaded")
    assert [(name, found["studio.attempt"]) for name, found in events(busy)] == [
        ("attempt_failed", 1),
        ("attempt_failed", 2),
    ]
    assert [name for name, _ in events(traces.one("invoke_agent agent_1"))] == ["model_call_failed"] * 2
    assert traces.one("invoke_workflow test").status.status_code is StatusCode.UNSET


def test_a_failure_that_an_edge_takes_up_ends_with_its_block(made: Services) -> None:
    traces = Traces(made)
    doc = graph(
        [("ask", "agent", model("refuses")), ("sorry", "set", {"values": {"x": 1}})],
        "start > ask",
        "ask -error > sorry",
    )
    ended(made, doc)
    assert traces.one("invoke_agent ask").status.status_code is StatusCode.ERROR
    whole = traces.one("invoke_workflow test")
    assert (whole.status.status_code, said(whole)["studio.run.success"]) == (StatusCode.UNSET, False)


@pytest.mark.parametrize("script", ["silent", "stalls"])
def test_a_stopped_run_shows_the_call_it_waited_for(made: Services, script: str) -> None:
    traces = Traces(made)
    run, _ = start(made, agent(f"scripted/{script}"))
    wait_until(lambda: f"chat {script}" in traces.begun, "the model is asked")
    run.cancel("stop_requested")
    assert run.done.wait(20)
    assert traces.tree()[2:] == ["  invoke_agent agent_1", f"    chat {script}"]
    call, whole = traces.one(f"chat {script}"), traces.one("invoke_workflow test")
    assert said(call)["gen_ai.response.finish_reasons"] == ("error",)
    assert (said(whole)["studio.run.status"], said(whole)["studio.run.cause"]) == (
        "cancelled",
        "stop_requested",
    )
    assert said(traces.one("invoke_agent agent_1"))["studio.status"] == "cancelled"
    assert {span.status.status_code for span in traces.spans} == {StatusCode.UNSET}, "nothing went wrong"


def test_a_run_out_of_time_has_failed(made: Services) -> None:
    traces = Traces(made)
    run, _ = start(made, agent("scripted/silent"), timeout_s=0.2)
    assert run.done.wait(20)
    whole = traces.one("invoke_workflow test")
    assert (whole.status.status_code, said(whole)["error.type"]) == (StatusCode.ERROR, "execution_timeout")


def test_a_call_that_cannot_run_is_told_without_the_name_the_model_made_up(made: Services) -> None:
    traces = Traces(made)
    _, recorder = ended(made, agent("scripted/invents", tools=["clock"]))
    span, (end,) = traces.one("execute_tool"), recorder.of(ev.ToolFinished)
    assert said(span)["gen_ai.tool.call.id"] == end.id
    assert said(span)["studio.tool.executed"] is False
    assert said(span)["error.type"] == "tool_error"
    assert "marigold" not in traces.everything()


# -- what is not in them -------------------------------------------------------------------------


def telling() -> dict[str, t.Any]:
    """A document in which ``marigold`` is said in every way there is."""
    return graph(
        [
            ("look", "retrieve", {"collection": "plants", "query": "{{ input.message }}"}),
            ("ask", "agent", model("calls", system="marigold {{ input.message }}", tools=["calculator"])),
            ("make", "set", {"values": {"made": "{{ input.message }}"}}),
            (
                "guard",
                "guardrail",
                {"checks": [{"kind": "model", "model": "scripted/judge", "instruction": "marigold"}]},
            ),
            ("talk", "debate", {"participants": [model("says", name="Ada"), model("says")], "rounds": 1}),
            ("bad", "condition", {"expression": "input.message | marigold_filter"}),
        ],
        "start > look",
        "look > ask",
        "ask > make",
        "make > guard",
        "guard -true > talk",
    )


def test_nothing_that_was_said_is_in_them(made: Services) -> None:
    traces = Traces(made)
    made.store.documents.put("plants", Draft("a.txt", "Marigold is a plant."))
    doc = telling()
    doc["blocks"] = [block for block in doc["blocks"] if block["id"] != "bad"]
    end, _ = ended(made, doc, {"message": "what is marigold"})
    assert isinstance(end, ev.RunCompleted)
    assert "marigold" in str(end.outputs), "it was said"
    assert "marigold" not in traces.everything().lower()
    assert "6 * 7" not in traces.everything()


def test_where_it_is_wanted_it_is_there_without_secrets(made: Services) -> None:
    traces = Traces(made, content=True, secrets=["the-secret-word"])
    made.store.documents.put("plants", Draft("a.txt", "Marigold is a plant."))
    doc = telling()
    doc["blocks"] = [block for block in doc["blocks"] if block["id"] != "bad"]
    ended(made, doc, {"message": "what is marigold, the-secret-word"})
    last = said(traces.named("chat calls")[-1])
    assert '"role":"user"' in last["gen_ai.input.messages"]
    assert "what is marigold" in last["gen_ai.input.messages"]
    assert "marigold what is marigold" in last["gen_ai.system_instructions"]
    assert "It is marigold." in last["gen_ai.output.messages"]
    tool = said(traces.one("execute_tool calculator"))
    assert tool["gen_ai.tool.call.arguments"] == '{"expression":"6 * 7"}'
    assert "42" in tool["gen_ai.tool.call.result"]
    assert "what is marigold" in said(traces.one("retrieval"))["gen_ai.retrieval.query.text"]
    assert "marigold" in said(traces.one("invoke_workflow test"))["studio.run.output"]
    assert "the-secret-word" not in traces.everything()
    assert "***" in traces.everything()


@pytest.mark.parametrize("content", [False, True])
def test_of_a_secret_vote_nothing_is_seen_but_the_vote(made: Services, content: bool) -> None:
    voters = [model("guilty", name="Ada"), model("says", name="Ben"), model("refuses", name="Cleo")]
    for secret_voters in (voters[:2], voters):  # one that comes to an end, one in which somebody fails
        traces = Traces(made, content=content)
        config = {"voters": secret_voters, "options": ["guilty", "free"], "secret": True, "abstain": True}
        run, _ = start(made, alone("vote", config))
        assert run.done.wait(20)
        assert traces.tree() == ["invoke_workflow test", "  start start", "  vote it"]
        vote = said(traces.one("vote it"))
        assert set(vote) <= {
            "studio.run.id",
            "studio.block.id",
            "studio.block.type",
            "studio.block.name",
            "studio.status",
            "error.type",
        }
        assert not events(traces.one("vote it"))
        for name in ("Ada", "Ben", "Cleo", "scripted/"):
            assert name not in traces.everything()
