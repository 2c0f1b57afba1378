"""A script is checked as a whole: every problem at once, each with its path and a cure."""

from __future__ import annotations

import typing as t

import pytest
import yaml

from providers.script_schema import (
    Call,
    Count,
    Fail,
    Finish,
    Pause,
    Redacted,
    Say,
    ScriptInvalid,
    parse_script,
)
from providers.scripted import BUILT_IN, Scripts
from providers.spec import Usage


def steps(*listed: t.Any) -> t.Any:
    return {"turns": [{"steps": list(listed)}]}


def problems(data: t.Any) -> dict[str, str]:
    with pytest.raises(ScriptInvalid) as caught:
        parse_script("s", data)
    assert caught.value.message.startswith('script "s" is not valid: ')
    return dict(caught.value.problems)


def test_the_example_of_the_docs_is_valid() -> None:
    from providers import script_schema

    text = (script_schema.__doc__ or "").split("::\n", 1)[1].split("\n\nTurn ", 1)[0]
    data = yaml.safe_load(text)
    # The example shows every kind of step in one list, so it goes on after steps that end a turn.
    shown = data["turns"][0]["steps"]
    ending = [step for step in shown if {"stall", "error", "finish"} & set(step)]
    data["turns"] = [{"steps": [step for step in shown if step not in ending]}]
    data["turns"] += [{"steps": [step]} for step in ending]
    script = parse_script("docs", data)
    assert script.turns[0] == (
        Say(True, "Let me look at the clock first."),
        Redacted(),
        Say(False, "You said: {{message}}", -1, 0.03, 1),
        Call("clock", {"timezone": "UTC"}, "call_1", 0.05),
        Pause(0.2),
        Count(Usage(input=10, output=5)),
    )
    assert script.turns[1:] == (
        (Pause(None),),
        (Fail("provider_overloaded", "Try again.", 2),),
        (Finish("stop"),),
    )


@pytest.mark.parametrize("name", sorted(Scripts()))
def test_every_built_in_script_is_valid_and_described(name: str) -> None:
    assert Scripts().load(name).description
    assert (BUILT_IN / f"{name}.yaml").is_file()


@pytest.mark.parametrize(
    ("data", "path", "words"),
    [
        (None, "", "mapping with the key turns"),
        ([], "", "mapping"),
        ({}, "turns", "at least one turn"),
        ({"turns": []}, "turns", "at least one turn"),
        ({"turns": {}}, "turns", "list"),
        ({"turns": [1]}, "turns[0]", "mapping with the key steps"),
        ({"turns": [{}]}, "turns[0].steps", "at least one step"),
        ({"turns": [{"steps": []}]}, "turns[0].steps", "at least one step"),
        ({"turnz": []}, "turnz", 'did you mean "turns"?'),
        ({"description": 3, "turns": [{"steps": [{"text": "a"}]}]}, "description", "quotes"),
        (steps(1), "turns[0].steps[0]", "one of thinking, text"),
        (steps({}), "turns[0].steps[0]", "empty"),
        (steps({"texd": "a"}), "turns[0].steps[0].texd", 'did you mean "text"?'),
        (steps({"text": 5}), "turns[0].steps[0].text", "quotes"),
        (steps({"text": ""}), "turns[0].steps[0].text", "empty"),
        (steps({"text": "a", "thinking": "b"}), "turns[0].steps[0]", "make two steps"),
        (steps({"text": "a", "chunk": "lines"}), "turns[0].steps[0].chunk", "words"),
        (steps({"text": "a", "chunk": 0}), "turns[0].steps[0].chunk", "from 1"),
        (steps({"text": "a", "chunk": True}), "turns[0].steps[0].chunk", "from 1"),
        (steps({"text": "a", "delay_ms": -1}), "turns[0].steps[0].delay_ms", "from 0"),
        (steps({"text": "a", "delay_ms": "5"}), "turns[0].steps[0].delay_ms", "number"),
        (steps({"text": "a", "times": 0}), "turns[0].steps[0].times", "from 1"),
        (steps({"text": "{{who}}"}), "turns[0].steps[0].text", "unknown placeholder {{who}}"),
        (steps({"redacted": False}), "turns[0].steps[0].redacted", "true"),
        (steps({"stall": "yes"}), "turns[0].steps[0].stall", "true"),
        (steps({"tool_call": "clock"}), "turns[0].steps[0].tool_call", "mapping with name"),
        (steps({"tool_call": {}}), "turns[0].steps[0].tool_call.name", "text"),
        (steps({"tool_call": {"name": "a b"}}), "turns[0].steps[0].tool_call.name", "letters"),
        (steps({"tool_call": {"name": "a", "args": {}}}), "turns[0].steps[0].tool_call.args", "arguments"),
        (
            steps({"tool_call": {"name": "a", "arguments": [1]}}),
            "turns[0].steps[0].tool_call.arguments",
            "mapping",
        ),
        (
            steps({"tool_call": {"name": "a", "arguments": {"x": [{"y": "{{z}}"}]}}}),
            "turns[0].steps[0].tool_call.arguments",
            "{{z}}",
        ),
        (steps({"tool_call": {"name": "a", "cut": 1}}), "turns[0].steps[0].tool_call.cut", "true or false"),
        (steps({"error": {"code": "boom", "message": "m"}}), "turns[0].steps[0].error.code", "provider_auth"),
        (steps({"error": {"code": "provider_auth"}}), "turns[0].steps[0].error.message", "text"),
        (steps({"usage": {"in": 1}}), "turns[0].steps[0].usage.in", "input"),
        (steps({"usage": {"input": -1}}), "turns[0].steps[0].usage.input", "from 0"),
        (steps({"finish": "done"}), "turns[0].steps[0].finish", "stop, length"),
        (steps({"finish": "stop"}, {"text": "a"}), "turns[0].steps[1]", "never reached"),
        (steps({"stall": True}, {"text": "a"}), "turns[0].steps[1]", "never reached"),
    ],
)
def test_a_problem_has_a_path_and_a_cure(data: t.Any, path: str, words: str) -> None:
    found = problems(data)
    assert path in found
    assert words in found[path]


def test_all_problems_are_reported_at_once() -> None:
    found = problems({"turns": [{"steps": [{"text": 1}, {"nope": 2}]}, {"step": []}], "extra": 1})
    assert set(found) == {
        "extra",
        "turns[0].steps[0].text",
        "turns[0].steps[1].nope",
        "turns[1].step",
        "turns[1].steps",
    }
