"""Sequences: what each agent is given, what is told of it, how it ends in the middle."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from app import events as ev
from app.engine.services import Services
from tests.streams.generate import violations
from tests.support.graphs import alone, ended, graph, playing, stopped, told

pytestmark = pytest.mark.leak_check

TOOLED = {
    "turns": [
        {
            "steps": [
                {"thinking": "hm"},
                {"text": "Let me see. "},
                {"tool_call": {"name": "fixed", "arguments": {"n": 1}, "id": "call_1"}},
                {"usage": {"input": 5, "output": 2}},
            ]
        },
        {"steps": [{"thinking": "so"}, {"text": "{{tools.fixed}}"}, {"usage": {"input": 9, "output": 1}}]},
    ]
}
SCRIPTS = {
    "first": "one",
    "stalls": {"turns": [{"steps": [{"text": "begun"}, {"stall": True}]}]},
    "fails": {"turns": [{"steps": [{"error": {"code": "provider_bad_request", "message": "No."}}]}]},
    "tooled": TOOLED,
}
FIXED = {"name": "fixed", "description": "A fixed answer.", "parameters": {"type": "object"}, "result": "42"}


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Services]:
    with playing(tmp_path, SCRIPTS) as opened:
        yield opened


def agent(model: str, **more: t.Any) -> dict[str, t.Any]:
    return {"model": f"scripted/{model}", "retries": 0, **more}


def steps(recorder: t.Any) -> list[tuple[int, str]]:
    return [(e.index, e.phase) for e in recorder.of(ev.SequenceStep)]


def test_each_agent_is_given_the_answer_of_the_one_before(made: Services) -> None:
    agents = [
        agent("echo", name="Ann"),
        agent("echo", prompt="{{ previous }}, says {{ answers[0].name }}"),
        agent("echo"),
        agent("echo", prompt="{{ answers | map(attribute='content') | join('|') }}"),
    ]
    end, recorder = ended(made, alone("sequential", {"agents": agents}))
    assert end.output["content"] == "hi|hi, says Ann|hi, says Ann"
    assert [(a["index"], a["name"], a["content"]) for a in end.output["answers"]] == [
        (0, "Ann", "hi"),
        (1, "Agent 2", "hi, says Ann"),
        (2, "Agent 3", "hi, says Ann"),
        (3, "Agent 4", "hi|hi, says Ann|hi, says Ann"),
    ]
    assert steps(recorder) == [(n, phase) for n in range(4) for phase in ("start", "end")]


def test_it_answers_once_and_sends_no_text_before(made: Services) -> None:
    _, recorder = ended(made, alone("sequential", {"agents": [agent("echo"), agent("first")]}))
    assert recorder.of(ev.TextDelta) == []
    assert [(e.block, e.text) for e in recorder.of(ev.AnswerSettled)] == [("it", "one")]
    assert violations(recorder.envelopes) == []


def test_thinking_tools_and_usage_carry_its_id_and_calls_have_ids_of_their_own(made: Services) -> None:
    agents = [agent("tooled", tools=[FIXED]), agent("tooled", tools=[FIXED])]
    end, recorder = ended(made, alone("sequential", {"agents": agents}))
    assert violations(recorder.envelopes) == []
    shown = [e for e in recorder.of(ev.RunEvent) if hasattr(e, "turn")]
    assert {e.block for e in shown} == {"it"}
    assert sorted({e.turn for e in shown}) == [0, 1, 2, 3]
    first, second = (e.id for e in recorder.of(ev.ToolStarted))
    assert first == "call_1"
    assert second != first
    assert [e.id for e in recorder.of(ev.ToolFinished)] == [first, second]
    assert {e.kind for e in recorder.of(ev.TurnEnded)} == {"intermediate"}
    calls = end.output["toolCalls"]
    assert ([call["id"] for call in calls["list"]], calls["count"]) == ([first, second], 2)
    assert [call["id"] for call in end.tool_calls["it"]] == [first, second]
    assert end.output["tokens"] == {"input": 28, "output": 6, "total": 34}
    assert end.usage["byBlock"]["it"]["tokens"] == end.output["tokens"]
    assert set(end.usage["byModel"]) == {"scripted/tooled"}


def test_an_agent_that_fails_ends_it_and_nobody_after_is_asked(made: Services) -> None:
    agents = [agent("echo"), agent("fails"), agent("first")]
    end, recorder = ended(made, alone("sequential", {"agents": agents}))
    assert isinstance(end, ev.RunFailed)
    assert (end.code, end.block) == ("provider_bad_request", "it")
    assert steps(recorder) == [(0, "start"), (0, "end"), (1, "start"), (1, "end")]
    assert recorder.of(ev.AnswerSettled) == []
    assert violations(recorder.envelopes) == []


def test_its_failure_can_be_taken_up(made: Services) -> None:
    doc = graph(
        [
            ("it", "sequential", {"agents": [agent("fails")]}),
            ("caught", "set", {"values": {"why": "{{ blocks.it.code }}"}}),
        ],
        "start > it",
        "it -error> caught",
    )
    end, _ = ended(made, doc)
    assert end.output == {"why": "provider_bad_request"}
    assert end.success is False


def test_a_stop_in_the_middle_closes_what_is_open(made: Services) -> None:
    doc = alone("sequential", {"agents": [agent("tooled", tools=[FIXED]), agent("stalls"), agent("echo")]})
    recorder = stopped(made, doc, lambda event: isinstance(event, ev.SequenceStep) and event.index == 1)
    assert steps(recorder) == [(0, "start"), (0, "end"), (1, "start"), (1, "end")]
    assert recorder.of(ev.AnswerSettled) == []
    assert violations(recorder.envelopes) == []


def test_in_a_loop_its_last_answer_stands_and_is_told_when_the_loop_is_over(made: Services) -> None:
    doc = graph(
        [
            ("each", "loop", {"kind": "for_each", "items": ["a", "b"]}),
            ("it", "sequential", {"agents": [agent("echo")], "prompt": "{{ loop.item }}"}),
        ],
        "start > each",
        "each -loop> it",
        "it > each",
    )
    _, recorder = ended(made, doc)
    assert [(e.block, e.text) for e in recorder.of(ev.AnswerSettled)] == [("it", "b")]
    assert recorder.of(ev.AnswerRetracted) == []
    kinds = [type(e.event) for e in recorder.envelopes]
    assert kinds.index(ev.AnswerSettled) > len(kinds) - 1 - kinds[::-1].index(ev.LoopIteration)


def test_its_agents_are_checked_like_any(made: Services) -> None:
    bad = [
        {"model": "nowhere/x", "name": "Ann", "temperature": 9},
        {"model": "scripted/none", "name": "ann", "tools": ["hammer"], "memory": "conversation"},
        {"modle": "scripted/echo", "prompt": "{{ previous"},
        {"model": "scripted/echo", "prompt": "{{ previous }} {{ former }}", "fallbacks": ["scripted/gone"]},
    ]
    found, _ = told(made, alone("sequential", {"agents": bad}))
    inside = "blocks[1].config.agents"
    assert set(found) == {
        f"{inside}[0].temperature",
        f"{inside}[1].tools[0]",
        f"{inside}[1].memory",
        f"{inside}[2].modle",
        f"{inside}[2].model",
        f"{inside}[2].prompt",
    }


def test_models_names_and_templates_of_its_agents_are_checked(made: Services) -> None:
    inside = "blocks[1].config.agents"
    bad = [
        {"model": "nowhere/x", "name": "Ann"},
        {"model": "scripted/none", "name": "ann"},
        {"model": "scripted/echo", "fallbacks": ["scripted/gone"]},
    ]
    found, _ = told(made, alone("sequential", {"agents": bad}))
    assert set(found) == {
        f"{inside}[0].model",
        f"{inside}[1].model",
        f"{inside}[1].name",
        f"{inside}[2].fallbacks[0]",
    }
    assert set(told(made, alone("sequential", {"agents": []}))[0]) == {inside}
    good = [{"model": "scripted/echo", "prompt": "{{ previous }}, {{ former }}, {{ answers }}"}]
    found, warned = told(made, alone("sequential", {"agents": good}))
    assert found == {}
    assert "former" in warned[f"{inside}[0].prompt"]
    assert "previous" not in warned[f"{inside}[0].prompt"].partition("renders empty")[0]
