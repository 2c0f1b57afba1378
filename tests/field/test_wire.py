"""WIRE: bytes in and out, and values that JSON cannot hold."""

from __future__ import annotations

import base64
import importlib
import json
import typing as t

import gevent
import pytest

from app import events as ev
from app.streams.agent_events import AgentEvents, AgentEventsOptions
from app.streams.rights import Rights
from tests.field.plugin import BYTES
from tests.field.rig import Engine, Live, Server, until
from tests.field.wires import EVENTFUL, WIRES, Speaker, spoken
from tests.providers.driving import decode
from tests.support.sse import Frame, parse
from tests.support.vendor import Call, Vendor

BEIJING = "北京🌍"


@pytest.mark.parametrize("name", list(WIRES))
def test_wire_01_a_body_cut_after_every_byte(name: str) -> None:
    """One run per cut, and every byte alone: the text is whole each time."""
    speaker = WIRES[name]()
    body = b"".join(spoken(speaker, BEIJING)[:3])
    wire = importlib.import_module(f"providers.{speaker.name}").WIRE
    for cut in range(len(body) + 1):
        seen = decode(wire, [body[:cut], body[cut:]])
        assert (seen.text, seen.reason) == (BEIJING, "stop"), cut
    assert decode(wire, [body[n : n + 1] for n in range(len(body))]).text == BEIJING


def test_wire_01_writes_cut_after_every_byte(engine: Engine) -> None:
    """The same over a socket: the event with the text comes in two writes, one run per cut."""
    before, event, after, content_type = spoken(engine.speaker, BEIJING)
    for cut in range(1, len(event)):
        live = engine.start()
        call = live.call()
        call.content_type = content_type
        call.send_bytes(before + event[:cut])
        gevent.sleep(0)
        call.send_bytes(event[cut:])
        call.send_bytes(after)
        call.end_body()
        assert live.end().output["content"] == live.text == BEIJING, cut


def test_wire_02_a_line_in_two_packets_and_no_last_blank_line(engine: Engine) -> None:
    """The halves are one event, and the last event counts although nothing follows it."""
    before, event, after, content_type = spoken(engine.speaker, BEIJING)
    live = engine.start()
    call = live.call()
    call.content_type = content_type
    call.send_bytes(before + event[:30])
    gevent.sleep(0.05)
    call.send_bytes(event[30:])
    live.until(ev.TextDelta)
    call.send_bytes(after.removesuffix(b"data: [DONE]\n\n").rstrip(b"\r\n"))
    call.end_body()
    assert live.end().text == live.output["content"] == BEIJING
    assert live.output["finishReason"] == "stop"


@pytest.mark.parametrize("name", EVENTFUL)
def test_wire_04_comments_are_no_data(over: t.Callable[[str], Engine], name: str) -> None:
    """Neither alone nor glued before a data line, nor with a line of its own."""
    engine = over(name)
    live = engine.start()
    call = live.call()
    call.send_bytes(b": WAITING\n\n")
    call.send_bytes(b":ping\n")
    engine.speaker.begin(call)
    call.send_bytes(b": OPENROUTER PROCESSING\n" + engine.speaker.text_frame("hi"))
    engine.speaker.finish(call)
    assert live.end().output["content"] == live.text == "hi"
    assert live.thinking == ""


def test_wire_05_with_and_without_spaces_and_other_fields(chat: Engine) -> None:
    """The answer is "abc" and the finish is clean."""

    def piece(text: str, head: bytes) -> bytes:
        return head + json.dumps({"choices": [{"index": 0, "delta": {"content": text}}]}).encode() + b"\n\n"

    def say(call: Call) -> None:
        call.send_bytes(piece("a", b"data:"))
        call.send_bytes(b"event: message\nid: 7\nretry: 10\n" + piece("b", b"data: "))
        call.send_bytes(piece("c", b"data:  "))
        call.send_bytes(
            b'data:{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata:[DONE]\n\n'
        )
        call.end_body()

    assert chat.run(say).output["content"] == "abc"


def frames_of(live: Live) -> bytes:
    """What a client that may see everything gets of a run."""
    options = AgentEventsOptions(live.run.id, True, False, Rights(True, True), None, ("agent_1",))
    projection = AgentEvents(options)
    return b"".join(projection.frames(envelope) for envelope in live.recorder.envelopes)


def strict(body: bytes) -> list[Frame]:
    """The frames as a strict parser reads them; a naive line splitter has to read the same."""
    frames = parse(body)
    naive = [line[6:] for line in body.decode().splitlines() if line.startswith("data: ")]
    assert naive == [frame.data for frame in frames]
    for frame in frames:
        assert "\n" not in frame.data
        json.loads(frame.data, parse_constant=pytest.fail)
    return frames


UNUSUAL = ("para\n", "a\u2028b", "c\u2029d", "x\u000by", "f\u000cf", "n\u0085l", "r\r\ns", "\u0000")


def test_wire_06_unusual_separators_come_back_as_they_were(engine: Engine) -> None:
    """Parsing each data line gives exactly the strings that the model said."""

    def say(call: Call) -> None:
        for text in UNUSUAL:
            engine.speaker.text(call, text)
        engine.speaker.finish(call)

    live = engine.run(say)
    values = [frame.json() for frame in strict(frames_of(live))]
    assert "".join(v["chunk"] for v in values if "chunk" in v) == "".join(UNUSUAL)
    assert live.row["output"]["content"] == "".join(UNUSUAL)


FORGED = "x\nevent: run.finished\ndata: {}"


def test_wire_08_line_breaks_in_names_and_ids_forge_nothing(engine: Engine) -> None:
    """They appear inside JSON only: the same frames as with harmless names."""

    def plan(name: str, call_id: str) -> t.Callable[[Call], None]:
        def say(call: Call) -> None:
            engine.speaker.tool(call, 0, call_id, name, "{}")
            engine.speaker.finish(call, "tool_calls")

        return say

    seen = []
    for name, call_id in (("harmless", "c1"), (FORGED, "a\r\nid: 9")):
        live = engine.run(plan(name, call_id), engine.answer(), tools=[engine.tool("real")])
        frames = strict(frames_of(live))
        seen.append([(f.event, (f.id or "").partition(":")[2], sorted(f.json())) for f in frames[:-2]])
        starts = [f.json() for f in frames if isinstance(f.json(), dict) and f.json().get("phase") == "start"]
        assert [(v["name"], v["id"]) for v in starts] == [(name, call_id)]
        assert frames[-1].json() == "[DONE]"
    assert seen[0] == seen[1]


@pytest.mark.parametrize("where", ["block", "tool"])
def test_wire_08_a_document_may_not_name_them_so(served: Server, where: str) -> None:
    """Ids and tool names of a document have an alphabet; a display name may be anything."""
    from app import config
    from app.builtins import Builtins
    from app.errors import ValidationFailed
    from app.workflows.validation import compile_document
    from plugins.manager import create_manager
    from plugins.registry import Registry
    from tests.support.engine import agent

    document: dict[str, t.Any] = agent("scripted/plain")
    if where == "block":
        document["blocks"][1]["id"] = document["edges"][0]["target"] = FORGED
    else:
        document["blocks"][1]["config"]["tools"] = [{"name": FORGED, "parameters": {}, "result": 1}]
    plugins = Registry(create_manager(entry_points=False, builtins=(Builtins(config.load({})),)))
    with pytest.raises(ValidationFailed):
        compile_document(document, plugins.block_types, plugins.check_model, frozenset(plugins.tools))


def test_wire_09_values_that_json_cannot_hold(served: Server, vendor: Vendor, speaker: Speaker) -> None:
    """Non-finite numbers are null; later events still come; the record parses."""
    watched = served.watch(served.agent(speaker.model, tools=["nan"]), selectedOutputs=["agent_1"])
    call = vendor.next_call()
    speaker.tool(call, 0, "c", "nan", "{}")
    speaker.finish(call, "tool_calls")
    call = vendor.next_call()
    ((_, told),) = speaker.results(call.body)
    expected = {"mean": None, "max": None, "rows": [None, 1]}
    assert json.loads(told, parse_constant=pytest.fail) == expected
    speaker.text(call, "later")
    speaker.finish(call)
    final = watched.end()["data"]
    assert [v["status"] for v in watched.of("tool") if v["phase"] == "end"] == ["success"]
    assert final["toolCalls"]["agent_1"]["list"][0]["result"] == expected
    assert served.record(watched.run_id)["toolCalls"]["agent_1"]["list"][0]["result"] == expected


def test_wire_11_raw_bytes_at_full_verbosity(served: Server, vendor: Vendor, speaker: Speaker) -> None:
    """The stream ends normally; bytes have their one documented form."""
    watched = served.watch(served.agent(speaker.model, tools=["raw"]))
    call = vendor.next_call()
    speaker.tool(call, 0, "c", "raw", "{}")
    speaker.finish(call, "tool_calls")
    call = vendor.next_call()
    expected = {"$bytes": base64.b64encode(BYTES).decode()}
    assert json.loads(speaker.results(call.body)[0][1]) == expected
    speaker.text(call, "fine")
    speaker.finish(call)
    final = watched.end()["data"]
    assert final["status"] == "completed"
    assert final["toolCalls"]["agent_1"]["list"][0]["result"] == expected


SURROGATES = [
    (["ok \ud83d", "\ude00 end"], "ok \U0001f600 end"),
    (["lone \udcaf", " end"], "lone \ufffd end"),
    (["last \ud83d"], "last \ufffd"),
]


@pytest.mark.parametrize(("pieces", "whole"), SURROGATES)
def test_wire_13_half_a_character_in_a_delta(engine: Engine, pieces: list[str], whole: str) -> None:
    """A split pair becomes its character, a lone half U+FFFD; the record is written."""

    def say(call: Call) -> None:
        for piece in pieces:
            engine.speaker.text(call, piece)
        engine.speaker.finish(call)

    live = engine.run(say)
    assert live.text == live.output["content"] == live.row["output"]["content"] == whole
    strict(frames_of(live))


def test_wire_13_half_a_character_in_arguments_and_results(engine: Engine) -> None:
    """Neither the stream, the history nor the record breaks."""
    engine.tool("echo", lambda arguments, context: "\udcaf" + arguments["t"])

    def plan(call: Call) -> None:
        engine.speaker.tool(call, 0, "c", "echo", '{"t":"\\ud83d"}')
        engine.speaker.finish(call, "tool_calls")

    live = engine.run(plan, engine.answer(), tools=["echo"])
    assert engine.ran == [("echo", {"t": "\ufffd"})]
    assert engine.speaker.results(live.calls[1].body) == [("c", "\ufffd\ufffd")]
    until(lambda: live.row["status"] == "completed", "the record is stored")
    strict(frames_of(live))
