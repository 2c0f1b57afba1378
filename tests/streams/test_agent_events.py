"""Agent events, frame by frame, as the contract spells them (3.2 to 3.6)."""

from __future__ import annotations

import typing as t

import pytest

from app import encoding
from app import events as ev
from app.streams import final, sse
from app.streams.agent_events import AgentEvents, AgentEventsOptions
from app.streams.rights import Rights, strip_output
from tests.streams.reader import project, read

BLOCKS = [
    ev.BlockInfo("start", "start", "Start"),
    ev.BlockInfo("agent_1", "agent", "Agent 1"),
    ev.BlockInfo("agent_2", "agent", "Agent 2", structured=True),
]
STARTED = ev.RunStarted("run_1", "wf_1", BLOCKS, [])
CALL = {
    "id": "call_1",
    "name": "clock",
    "arguments": {"zone": "UTC"},
    "result": "noon",
    "status": "success",
    "startTime": "2026-01-01T00:00:00.000Z",
    "endTime": "2026-01-01T00:00:00.004Z",
    "duration": 4,
}
EVERYTHING = Rights(True, True, True)
BARE_CALL = {key: value for key, value in CALL.items() if key not in ("arguments", "result")}
OUTPUT = {
    "content": "noon",
    "toolCalls": {"list": [CALL], "count": 1},
    "providerTiming": {
        "duration": 9,
        "timeSegments": [{"type": "tool", "name": "clock", "toolCallId": "call_1", "result": "noon"}],
    },
}


class Pick(t.NamedTuple):
    block: str
    path: tuple[str, ...]


def options(
    rights: Rights = EVERYTHING,
    *,
    negotiated: bool = True,
    separator: bool = False,
    selections: tuple[Pick, ...] | None = None,
) -> AgentEventsOptions:
    return AgentEventsOptions("run_1", negotiated, separator, rights, selections, ("agent_1", "agent_2"))


def numbered(*events: ev.RunEvent) -> list[ev.Envelope]:
    return [ev.Envelope(seq, 0, event) for seq, event in enumerate((STARTED, *events), 1)]


def lines(wanted: AgentEventsOptions, *events: ev.RunEvent) -> list[str]:
    return project(wanted, numbered(*events)).decode().split("\n\n")[:-1]


def completed(**changes: t.Any) -> ev.RunCompleted:
    values: dict[str, t.Any] = {
        "output": OUTPUT,
        "outputs": {"start": {"message": "hi"}, "agent_1": OUTPUT},
        "tool_calls": {"agent_1": [CALL]},
        "usage": {"tokens": {"total": 3}},
    }
    return ev.RunCompleted(**{**values, **changes})


def final_data(wanted: AgentEventsOptions, *events: ev.RunEvent) -> dict[str, t.Any]:
    frame = read(wanted, numbered(*events)).frames[-1]
    assert frame["event"] == "final"
    return t.cast("dict[str, t.Any]", frame["data"])


def test_every_live_frame() -> None:
    sent = lines(
        options(),
        ev.ThinkingDelta("agent_1", 0, "hm"),
        ev.TextDelta("agent_1", 0, "I'll look", False),
        ev.ToolStarted("agent_1", 0, "call_1", "clock", 5),
        ev.TurnEnded("agent_1", 0, "intermediate"),
        ev.ToolFinished("agent_1", 0, "call_1", "clock", "success", {"zone": "UTC"}, "noon", 9, 5),
        ev.TextDelta("agent_1", 1, "noon", True),
        ev.TurnEnded("agent_1", 1, "final"),
        ev.AnswerSettled("agent_1", "noon"),
        ev.ThinkingDelta("agent_1", 1, "last", truncated=True),
        ev.StreamFailed("agent_1", "The text was lost."),
        ev.AnswerRetracted("agent_1", "iteration"),
        ev.RunFailed("provider_idle", "The model fell silent.", "agent_1", {}),
    )
    assert sent == [
        'id: run_1:2\ndata: {"blockId":"agent_1","event":"thinking","data":"hm"}',
        'id: run_1:3\ndata: {"blockId":"agent_1","chunk":"I\'ll look"}',
        'id: run_1:4\ndata: {"blockId":"agent_1","event":"tool","phase":"start","id":"call_1","name":"clock"}',
        'id: run_1:5\ndata: {"blockId":"agent_1","event":"chunk_reset","reason":"tool_turn"}',
        'id: run_1:6\ndata: {"blockId":"agent_1","event":"tool","phase":"end","id":"call_1","name":"clock",'
        '"status":"success"}',
        'id: run_1:7\ndata: {"blockId":"agent_1","chunk":"noon"}',
        'id: run_1:10\ndata: {"blockId":"agent_1","event":"thinking","data":"last","truncated":true}',
        'id: run_1:11\ndata: {"event":"stream_error","blockId":"agent_1","error":"The text was lost."}',
        'id: run_1:12\ndata: {"blockId":"agent_1","event":"chunk_reset","reason":"iteration"}',
        'data: {"event":"error","error":"The model fell silent.","code":"provider_idle","blockId":"agent_1"}',
        'id: run_1:13\ndata: "[DONE]"',
    ]


def test_final_frame() -> None:
    wanted = options(negotiated=False)
    sent = lines(wanted, completed(output="x", tool_calls={}))
    assert sent == [
        'data: {"event":"final","data":{"success":true,"runId":"run_1","status":"completed","output":"x",'
        '"toolCalls":{},"usage":{"tokens":{"total":3}}}}',
        'data: "[DONE]"',
    ]


@pytest.mark.parametrize(
    ("event", "text", "code"),
    [
        (ev.RunCancelled("stop_requested", {}), ev.STOPPED_TEXT, "cancelled"),
        (ev.RunCancelled("client_disconnected", {}), ev.STOPPED_TEXT, "cancelled"),
        (ev.RunCancelled("server_shutdown", {}), ev.SHUTDOWN_TEXT, "cancelled"),
        (ev.RunTimedOut({}), ev.TIMEOUT_TEXT, "timed_out"),
    ],
)
def test_fixed_texts_and_codes(event: ev.RunEvent, text: str, code: str) -> None:
    assert read(options(), numbered(event)).frames == [{"event": "error", "error": text, "code": code}]
    assert read(options(negotiated=False), numbered(event)).frames == [{"event": "error", "error": text}]


def test_withheld_thinking_sends_nothing() -> None:
    events = (
        ev.ThinkingDelta("agent_1", 0, "", redacted=True),
        ev.ThinkingDelta("agent_1", 0, ""),
        completed(),
    )
    assert read(options(), numbered(*events)).events("thinking") == []


def test_no_reset_without_text_of_the_turn() -> None:
    events = (
        ev.ToolStarted("agent_1", 0, "c", "clock", 0),
        ev.TurnEnded("agent_1", 0, "intermediate"),
        ev.AnswerRetracted("agent_1", "fallback"),
        completed(),
    )
    assert read(options(), numbered(*events)).events("chunk_reset") == []


def test_unselected_blocks_send_no_text_and_no_reset() -> None:
    wanted = options(selections=(Pick("agent_2", ("content",)), Pick("agent_1", ("model",))))
    reader = read(
        wanted,
        numbered(
            ev.TextDelta("agent_1", 0, "x", False),
            ev.TurnEnded("agent_1", 0, "intermediate"),
            ev.StreamFailed("agent_1", "lost"),
            ev.AnswerSettled("agent_1", "x"),
            completed(),
        ),
    )
    assert [frame["event"] for frame in reader.frames] == ["final"]


def test_aborted_text_stays() -> None:
    reader = read(
        options(),
        numbered(
            ev.TextDelta("agent_1", 0, "half", True),
            ev.TurnEnded("agent_1", 0, "aborted"),
            ev.RunTimedOut({}),
        ),
    )
    assert reader.standing == {"agent_1": "half"}


def test_structured_block_settles_once() -> None:
    reader = read(
        options(),
        numbered(
            ev.TextDelta("agent_2", 0, '{"a"', True),
            ev.TextDelta("agent_2", 0, ":1}", True),
            ev.TurnEnded("agent_2", 0, "final"),
            ev.AnswerSettled("agent_2", '{"a":1}'),
            completed(),
        ),
    )
    assert reader.chunks == {"agent_2": ['{"a":1}']}


def test_text_that_was_never_live_is_sent_when_it_settles() -> None:
    """Field case ORDER-06."""
    reader = read(options(), numbered(ev.AnswerSettled("agent_1", "whole"), completed()))
    assert reader.chunks == {"agent_1": ["whole"]}


def test_lost_text_is_made_up_for_when_it_settles() -> None:
    events = (
        ev.TextDelta("agent_1", 0, "ab", True),
        ev.StreamFailed("agent_1", "lost"),
        ev.AnswerSettled("agent_1", "abcd"),
        completed(),
    )
    assert read(options(), numbered(*events)).standing == {"agent_1": "abcd"}


@pytest.mark.parametrize("settled", ["a", ""])
def test_more_shown_than_stands_is_taken_back(settled: str) -> None:
    events = (ev.TextDelta("agent_1", 0, "abc", True), ev.AnswerSettled("agent_1", settled), completed())
    reader = read(options(), numbered(*events))
    assert reader.standing.get("agent_1", "") == settled
    assert [frame["reason"] for frame in reader.events("chunk_reset")] == ["fallback"]


def test_instances_match_a_selector_without_index() -> None:
    wanted = options(selections=(Pick("agent_1", ("content",)),))
    events = (
        ev.TextDelta("agent_1[0]", 0, "a", True),
        ev.TextDelta("agent_1[1]", 0, "b", True),
        ev.TextDelta("agent_10", 0, "c", True),
        completed(),
    )
    assert read(wanted, numbered(*events)).standing == {"agent_1[0]": "a", "agent_1[1]": "b"}


def test_separator_goes_before_the_first_chunk_of_another_block() -> None:
    events = (
        ev.TextDelta("agent_1", 0, "one", True),
        ev.TextDelta("agent_1", 0, " more", True),
        ev.AnswerSettled("agent_2", "{}"),
        completed(),
    )
    reader = read(options(separator=True), numbered(*events))
    assert reader.chunks == {"agent_1": ["one", " more"], "agent_2": ["\n\n{}"]}


def test_separator_does_not_follow_retracted_text() -> None:
    events = (
        ev.TextDelta("agent_1", 0, "one", False),
        ev.TurnEnded("agent_1", 0, "intermediate"),
        ev.AnswerSettled("agent_2", "{}"),
        completed(),
    )
    assert read(options(separator=True), numbered(*events)).standing == {"agent_2": "{}"}


# -- what the final envelope holds -----------------------------------------------------------


def test_selections_already_sent_are_not_repeated() -> None:
    wanted = options(
        selections=(
            Pick("agent_1", ("content",)),
            Pick("agent_1", ("providerTiming", "duration")),
            Pick("start", ("message",)),
            Pick("agent_1", ("absent",)),
        )
    )
    data = final_data(wanted, ev.AnswerSettled("agent_1", "noon"), completed())
    assert data["output"] == {"agent_1": {"providerTiming.duration": 9}, "start": {"message": "hi"}}


def test_selected_content_that_was_not_sent_is_in_the_output() -> None:
    wanted = options(selections=(Pick("agent_1", ("content",)),))
    assert final_data(wanted, completed())["output"] == {"agent_1": {"content": "noon"}}


def test_a_whole_output_gives_its_members() -> None:
    assert final_data(options(selections=(Pick("start", ()),)), completed())["output"] == {
        "start": {"message": "hi"}
    }


def test_without_selections_the_output_is_the_runs_though_it_was_streamed() -> None:
    data = final_data(options(), ev.AnswerSettled("agent_1", "noon"), completed())
    assert data["output"]["content"] == "noon"


def test_tool_calls_are_there_whatever_was_selected() -> None:
    data = final_data(options(selections=()), completed())
    assert data["toolCalls"] == {"agent_1": {"list": [CALL], "count": 1}}
    assert data["output"] == {}


def test_a_failure_with_an_output() -> None:
    data = final_data(options(), completed(success=False, error="The agent failed."))
    assert (data["success"], data["error"], data["status"]) == (False, "The agent failed.", "completed")


@pytest.mark.parametrize(
    "path",
    [
        (),
        ("toolCalls",),
        ("toolCalls", "list"),
        ("toolCalls", "list", "0"),
        ("toolCalls", "list", "0", "arguments"),
        ("toolCalls", "list", "0", "result"),
        ("providerTiming",),
        ("providerTiming", "timeSegments"),
        ("providerTiming", "timeSegments", "0", "result"),
    ],
)
def test_payloads_stay_with_those_allowed_whatever_is_selected(path: tuple[str, ...]) -> None:
    hidden = Rights(True, True, False)
    wanted = options(hidden, selections=(Pick("agent_1", path),))
    event = completed(outputs={"agent_1": {**OUTPUT, "content": ""}})
    assert b"noon" not in project(wanted, numbered(event))
    assert b"UTC" not in project(wanted, numbered(event))
    assert final_data(wanted, event)["toolCalls"] == {"agent_1": {"list": [BARE_CALL], "count": 1}}


def test_payloads_are_stripped_wherever_a_call_appears() -> None:
    nested = {"debug": [{"calls": iter([CALL])}], "id": 1, "name": "own"}
    assert strip_output(nested, Rights()) == {"debug": [{"calls": [BARE_CALL]}], "id": 1, "name": "own"}


def test_time_segments_are_reduced_for_everybody() -> None:
    stripped = strip_output(OUTPUT, Rights(True, True, True))
    assert stripped["providerTiming"]["timeSegments"] == [
        {"type": "tool", "name": "clock", "toolCallId": "call_1"}
    ]
    assert stripped["toolCalls"]["list"] == [CALL]
    assert strip_output({"timeSegments": "odd"}, Rights()) == {"timeSegments": "odd"}


def test_an_output_that_holds_itself_does_not_break_the_stream() -> None:
    output: dict[str, t.Any] = {}
    output["self"] = output
    for rights in (Rights(), Rights(payloads=True)):
        assert "[unserializable]" in encoding.dumps(strip_output(output, rights)).decode()


def test_too_much_output_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(final, "OUTPUT_LIMIT", 1000)
    frames = read(options(), numbered(completed(output="x" * 1000))).frames
    assert frames[-1]["event"] == "error"
    assert frames[-1]["code"] == "output_too_large"
    assert "selectedOutputs" in frames[-1]["error"]


# -- bytes -----------------------------------------------------------------------------------


def test_names_and_text_never_leave_their_json() -> None:
    """Field case WIRE-08."""
    name = "x\nevent: final\ndata: {}"
    events = (
        ev.ToolStarted("agent_1", 0, "a\r\nid: 9", name, 0),
        ev.ToolFinished("agent_1", 0, "a\r\nid: 9", name, "success", {}, None, 0, 0),
        completed(),
    )
    frames = read(options(), numbered(*events)).frames
    assert [(frame["id"], frame["name"]) for frame in frames[:2]] == [("a\r\nid: 9", name)] * 2
    assert len(frames) == 3


def test_lone_surrogates_and_odd_values_have_a_form() -> None:
    """Field cases WIRE-09 and WIRE-13."""
    events = (
        ev.TextDelta("agent_1", 0, "ok \ud83d", True),
        completed(output={"mean": float("nan"), "raw": b"\x00"}),
    )
    reader = read(options(), numbered(*events))
    assert reader.standing == {"agent_1": "ok \ufffd"}
    assert reader.frames[-1]["data"]["output"] == {"mean": None, "raw": {"$bytes": "AA=="}}


def test_nothing_follows_the_end() -> None:
    projection = AgentEvents(options())
    assert not projection.done
    for envelope in numbered(completed()):
        projection.frames(envelope)
    assert projection.done
    assert projection.frames(ev.Envelope(9, 0, ev.RunTimedOut({}))) == b""
    assert projection.frames(ev.Envelope(9, 0, ev.TextDelta("agent_1", 0, "late", True))) == b""


def test_framing() -> None:
    assert sse.frame(b"{}") == b"data: {}\n\n"
    assert sse.frame(b"{}", b"run_1:4", "paused") == b"id: run_1:4\nevent: paused\ndata: {}\n\n"
    assert sse.KEEPALIVE == b": keepalive\n\n"
