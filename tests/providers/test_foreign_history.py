"""A history that another model made, or that holds what a model made up: no vendor may refuse it."""

from __future__ import annotations

import json
import re
import typing as t

import pytest

from providers import bedrock_request, cohere_chat_request, gemini_request, ollama_chat_request, spec
from providers.anthropic_request import build_body as anthropic
from providers.openai_chat_request import build_body as chat
from providers.openai_responses_request import build_body as responses
from tests.providers.driving import request, tools

BODIES: dict[str, t.Callable[[spec.ModelRequest], t.Any]] = {
    "openai_chat": chat,
    "openai_responses": responses,
    "anthropic_messages": anthropic,
    "gemini": gemini_request.build_body,
    "bedrock_converse": bedrock_request.build_body,
    "cohere_chat": cohere_chat_request.build_body,
}
ODD = "functions.get weather<|channel|>" + "x" * 60
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

User, Turn, Call, Result = spec.UserMessage, spec.AssistantMessage, spec.ToolCall, spec.ToolResult


def loop(*turns: spec.AssistantMessage) -> list[spec.Message]:
    """A prompt and these turns, each with the results of its calls."""
    messages: list[spec.Message] = [User("hi")]
    for turn in turns:
        messages.append(turn)
        messages.extend(Result(call.id, call.name, "no such tool", True) for call in turn.calls)
    return messages


def names(value: t.Any) -> list[str]:
    """Every name of a tool in a body, wherever its shape has it."""
    found: list[str] = []
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "name" and isinstance(inner, str):
                found.append(inner)
            else:
                found += names(inner)
    elif isinstance(value, list):
        for inner in value:
            found += names(inner)
    return found


class TestNames:
    @pytest.mark.parametrize("wire", BODIES)
    def test_a_name_that_a_model_made_up(self, wire: str) -> None:
        turn = Turn("", (Call("c1", ODD, {}, "{}"),))
        sent = BODIES[wire](request(messages=loop(turn), tools=tools("echo")))
        found = names(sent)
        assert len(found) >= 2
        assert all(NAME.fullmatch(name) for name in found), found

    @pytest.mark.parametrize(
        ("wire", "replay"),
        [
            (
                "openai_responses",
                [{"type": "function_call", "call_id": "c1", "name": ODD, "arguments": "{}"}],
            ),
            ("anthropic_messages", [{"type": "tool_use", "id": "c1", "name": ODD, "input": {}}]),
            ("gemini", [{"functionCall": {"name": ODD, "args": {}}, "thoughtSignature": "s"}]),
            ("bedrock_converse", [{"toolUse": {"toolUseId": "c1", "name": ODD, "input": {}}}]),
        ],
    )
    def test_also_in_the_vendors_own_words(self, wire: str, replay: t.Any) -> None:
        turn = Turn("", (Call("c1", ODD, {}, "{}"),), replay, wire)
        sent = BODIES[wire](request(messages=loop(turn)))
        assert all(NAME.fullmatch(name) for name in names(sent))
        assert ("thoughtSignature" in json.dumps(sent)) == (wire == "gemini")

    def test_a_result_is_named_as_its_call(self) -> None:
        sent = gemini_request.build_body(request(messages=loop(Turn("", (Call("c1", ODD, {}, "{}"),)))))
        (call,) = sent["contents"][1]["parts"]
        (result,) = sent["contents"][2]["parts"]
        assert call["functionCall"]["name"] == result["functionResponse"]["name"]

    def test_a_server_of_ones_own_gets_the_name_as_it_was(self) -> None:
        sent = ollama_chat_request.build_body(request(messages=loop(Turn("", (Call("c1", ODD, {}, "{}"),)))))
        assert sent["messages"][1]["tool_calls"][0]["function"]["name"] == ODD


class TestIds:
    def test_an_id_longer_than_openai_takes(self) -> None:
        long = "functions.get_weather_in_a_city_of_your_choice:0"
        turn = Turn("", (Call(long, "f", {}, "{}"), Call("short", "f", {}, "{}")), wire="")
        sent = chat(request(messages=loop(turn)))["messages"]
        ids = [call["id"] for call in sent[1]["tool_calls"]]
        assert [message["tool_call_id"] for message in sent[2:]] == ids
        assert (len(ids[0]), ids[1]) == (40, "short")

    def test_its_own_go_back_as_they_are(self) -> None:
        long = "x" * 90
        sent = chat(request(messages=loop(Turn("", (Call(long, "f", {}, "{}"),), wire="openai_chat"))))
        assert sent["messages"][1]["tool_calls"][0]["id"] == sent["messages"][2]["tool_call_id"] == long

    @pytest.mark.parametrize("wire", ["openai_chat", "openai_responses", "bedrock_converse"])
    def test_half_a_character_in_a_long_one(self, wire: str) -> None:
        odd = "\ud83d" + "x" * 90
        sent = json.dumps(BODIES[wire](request(messages=loop(Turn("", (Call(odd, "f", {}, "{}"),))))))
        assert "x" * 90 not in sent
        assert "ud83d" not in sent


CALLS = (Call("c1", "f", {}, "{}"),)
THOUGHT: dict[str, t.Any] = {
    "anthropic_messages": [
        {"type": "thinking", "thinking": "Hm", "signature": "s"},
        {"type": "tool_use", "id": "c1", "name": "f", "input": {}},
    ],
    "bedrock_converse": [
        {"reasoningContent": {"reasoningText": {"text": "Hm", "signature": "s"}}},
        {"toolUse": {"toolUseId": "c1", "name": "f", "input": {}}},
    ],
}


def thinks(wire: str, messages: list[spec.Message], style: str = "budget") -> bool:
    """Whether a body asks for thinking."""
    dialect = {"thinking": style, "send_back": "all"}
    sent = BODIES[wire](request(messages=messages, thinking="low", temperature=0.5, dialect=dialect))
    asked = "thinking" in (
        sent if wire == "anthropic_messages" else sent.get("additionalModelRequestFields", {})
    )
    sampled = "temperature" in (sent if wire == "anthropic_messages" else sent.get("inferenceConfig", {}))
    assert asked != sampled
    return asked


@pytest.mark.parametrize("wire", THOUGHT)
class TestThinkingByBudget:
    """Claude refuses to begin thinking in the middle of a tool loop."""

    def test_a_loop_that_another_model_began(self, wire: str) -> None:
        assert not thinks(wire, loop(Turn("I look.", CALLS)))
        assert not thinks(wire, loop(Turn("", CALLS), Turn("", CALLS, THOUGHT[wire], wire)))

    def test_a_loop_of_its_own(self, wire: str) -> None:
        own = Turn("", CALLS, THOUGHT[wire], wire)
        assert thinks(wire, loop(own))
        assert thinks(wire, loop(own, Turn("", CALLS)))

    def test_a_loop_that_is_over(self, wire: str) -> None:
        assert thinks(wire, [*loop(Turn("", CALLS), Turn("Done.")), User("again")])
        assert thinks(wire, [User("hi"), Turn("Hello"), User("again")])

    def test_adaptive_thinking_begins_anywhere(self, wire: str) -> None:
        assert thinks(wire, loop(Turn("I look.", CALLS)), "adaptive")


@pytest.mark.parametrize("wire", THOUGHT)
def test_blanks_are_left_out(wire: str) -> None:
    image = spec.FilePart("image", "image/png", b"x")
    sent = BODIES[wire](request(system=" \n", messages=[User(" ", (image,))], cache=True))
    assert "system" not in sent
    (only,) = sent["messages"][0]["content"]
    assert "text" not in only


@pytest.mark.parametrize(
    ("level", "effort"), [(1024, "low"), (4096, "low"), (9000, "medium"), (20_000, "high"), (50_000, "max")]
)
def test_a_budget_is_the_same_effort_whoever_carries_claude(level: int, effort: str) -> None:
    asked = request(messages=[spec.UserMessage("hi")], thinking=level, dialect={"thinking": "adaptive"})
    assert BODIES["anthropic_messages"](asked)["output_config"] == {"effort": effort}
    fields = BODIES["bedrock_converse"](asked)["additionalModelRequestFields"]
    assert fields["output_config"] == {"effort": effort}
