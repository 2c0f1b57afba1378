"""The wire for Claude's own events in AWS's frames: the recordings, and what is this wire's own."""

from __future__ import annotations

import base64
import json
import typing as t

import pytest

from providers import spec
from providers.anthropic_messages import WIRE as ANTHROPIC
from providers.auth import NoAuth
from providers.bedrock_invoke import WIRE
from tests.providers.aws_frames import chunk, event, exception
from tests.providers.driving import block, decode, request, split, stop, tools
from tests.support.shared import find_shared, recordings, shared_path

BEGIN = {"type": "message_start", "message": {"model": "claude", "usage": {"input_tokens": 3}}}
TEXT = block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": "x"})


def _names() -> list[str]:
    if find_shared() is None:
        shared_path("recordings")  # skips the module loudly; fails on CI
    return [name for name, case in recordings().items() if case["wire"] == "bedrock-invoke-anthropic"]


@pytest.mark.parametrize("size", [0, 1, 7, 333])
@pytest.mark.parametrize("name", _names())
def test_recordings(name: str, size: int) -> None:
    case = recordings()[name]
    body = base64.b64decode(shared_path("recordings", case["file"]).read_bytes())
    expected = case["expected"]
    seen = decode(WIRE, split(body, size))
    assert (seen.text, seen.thinking) == (expected["text"], expected["thinking"])
    assert seen.calls == [(call["name"], call["input"]) for call in expected["tool_calls"]]
    assert [call.id for call in seen.ready] == [call["id"] for call in expected["tool_calls"]]
    assert seen.order == expected["order"]
    assert seen.reason == {"tool_use": "tool_calls", "end_turn": "stop"}[expected["finish"]]
    assert seen.finished is not None
    usage = seen.finished.usage
    assert usage is not None
    assert (usage.input, usage.output) == (
        expected["usage"]["input_tokens"],
        expected["usage"]["output_tokens"],
    )
    assert [seen.finished.model] == expected["models"]


def frames(*events: t.Any) -> bytes:
    """A body of these events, after the first."""
    return b"".join(chunk(each) for each in (BEGIN, *events))


def test_exceptions_end_the_turn_after_what_was_said() -> None:
    seen = decode(WIRE, [frames(*TEXT) + exception("throttlingException", {"message": "slow"})])
    assert (seen.text, seen.code) == ("x", "provider_rate_limited")


def test_events_of_no_chunk_are_left_out() -> None:
    seen = decode(WIRE, [frames(*TEXT) + event("newKind", {"bytes": "!"}) + frames(*stop("end_turn"))])
    assert seen.reason == "stop"


@pytest.mark.parametrize("payload", [{"p": "a"}, {"bytes": "***"}, {"bytes": 1}, []])
def test_a_chunk_without_an_event(payload: t.Any) -> None:
    seen = decode(WIRE, [frames(*TEXT) + event("chunk", payload)])
    assert (seen.text, seen.code) == ("x", "provider_bad_stream")


def test_an_end_inside_a_frame() -> None:
    assert decode(WIRE, [frames(*TEXT)[:-3]]).code == "provider_bad_stream"
    body = frames(*TEXT, *stop("end_turn"))
    assert decode(WIRE, [body[:-3]]).reason == "stop"  # the finish came before the cut


def built(**changes: t.Any) -> spec.HttpRequest:
    """The request this wire would send."""
    return WIRE.build(request(**changes), spec.Connection("https://v", NoAuth(), headers={"X-Extra": "1"}))


def test_address_and_body() -> None:
    sent = built(model="us.anthropic.claude-sonnet-4-5-20250929-v1:0", system="s", tools=tools("w"))
    assert sent.url == (
        "https://v/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/invoke-with-response-stream"
    )
    assert (sent.headers["X-Extra"], "anthropic-version" in sent.headers) == ("1", False)
    body = json.loads(sent.body)
    assert body["anthropic_version"] == "bedrock-2023-05-31"
    assert not {"model", "stream"} & set(body)
    assert (body["system"], body["tools"][0]["name"], body["max_tokens"]) == ("s", "w", 4096)


def test_a_turn_of_this_wire_goes_back_as_it_came() -> None:
    events = [
        *block(0, {"type": "thinking", "thinking": ""}, {"type": "thinking_delta", "thinking": "hm"}),
        *block(1, {"type": "tool_use", "id": "t", "name": "w", "input": {}}),
        *stop("tool_use"),
    ]
    seen = decode(WIRE, [frames(*events)])
    assert seen.finished is not None
    turn = spec.AssistantMessage("", (spec.ToolCall("t", "w", {}, ""),), seen.finished.replay, WIRE.name)
    conversation = [spec.UserMessage("hi"), turn, spec.ToolResult("t", "w", "42")]
    sent = json.loads(built(messages=conversation).body)["messages"]
    assert sent[1]["content"] == [
        {"type": "thinking", "thinking": "hm"},
        {"type": "tool_use", "id": "t", "name": "w", "input": {}},
    ]
    assert sent[2]["content"][0]["tool_use_id"] == "t"


def test_turns_of_another_wire_are_rebuilt() -> None:
    turn = spec.AssistantMessage(
        "", (spec.ToolCall("t", "w", {"a": 1}, ""),), [{"toolUse": {}}], "bedrock_converse"
    )
    sent = json.loads(built(messages=[spec.UserMessage("hi"), turn]).body)["messages"]
    assert sent[1]["content"] == [{"type": "tool_use", "id": "t", "name": "w", "input": {"a": 1}}]


def test_nothing_of_the_plain_wire_changes() -> None:
    plain = json.loads(ANTHROPIC.build(request(), spec.Connection("https://v", NoAuth())).body)
    assert {"model", "stream"} <= set(plain)
