"""ASSEMBLE: tool calls put together from deltas. The truth is what the tool was given."""

from __future__ import annotations

import typing as t
from collections.abc import Callable

import pytest

from app import events as ev
from tests.field.rig import Engine
from tests.field.wires import Messages
from tests.support.vendor import Call


def fragment(**call: t.Any) -> dict[str, t.Any]:
    """One fragment of a call, ``name`` and ``arguments`` written flat; what is absent stays absent."""
    function = {key: call.pop(key) for key in ("name", "arguments") if key in call}
    return {**call, "function": function}


def turn(*fragments: dict[str, t.Any]) -> Callable[[Call], None]:
    """A turn that sends each fragment in a chunk of its own."""

    def say(call: Call) -> None:
        for each in fragments:
            call.send({"tool_calls": [each]})
        call.finish("tool_calls")

    return say


def test_assemble_01_every_call_has_index_0(chat: Engine) -> None:
    """A continuation without an id goes to the most recently opened call."""
    live = chat.run(
        turn(
            fragment(index=0, id="a", name="w", arguments='{"c":'),
            fragment(index=0, arguments='"Rome"}'),
            fragment(index=0, id="b", name="w", arguments='{"c":'),
            fragment(index=0, arguments='"Oslo"}'),
        ),
        chat.answer(),
        tools=[chat.tool("w")],
    )
    assert chat.ran == [("w", {"c": "Rome"}), ("w", {"c": "Oslo"})]
    assert [e.id for e in live.recorder.of(ev.ToolStarted)] == ["a", "b"]


def test_assemble_02_whole_calls_with_index_0_and_different_ids(chat: Engine) -> None:
    """Two calls, never their texts glued together."""
    live = chat.run(
        turn(
            fragment(index=0, id="x1", name="w", arguments='{"p":"a"}'),
            fragment(index=0, id="x2", name="w", arguments='{"p":"b"}'),
        ),
        chat.answer(),
        tools=[chat.tool("w")],
    )
    assert chat.ran == [("w", {"p": "a"}), ("w", {"p": "b"})]
    assert [e.id for e in live.recorder.of(ev.ToolStarted)] == ["x1", "x2"]


def test_assemble_05_empty_id_and_name_on_continuations(chat: Engine) -> None:
    """Empty and null mean "as before"."""
    live = chat.run(
        turn(
            fragment(index=0, id="c9", name="calc", arguments="{"),
            fragment(index=0, id="", name="", arguments='"e":'),
            fragment(index=0, id=None, name=None, arguments='"2+2"}'),
        ),
        chat.answer(),
        tools=[chat.tool("calc")],
    )
    assert chat.ran == [("calc", {"e": "2+2"})]
    assert [e.id for e in live.recorder.of(ev.ToolStarted)] == ["c9"]


def test_assemble_06_no_ids_at_all(chat: Engine) -> None:
    """Ids are made, and are the same in the stream, the history and the record."""
    two = turn(
        fragment(index=0, name="w", arguments='{"n":1}'), fragment(index=1, name="w", arguments='{"n":2}')
    )
    live = chat.run(two, two, chat.answer(), tools=[chat.tool("w")])
    started = [e.id for e in live.recorder.of(ev.ToolStarted)]
    assert len(set(started)) == 4
    assert all(started)
    history = live.calls[2].body
    assert [call_id for call_id, _ in chat.speaker.results(history)] == started
    assert [c["id"] for m in chat.speaker.assistant(history) for c in m["tool_calls"]] == started
    assert [entry["id"] for entry in live.row["tool_calls"]["agent_1"]] == started


def test_assemble_09_interleaved_fragments_and_repeated_names(chat: Engine) -> None:
    """Three clean names; a name repeated on every chunk is not appended."""
    order = [(0, '{"n":'), (1, '{"n":'), (2, '{"n":'), (0, "0}"), (2, "2}"), (1, "1}")]
    live = chat.run(
        turn(*(fragment(index=n, id=f"c{n}", name="search", arguments=text) for n, text in order)),
        chat.answer(),
        tools=[chat.tool("search")],
    )
    assert sorted(arguments["n"] for _, arguments in chat.ran) == [0, 1, 2]
    assert [(e.id, e.name) for e in live.recorder.of(ev.ToolStarted)] == [
        (f"c{n}", "search") for n in range(3)
    ]


@pytest.mark.parametrize("more", [{"arguments": ""}, {"arguments": None}, {"arguments": "{}"}, {}])
def test_assemble_10_a_tool_without_arguments(chat: Engine, more: dict[str, t.Any]) -> None:
    """It runs with an empty object."""
    chat.run(turn(fragment(index=0, id="c", name="now", **more)), chat.answer(), tools=[chat.tool("now")])
    assert chat.ran == [("now", {})]


@pytest.mark.parametrize("partial", [None, ""])
def test_assemble_10_a_tool_without_arguments_in_a_block(messages: Engine, partial: str | None) -> None:
    """The same where the input is a block's: an empty delta, or none at all."""
    speaker = t.cast(Messages, messages.speaker)

    def say(call: Call) -> None:
        start = {"type": "tool_use", "id": "c", "name": "now", "input": {}}
        speaker.event(call, {"type": "content_block_start", "index": 0, "content_block": start})
        if partial is not None:
            delta = {"type": "input_json_delta", "partial_json": partial}
            speaker.event(call, {"type": "content_block_delta", "index": 0, "delta": delta})
        speaker.event(call, {"type": "content_block_stop", "index": 0})
        speaker.finish(call, "tool_calls")

    live = messages.run(say, messages.answer(), tools=[messages.tool("now")])
    assert messages.ran == [("now", {})]
    (block,) = speaker.assistant(live.calls[1].body)[0]["content"]
    assert block["input"] == {}


def test_assemble_12_arguments_as_an_object(chat: Engine) -> None:
    """Values keep their types; the history has the text that this protocol wants."""
    live = chat.run(
        turn(fragment(name="t", arguments={"city": "Paris", "n": 2})), chat.answer(), tools=[chat.tool("t")]
    )
    assert chat.ran == [("t", {"city": "Paris", "n": 2})]
    (said,) = chat.speaker.assistant(live.calls[1].body)[0]["tool_calls"]
    assert said["function"]["arguments"] in ('{"city":"Paris","n":2}', '{"city": "Paris", "n": 2}')
