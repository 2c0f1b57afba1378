"""CHANNEL: thinking, tool text and answer each in its own place, once."""

from __future__ import annotations

import pytest

from app import events as ev
from providers.openai_chat import WIRE
from tests.field.rig import ALL, Engine, Server
from tests.field.wires import WIRES
from tests.providers.driving import chat as decoded_chat
from tests.providers.driving import chunk, decode, request, split, sse
from tests.support.servers import NEGOTIATE
from tests.support.vendor import Call, Vendor

INLINE = {"inline_thinking": True}


def test_channel_01_tags_are_split_wherever_the_deltas_are() -> None:
    """Every way to cut the text in three gives thinking "plan A" and the answer "Hello"."""
    whole = "<think>plan A</think>\n\nHello"
    for first in range(len(whole) + 1):
        for second in range(first, len(whole) + 1):
            pieces = (whole[:first], whole[first:second], whole[second:])
            seen = decoded_chat(
                *(chunk({"content": piece}) for piece in pieces),
                chunk(finish="stop"),
                asked=request(dialect=INLINE),
            )
            assert (seen.thinking, seen.text) == ("plan A", "Hello"), pieces


def test_channel_03_a_separate_field_that_goes_null_then_empty(chat: Engine) -> None:
    """Thinking before the answer, none after it."""

    def say(call: Call) -> None:
        call.send({"reasoning_content": "a"})
        call.send({"reasoning_content": None, "content": ""})
        call.send({"reasoning_content": "", "content": "B"})
        call.finish()

    live = chat.run(say)
    kinds = [
        type(e.event) for e in live.recorder.envelopes if isinstance(e.event, ev.ThinkingDelta | ev.TextDelta)
    ]
    assert kinds == [ev.ThinkingDelta, ev.TextDelta]
    assert (live.thinking, live.text, live.output["content"]) == ("a", "B", "B")


def test_channel_04_the_splitter_is_new_for_every_call(chat: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two thoughts in two turns; the answer is "done"."""
    monkeypatch.setenv("STUDIO_OPENAI_COMPATIBLE_INLINE_THINKING", "1")

    def first(call: Call) -> None:
        call.text("<think>look")
        chat.speaker.tool(call, 0, "c", "look", "{}")
        chat.speaker.finish(call, "tool_calls")

    def second(call: Call) -> None:
        call.text("<think>check</think>done")
        call.finish()

    live = chat.run(first, second, tools=[chat.tool("look")])
    assert [(e.turn, e.text) for e in live.recorder.of(ev.ThinkingDelta)] == [(0, "look"), (1, "check")]
    assert (live.text, live.output["content"]) == ("done", "done")


@pytest.mark.parametrize("kind", list(WIRES))
def test_channel_05_and_08_every_place_has_the_same_answer(served: Server, vendor: Vendor, kind: str) -> None:
    """Streamed live, settled, final, waited for, stored: one string, and thinking in none."""
    speaker = WIRES[kind]()
    workflow = served.agent(speaker.model)

    def answer() -> None:
        call = vendor.next_call()
        speaker.think(call, "private thought")
        speaker.text(call, "It is ")
        speaker.text(call, "42.")
        speaker.finish(call)

    live = served.watch(workflow)
    answer()
    final = live.end()["data"]
    settled = served.studio.execute(workflow, {"stream": True})
    answer()
    frames = [frame.json() for frame in settled.events()]
    import gevent

    waiting = gevent.spawn(served.call, "POST", f"/api/workflows/{workflow}/execute", body={})
    answer()
    status, blocking = waiting.get(timeout=20)
    record = served.record(final["runId"])
    assert status == 200
    answers = [
        live.text,
        final["output"]["content"],
        "".join(frame["chunk"] for frame in frames if isinstance(frame, dict) and "chunk" in frame),
        blocking["output"]["content"],
        record["output"]["content"],
        record["blocks"][1]["output"]["content"],
    ]
    assert answers == ["It is 42."] * len(answers)
    assert "".join(frame["data"] for frame in live.of("thinking")) == "private thought"
    assert "private thought" not in str((final, frames, blocking, record))


def test_channel_07_thinking_goes_back_only_where_the_vendor_keeps_it(engine: Engine) -> None:
    """The assistant's text in the next request is the answer text alone."""

    def first(call: Call) -> None:
        engine.speaker.think(call, "t-h-o-u-g-h-t")
        engine.speaker.text(call, "a")
        engine.speaker.tool(call, 0, "c", "look", "{}")
        engine.speaker.finish(call, "tool_calls")

    live = engine.run(first, engine.answer(), tools=[engine.tool("look")])
    # Beside calls Cohere takes no text: there it goes back as a thought of its own.
    assert engine.speaker.said(live.calls[1].body) == ["" if engine.speaker.name == "cohere_chat" else "a"]
    assert str(live.calls[1].body).count("t-h-o-u-g-h-t") == 1


def test_channel_10_thinking_under_two_names_is_said_once() -> None:
    """Each fragment once; where the two differ, ``reasoning_content`` counts."""
    seen = decoded_chat(
        *(chunk({"reasoning": text, "reasoning_content": text}) for text in ("The ", "cat ", "sat")),
        chunk({"reasoning": "."}),
        chunk({"reasoning": "wrong", "reasoning_content": "!"}),
        chunk({"content": "Miau"}, "stop"),
    )
    assert (seen.thinking, seen.text) == ("The cat sat.!", "Miau")


def test_channel_11_thinking_under_the_other_name_is_live(served: Server, vendor: Vendor) -> None:
    """Each piece is shown before the next is sent."""
    watched = served.watch(served.agent("openai-compatible/field"))
    call = vendor.next_call()
    for n in range(40):
        call.send({"reasoning": f"{n} "})
        assert watched.next()["data"] == f"{n} "
    call.text("Done.")
    call.finish()
    watched.end()
    assert watched.text == "Done."


def test_channel_12_empty_thinking_is_nothing(engine: Engine) -> None:
    """No empty thinking reaches the stream, the answer is whole."""

    def say(call: Call) -> None:
        engine.speaker.think(call, "")
        engine.speaker.text(call, "whole")
        engine.speaker.finish(call)

    live = engine.run(say)
    assert live.recorder.of(ev.ThinkingDelta) == []
    assert live.output["content"] == "whole"


def test_channel_01_the_bytes_may_be_cut_as_well() -> None:
    """The same with the bytes of the stream cut in pieces of every size up to 40."""
    body = sse(chunk({"content": "<th"}), chunk({"content": "ink>plan"}), chunk({"content": " A</thi"}),
               chunk({"content": "nk>\n\nHello"}), chunk(finish="stop"), "[DONE]")  # fmt: skip
    for size in range(1, 41):
        seen = decode(WIRE, split(body, size), request(dialect=INLINE))
        assert (seen.thinking, seen.text) == ("plan A", "Hello"), size


def test_channel_08_a_client_without_the_header_gets_no_thinking(served: Server, vendor: Vendor) -> None:
    """Flags without the header are refused, not ignored."""
    workflow = served.agent("openai-compatible/field")
    status, body = served.call("POST", f"/api/workflows/{workflow}/execute", body=ALL)
    assert status == 400
    assert next(iter(NEGOTIATE)) in str(body)
