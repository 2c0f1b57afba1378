"""REPLAY: state the vendor needs back is in the next request, verbatim and in order."""

from __future__ import annotations

import typing as t

from tests.field.rig import Engine
from tests.field.wires import Messages
from tests.support.vendor import Call


def block(
    speaker: Messages, call: Call, index: int, start: dict[str, t.Any], *deltas: dict[str, t.Any]
) -> None:
    speaker.event(call, {"type": "content_block_start", "index": index, "content_block": start})
    for delta in deltas:
        speaker.event(call, {"type": "content_block_delta", "index": index, "delta": delta})
    speaker.event(call, {"type": "content_block_stop", "index": index})


def tool_use(speaker: Messages, call: Call, index: int) -> None:
    start = {"type": "tool_use", "id": "t1", "name": "look", "input": {}}
    block(speaker, call, index, start, {"type": "input_json_delta", "partial_json": '{"q":1}'})
    speaker.finish(call, "tool_calls")


def test_replay_01_a_signature_follows_its_thinking(messages: Engine) -> None:
    """Thinking whole with its signature, the call, then its result."""
    speaker = t.cast(Messages, messages.speaker)

    def think(call: Call) -> None:
        block(
            speaker,
            call,
            0,
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "thinking_delta", "thinking": "Let me "},
            {"type": "thinking_delta", "thinking": "look."},
            {"type": "signature_delta", "signature": "sigAB"},
        )
        tool_use(speaker, call, 1)

    live = messages.run(think, messages.answer(), tools=[messages.tool("look")])
    body = live.calls[1].body
    (said,) = speaker.assistant(body)
    assert said["content"] == [
        {"type": "thinking", "thinking": "Let me look.", "signature": "sigAB"},
        {"type": "tool_use", "id": "t1", "name": "look", "input": {"q": 1}},
    ]
    after = body["messages"][body["messages"].index(said) + 1]
    assert [b["tool_use_id"] for b in after["content"]] == ["t1"]
    assert "sigAB" not in str([e.event for e in live.recorder.envelopes])


def test_replay_04_a_redacted_block_goes_back_byte_for_byte(messages: Engine) -> None:
    """It is shown as withheld at most, and no empty text is stored."""
    speaker = t.cast(Messages, messages.speaker)

    def redact(call: Call) -> None:
        block(speaker, call, 0, {"type": "redacted_thinking", "data": "ENC1"})
        tool_use(speaker, call, 1)

    live = messages.run(redact, messages.answer(), tools=[messages.tool("look")])
    (said,) = speaker.assistant(live.calls[1].body)
    assert said["content"] == [
        {"type": "redacted_thinking", "data": "ENC1"},
        {"type": "tool_use", "id": "t1", "name": "look", "input": {"q": 1}},
    ]
    assert live.thinking == ""
    assert "ENC1" not in str([e.event for e in live.recorder.envelopes])


def test_replay_08_reasoning_goes_back_in_the_tool_loop(chat: Engine) -> None:
    """The assistant message of request 2 has the field under the vendor's own name."""

    def think(call: Call) -> None:
        call.send({"reasoning_content": "r"})
        chat.speaker.tool(call, 0, "c", "look", "{}")
        chat.speaker.finish(call, "tool_calls")

    live = chat.run(think, chat.answer(), tools=[chat.tool("look")])
    (said,) = chat.speaker.assistant(live.calls[1].body)
    assert said["reasoning_content"] == "r"
