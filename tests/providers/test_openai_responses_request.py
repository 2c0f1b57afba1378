"""The bodies that the Responses wire sends, and recorded conversations turn by turn."""

from __future__ import annotations

import base64
import json
import typing as t

import pytest

from providers import spec
from providers.auth import NoAuth
from tests.providers.driving import RESPONSES, decode, request, split, tools
from tests.support.shared import find_shared, recordings, shared_path

Json = dict[str, t.Any]
USER = spec.UserMessage("hi")


def build(options: dict[str, str] | None = None, **changes: t.Any) -> spec.HttpRequest:
    """What the wire would send."""
    connection = spec.Connection(
        "http://vendor/v1", NoAuth(), headers={"X-Extra": "1"}, options=options or {}
    )
    built: spec.HttpRequest = RESPONSES.build(request(**changes), connection)
    return built


def body(**changes: t.Any) -> Json:
    """Its JSON."""
    sent: Json = json.loads(build(**changes).body)
    return sent


def turn(wire: str = "", replay: t.Any = None, text: str = "", call_id: str = "c1") -> list[t.Any]:
    """A turn that called ``w``, and its result."""
    called = spec.ToolCall(call_id, "w", {"a": 1}, '{"a":1}')
    return [spec.AssistantMessage(text, (called,), replay, wire), spec.ToolResult(call_id, "w", "42")]


def test_plain() -> None:
    assert body(system="be brief") == {
        "model": "m",
        "input": [{"role": "user", "content": "hi"}],
        "instructions": "be brief",
        "store": False,
        "stream": True,
    }


def test_address_and_headers() -> None:
    built = build()
    assert (built.method, built.url) == ("POST", "http://vendor/v1/responses")
    assert built.headers["X-Extra"] == "1"
    dialect = {"path": "/x/{model}/responses", "query": {"api-version": "{api_version}", "v": "1"}}
    assert build(dialect=dialect).url == "http://vendor/v1/x/m/responses?v=1"
    built = build({"api_version": "preview"}, dialect=dialect)
    assert built.url == "http://vendor/v1/x/m/responses?api-version=preview&v=1"


def test_settings() -> None:
    sent = body(temperature=0.0, top_p=0.5, max_tokens=70, stop=("x",), seed=3, conversation="conv")
    assert {
        name: sent[name] for name in ("temperature", "top_p", "max_output_tokens", "prompt_cache_key")
    } == {
        "temperature": 0.0,
        "top_p": 0.5,
        "max_output_tokens": 70,
        "prompt_cache_key": "conv",
    }
    assert not {"stop", "seed", "max_tokens"} & set(sent)


def test_switches() -> None:
    dialect = {"system": "message", "encrypted": True, "body": {"n": 1}}
    sent = body(system="be brief", conversation="conv", dialect=dialect)
    assert sent["input"][0] == {"role": "system", "content": "be brief"}
    assert sent["include"] == ["reasoning.encrypted_content"]
    assert sent["n"] == 1
    assert "instructions" not in sent


def test_a_long_cache_key_is_named_by_its_hash() -> None:
    keys = {body(conversation=name * 40)["prompt_cache_key"] for name in ("ab", "ab", "cd")}
    assert [len(key) for key in keys] == [64, 64]


class TestThinking:
    @pytest.mark.parametrize(
        ("dialect", "asked", "sent"),
        [
            ({}, {}, None),
            ({}, {"thinking": "low"}, {"effort": "low"}),
            ({}, {"thinking": "low", "show_thinking": True}, {"effort": "low"}),
            ({}, {"show_thinking": True}, None),
            ({"thinking": "never"}, {"thinking": "low", "show_thinking": True}, None),
            ({"thinking": "summary"}, {}, None),
            ({"thinking": "summary"}, {"show_thinking": True}, {"effort": "medium", "summary": "auto"}),
            (
                {"thinking": "summary", "thinks_by_default": True},
                {"show_thinking": True},
                {"summary": "auto"},
            ),
            (
                {"thinking": "summary"},
                {"thinking": "high", "show_thinking": True},
                {"effort": "high", "summary": "auto"},
            ),
            ({"thinking": "summary"}, {"thinking": "high"}, {"effort": "high"}),
            ({"thinking": "summary"}, {"thinking": "none", "show_thinking": True}, {"effort": "none"}),
            ({"thinking": "summary"}, {"thinking": "auto", "show_thinking": True}, {"summary": "auto"}),
            ({}, {"thinking": "max"}, {"effort": "xhigh"}),
            ({"levels": {"max": "max"}}, {"thinking": "max"}, {"effort": "max"}),
            ({}, {"thinking": 3000}, {"effort": "low"}),
            ({}, {"thinking": 100_000}, {"effort": "high"}),
        ],
    )
    def test_asked_for(self, dialect: Json, asked: Json, sent: Json | None) -> None:
        assert body(dialect=dialect, **asked).get("reasoning") == sent

    @pytest.mark.parametrize(
        ("dialect", "asked", "sent"),
        [
            ({"sampling": False}, {}, False),
            ({"sampling": "unless_thinking"}, {}, True),
            ({"sampling": "unless_thinking"}, {"thinking": "none"}, True),
            ({"sampling": "unless_thinking"}, {"thinking": "low"}, False),
            ({"sampling": "unless_thinking", "thinking": "summary"}, {"show_thinking": True}, False),
            ({"sampling": "unless_thinking", "thinks_by_default": True}, {}, False),
            ({"sampling": "unless_thinking", "thinks_by_default": True}, {"thinking": "none"}, True),
        ],
    )
    def test_sampling_where_it_is_refused(self, dialect: Json, asked: Json, sent: bool) -> None:
        assert ("temperature" in body(dialect=dialect, temperature=0.5, **asked)) == sent


class TestTools:
    def test_offered(self) -> None:
        sent = body(tools=tools("w"), parallel_tool_calls=False)
        assert sent["tools"] == [
            {
                "type": "function",
                "name": "w",
                "description": "Does w.",
                "parameters": {"type": "object"},
                "strict": False,
            }
        ]
        assert sent["parallel_tool_calls"] is False
        assert "tool_choice" not in sent

    def test_forced(self) -> None:
        assert body(tools=tools("w"), tool_choice="required")["tool_choice"] == "required"
        assert body(tools=tools("w"), tool_choice="w")["tool_choice"] == {"type": "function", "name": "w"}

    def test_removed_for_the_last_turn(self) -> None:
        sent = body(tools=tools("w"), tool_choice="none", parallel_tool_calls=True, messages=[USER, *turn()])
        assert not {"tools", "tool_choice", "parallel_tool_calls"} & set(sent)
        assert [item.get("type") for item in sent["input"]] == [None, "function_call", "function_call_output"]

    def test_structured_output(self) -> None:
        closed = {
            "type": "object",
            "properties": {"a": {"type": "string"}},
            "required": ["a"],
            "additionalProperties": False,
        }
        assert body(response_format=closed)["text"]["format"] == {
            "type": "json_schema",
            "name": "answer",
            "schema": closed,
            "strict": True,
        }
        assert body(response_format={"type": "object"})["text"]["format"]["strict"] is False


class TestInput:
    def test_files_before_the_text(self) -> None:
        files = (
            spec.FilePart("image", "image/png", b"\x89PNG", "a.png"),
            spec.FilePart("pdf", "application/pdf", b"%PDF", "b.pdf"),
            spec.FilePart("text", "text/plain", "Grüße".encode(), "c.txt"),
        )
        (sent,) = body(messages=[spec.UserMessage("look", files)])["input"]
        png, pdf = (base64.b64encode(file.data).decode() for file in files[:2])
        assert sent["content"] == [
            {"type": "input_image", "image_url": f"data:image/png;base64,{png}", "detail": "auto"},
            {"type": "input_file", "filename": "b.pdf", "file_data": f"data:application/pdf;base64,{pdf}"},
            {"type": "input_text", "text": "c.txt:\nGrüße"},
            {"type": "input_text", "text": "look"},
        ]

    def test_turns_of_other_wires_are_rebuilt(self) -> None:
        sent = body(messages=[USER, *turn("openai_chat", {"thinking": {"reasoning": "t"}}, "I look.")])
        assert sent["input"][1:] == [
            {"role": "assistant", "content": "I look."},
            {"type": "function_call", "call_id": "c1", "name": "w", "arguments": '{"a":1}'},
            {"type": "function_call_output", "call_id": "c1", "output": "42"},
        ]

    def test_unusable_arguments_go_back_as_an_empty_object(self) -> None:
        called = spec.ToolCall("c1", "w", None, '{"a"')
        sent = body(messages=[USER, spec.AssistantMessage("", (called,))])
        assert sent["input"][1]["arguments"] == "{}"

    def test_ids_that_are_too_long_stay_together(self) -> None:
        sent = body(messages=[USER, *turn(call_id="c" * 65)])
        call, output = sent["input"][1:]
        assert call["call_id"] == output["call_id"]
        assert len(call["call_id"]) == 64

    def test_own_turns_go_back_as_they_came(self) -> None:
        replay = [
            {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "E"},
            {"type": "function_call", "id": "fc", "call_id": "c1", "name": "w", "arguments": '{"a":1}'},
        ]
        sent = body(messages=[USER, *turn("openai_responses", replay, "ignored")])
        assert sent["input"][1:-1] == replay

    def test_a_call_that_nobody_answers_is_answered(self) -> None:
        custom = {"type": "custom_tool_call", "call_id": "c9", "name": "sql", "input": "SELECT 1"}
        sent = body(messages=[USER, spec.AssistantMessage("", (), [custom], "openai_responses"), USER])
        assert sent["input"][1] == custom
        assert (sent["input"][2]["type"], sent["input"][2]["call_id"]) == ("custom_tool_call_output", "c9")

    def test_half_a_character_is_made_whole(self) -> None:
        assert body(messages=[spec.UserMessage("a\ud83d")])["input"][0]["content"] == "a\ufffd"


def _conversations() -> list[list[str]]:
    """The recorded conversations of this wire with more than one turn, as case names in order."""
    if find_shared() is None:
        shared_path("recordings")  # skips the module loudly; fails on CI
    found: dict[str, list[tuple[int, str]]] = {}
    for name, case in recordings().items():
        if case["wire"] == "openai-responses" and case.get("conversation"):
            found.setdefault(case["conversation"], []).append((case["turn"], name))
    return [[name for _, name in sorted(turns)] for turns in found.values()]


def _items(raw: bytes) -> list[Json]:
    """The output items of a recorded body, taken from its text alone."""
    values = [json.loads(line[6:]) for line in raw.decode().splitlines() if line.startswith("data: {")]
    return [value["item"] for value in values if value["type"] == "response.output_item.done"]


@pytest.mark.parametrize("size", [0, 7, 333])
@pytest.mark.parametrize("names", _conversations(), ids=lambda names: names[0])
def test_a_recorded_conversation_replays_each_turn(names: list[str], size: int) -> None:
    messages: list[t.Any] = [USER]
    expected: list[Json] = [{"role": "user", "content": "hi"}]
    for name in names:
        raw = shared_path("recordings", recordings()[name]["file"]).read_bytes()
        seen = decode(RESPONSES, split(raw, size), request(used_ids=frozenset()))
        assert seen.finished is not None, seen.error
        calls = tuple(spec.ToolCall(c.id, c.name, c.arguments, c.raw) for c in seen.ready)
        messages.append(spec.AssistantMessage(seen.text, calls, seen.finished.replay, RESPONSES.name))
        messages += [spec.ToolResult(call.id, call.name, "done") for call in calls]
        expected += _items(raw)
        expected += [
            {"type": "function_call_output", "call_id": call["id"], "output": "done"}
            for call in recordings()[name]["expected"]["tool_calls"]
        ]
        assert body(messages=messages)["input"] == expected
