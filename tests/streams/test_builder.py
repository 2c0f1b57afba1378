"""Builder events: what an editor can rely on, for whatever a run says (contract section 4)."""

from __future__ import annotations

import typing as t
import weakref
from collections.abc import Iterable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from app import encoding
from app import events as ev
from app.state import RunState
from app.streams import references
from app.streams.builder import BuilderEvents, BuilderOptions
from app.streams.builder_logs import ALL, LARGE, MOST, Logs
from app.streams.builder_loops import Loops
from app.streams.builder_schema import DATA, ENDS, builder_events
from app.streams.replay import Replay
from tests.streams.generate import USAGE, Scenario, runs
from tests.streams.planted import planted
from tests.streams.test_pauses import log_of
from tests.support import sse

CLOSED = Draft202012Validator(builder_events(closed=True))
OPEN = Draft202012Validator(builder_events())
MANY = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])

Frame = dict[str, t.Any]


def project(envelopes: Iterable[ev.Envelope], **more: t.Any) -> bytes:
    projection = BuilderEvents(BuilderOptions("run_1", "wf_1", "thr_1", **more))
    return b"".join(projection.frames(envelope) for envelope in envelopes)


def told(stream: bytes) -> list[Frame]:
    """The frames of a whole stream, each as it is described, without the sentinel."""
    frames = sse.parse(stream)
    assert all(frame.event is None for frame in frames)
    *frames, last = frames
    assert last.data == "[DONE]"
    found = [frame.json() for frame in frames]
    for frame, value in zip(frames, found, strict=True):
        CLOSED.validate(value)
        assert list(value)[:5] == ["type", "timestamp", "runId", "workflowId", "data"]
        assert (value["runId"], value["workflowId"]) == ("run_1", "wf_1")
        if value["type"] in ENDS:
            assert frame.id is None
            assert last.id == f"run_1:{value['eventId']}"
        else:
            assert frame.id == (f"run_1:{value['eventId']}" if "eventId" in value else None)
    return found


def numbered(*events: ev.RunEvent) -> list[ev.Envelope]:
    blocks = [ev.BlockInfo("start", "start", "Start"), ev.BlockInfo("agent_1", "agent", "Agent 1")]
    first = ev.RunStarted("run_1", "wf_1", blocks, [("start", "", "agent_1")])
    return [ev.Envelope(seq, 1_700_000_000_000 + seq, event) for seq, event in enumerate((first, *events), 1)]


COMPLETED = ev.RunCompleted(None, {}, {}, USAGE)
AGENT = ev.BlockStarted("agent_1", "agent", "Agent 1", 1, {"prompt": "Hello"})
ENDED = ev.BlockFinished("agent_1", "executed", {"content": "Hi"}, None, None, 7)

# -- whatever a run says ---------------------------------------------------------------------------


@MANY
@given(planted())
def test_one_end_and_everything_is_described(run: Scenario) -> None:
    frames = told(project(run.envelopes))
    kinds = [frame["type"] for frame in frames]
    assert kinds[0] == "execution:started"
    assert [kind for kind in kinds if kind in ENDS] == kinds[-1:]
    for frame in frames:
        OPEN.validate(frame)
    numbers = [frame["eventId"] for frame in frames if "eventId" in frame]
    assert numbers == sorted(set(numbers))


@MANY
@given(runs())
def test_what_begins_ends_and_is_in_the_log(run: Scenario) -> None:
    frames = told(project(run.envelopes))
    ends = {"block:completed", "block:error"}
    running: dict[str, int] = {}
    streaming: set[str] = set()
    closed: list[tuple[str, int]] = []
    for before, frame in zip([None, *frames], frames, strict=False):
        kind, data = frame["type"], frame["data"]
        if kind == "block:started":
            assert data["blockId"] not in running
            running[data["blockId"]] = data["executionOrder"]
        elif kind in ends:
            block = data["blockId"]
            assert running.pop(block) == data["executionOrder"]
            if block in streaming:
                assert before is not None
                assert before["type"] == "stream:done"
                streaming.remove(block)
            closed.append((block, data["executionOrder"]))
        elif kind in ("stream:chunk", "stream:thinking", "stream:tool"):
            assert data["blockId"] in running
            streaming.add(data["blockId"])
        elif kind == "stream:done":
            assert data["blockId"] in streaming
    assert not running
    assert not streaming
    logs = frames[-1]["data"]["finalBlockLogs"]
    assert sorted((log["blockId"], log["executionOrder"]) for log in logs) == sorted(closed)
    assert [log["executionOrder"] for log in logs] == list(range(1, len(logs) + 1))


@MANY
@given(runs())
def test_chunks_that_stand_are_the_content_unless_text_was_lost(run: Scenario) -> None:
    lost = {event.block for event in run.events if isinstance(event, ev.StreamFailed)}
    live = {event.block for event in run.events if isinstance(event, ev.TextDelta)}
    standing: dict[str, str] = {}
    for frame in told(project(run.envelopes)):
        data = frame["data"]
        if frame["type"] == "stream:chunk":
            standing[data["blockId"]] = standing.get(data["blockId"], "") + data["chunk"]
        elif frame["type"] == "stream:chunk_reset":
            assert standing.pop(data["blockId"])
    for block, content in run.contents.items():
        if block in live - lost - run.structured:
            assert standing.get(block, "") == content
        if block in run.structured:
            assert block not in standing


@MANY
@given(runs(), st.data())
def test_a_durable_replay_is_the_stream_without_what_is_provisional(
    run: Scenario, data: st.DataObject
) -> None:
    everything = [f for f in told(project(run.envelopes)) if not f["type"].startswith("stream:")]
    durable = told(project(run.envelopes, durable_only=True))
    assert [frame | {"eventId": 0} for frame in durable] == [frame | {"eventId": 0} for frame in everything]
    assert all("eventId" in frame for frame in durable)
    after = data.draw(st.integers(0, len(run.envelopes) - 1))
    log, replay = log_of(run.envelopes), Replay(0, after)
    projection, got = BuilderEvents(BuilderOptions("run_1", "wf_1", "thr_1")), []
    while replay.cursor < log.last:
        got.append(replay.next(projection, log))
    live = BuilderEvents(BuilderOptions("run_1", "wf_1", "thr_1"))
    pieces = [live.frames(envelope) for envelope in run.envelopes]
    assert b"".join(got) == b"".join(pieces[after:])


@MANY
@given(runs(), st.data())
def test_after_a_gap_what_stands_is_told_and_the_end_is_in_order(run: Scenario, data: st.DataObject) -> None:
    at = data.draw(st.integers(1, len(run.envelopes) - 1))
    state = RunState()
    for envelope in run.envelopes[:at]:
        state.apply(envelope)
    projection = BuilderEvents(BuilderOptions("run_1", "wf_1", "thr_1"))
    first = projection.gap(ev.Envelope(at, 1, ev.Gap(1, at, "evicted")), state)
    frames = told(first + b"".join(projection.frames(envelope) for envelope in run.envelopes[at:]))
    assert frames[0]["type"] == "gap"
    running: set[str] = set()
    for frame in frames:
        if frame["type"] == "block:started":
            running.add(frame["data"]["blockId"])
        elif frame["type"] in ("block:completed", "block:error"):
            running.remove(frame["data"]["blockId"])
    assert not running


@MANY
@given(runs())
def test_secrets_are_taken_out_of_every_event(run: Scenario) -> None:
    """Here every text is one."""

    def masked(value: t.Any) -> t.Any:
        if isinstance(value, str):
            return "***"
        if isinstance(value, dict):
            return {key: masked(item) for key, item in value.items()}
        return [masked(item) for item in value] if isinstance(value, list) else value

    sent = project(run.envelopes, masked=masked).decode()
    for block, content in run.contents.items():
        assert len(content) < 4 or encoding.dumps(content).decode()[1:-1] not in sent, block
    frames = [frame.json() for frame in sse.parse(sent.encode())[:-1]]
    assert {frame["data"].get("chunk", "***") for frame in frames} == {"***"}


# -- one by one ------------------------------------------------------------------------------------


def test_every_type_is_sent_by_something() -> None:
    asked = ev.DecisionRequested(
        "agent_1", "pause_1", {"kind": "answer", "draft": "Hi"}, None, 1_700_000_060_000
    )
    turn = [
        AGENT,
        ev.ThinkingDelta("agent_1", 0, "Hm.", truncated=True),
        ev.TextDelta("agent_1", 0, "Let me ", False),
        ev.ToolStarted("agent_1", 0, "call_1", "clock", 5),
        ev.TurnEnded("agent_1", 0, "intermediate", "tool_turn"),
        ev.ToolFinished("agent_1", 0, "call_1", "clock", "success", {}, 1, 9, 5),
    ]
    failed = ev.BlockFinished("agent_1", "failed", {}, "block_failed", "It failed.")
    streams = [
        project(numbered(*turn, ENDED, COMPLETED)),
        project(numbered(*turn, asked, ev.RunPaused([("pause_1", "agent_1")], {}, {}, USAGE))),
        project(numbered(*turn, failed, ev.RunFailed("block_failed", "It failed.", "agent_1", USAGE))),
        project(numbered(ev.RunCancelled("stop_requested", USAGE))),
        project(numbered(ev.RunTimedOut(USAGE))),
    ]
    seen = {frame["type"] for stream in streams for frame in told(stream)}
    projection = BuilderEvents(BuilderOptions("run_1", "wf_1"))
    gap = projection.gap(ev.Envelope(3, 1, ev.Gap(1, 3, "evicted")), RunState())
    left = projection.detached(3, 1)
    for data in (gap, left):
        (frame,) = [frame for frame in sse.parse(data) if frame.data]
        CLOSED.validate(frame.json())
        seen.add(frame.json()["type"])
    assert left.startswith(b"retry: 1000\n")
    assert seen == set(DATA)


def test_a_block_is_told_with_what_it_was_given_and_gave() -> None:
    started, completed = told(project(numbered(AGENT, ENDED, COMPLETED)))[1:3]
    which = {"blockId": "agent_1", "blockName": "Agent 1", "blockType": "agent", "executionOrder": 1}
    assert started["data"] == which
    given = {"input": {"prompt": "Hello"}}
    assert completed["data"] == {**which, **given, "output": {"content": "Hi"}, "durationMs": 7}


def test_who_has_to_decide_sees_what_and_how() -> None:
    asked = ev.DecisionRequested(
        "agent_1", "pause_1", {"kind": "tool", "tool": "pay"}, "call_1", 1_700_000_060_000
    )
    (*_, end) = told(project(numbered(AGENT, asked, ev.RunPaused([("pause_1", "agent_1")], {}, {}, USAGE))))
    assert end["type"] == "execution:paused"
    assert end["data"]["pauses"] == [
        {
            "pauseId": "pause_1",
            "blockId": "agent_1",
            "toolCallId": "call_1",
            "review": {"kind": "tool", "tool": "pay"},
            "expiresAt": "2023-11-14T22:14:20.000Z",
        }
    ]
    assert end["data"]["resume"]["url"] == "/api/runs/run_1/resume"
    assert [log["status"] for log in end["data"]["finalBlockLogs"]] == ["paused"]


def test_a_block_that_never_ran_is_in_the_log_alone() -> None:
    frames = told(project(numbered(ev.BlockFinished("agent_1", "skipped"), COMPLETED)))
    assert [frame["type"] for frame in frames] == ["execution:started", "execution:completed"]
    assert frames[-1]["data"]["finalBlockLogs"] == [
        {
            "blockId": "agent_1",
            "blockName": "Agent 1",
            "blockType": "agent",
            "status": "skipped",
            "endedAt": "2023-11-14T22:13:20.002Z",
        }
    ]


def test_what_is_large_is_referred_to_in_the_log() -> None:
    large = ev.BlockFinished("agent_1", "executed", {"content": "x" * (LARGE + 1)})
    again = [ev.BlockStarted("agent_1", "agent", "Agent 1", 2), large]
    frames = told(project(numbered(AGENT, large, *again, COMPLETED)))
    assert len(frames[2]["data"]["output"]["content"]) == LARGE + 1
    first, second = (log["output"] for log in frames[-1]["data"]["finalBlockLogs"])
    assert references.read(second["ref"]) == ["blocks", "agent_1", "output"]
    assert "ref" not in first  # there the other one's would be found
    assert second["size"] > LARGE


def test_a_value_too_large_for_a_frame_is_a_reference() -> None:
    huge = ev.BlockFinished("agent_1", "executed", {"content": "x" * (references.VALUE_LIMIT + 1)})
    end = ev.RunCompleted("x" * (references.VALUE_LIMIT + 1), {}, {}, USAGE)
    stream = project(numbered(AGENT, huge, end))
    assert len(stream) < LARGE
    _, _, completed, ended = told(stream)
    assert references.read(completed["data"]["output"]["content"]["ref"]) is not None
    assert references.read(ended["data"]["output"]["ref"]) == ["output"]


def test_the_log_is_bounded() -> None:
    logs = Logs("run_1")
    for number in range(MOST + 50):
        logs.begin("a", {"blockId": "a", "executionOrder": number}, {"x": "y" * 50_000}, 1)
        logs.end("a", "completed", {"output": {"x": "y" * 50_000}}, 2, 50_000)
    found = logs.told()
    assert len(found) == MOST
    assert found[-1]["executionOrder"] == MOST + 49
    assert "output" in found[0]
    assert len(encoding.dumps(found)) < 10 * 1024 * 1024


def test_no_more_is_kept_for_the_log_than_it_will_tell() -> None:
    """A loop of a thousand rounds would hold its outputs for every reader until the end."""
    logs = Logs("run_1")
    held: list[weakref.ref[t.Any]] = []

    class Held(dict[str, t.Any]):
        """A dict that can be referred to weakly."""

    for number in range(200):
        output = Held(x="y" * 50_000)
        held.append(weakref.ref(output))
        logs.begin("a", {"blockId": "a", "executionOrder": number}, {"x": "y" * 50_000}, 1)
        logs.end("a", "completed", {"output": output}, 2, 50_000)
    del output
    kept = [number for number, ref in enumerate(held) if ref() is not None]
    assert kept == list(range(ALL // 100_008))
    assert ["input" in entry for entry in logs.told()[82:85]] == [True, False, False]


@pytest.mark.parametrize(
    ("block", "iteration"),
    [
        ("before", None),
        ("step", 2),
        ("inner", 2),
        ("deep", 5),
        ("deep[3]", 7),
        ("after", None),
        ("wf_1/x", 4),
    ],
)
def test_the_iteration_is_that_of_the_innermost_loop(block: str, iteration: int | None) -> None:
    loops = Loops()
    names = ("before", "outer", "step", "inner", "deep", "after")
    infos = [ev.BlockInfo(name, "loop" if name in ("outer", "inner") else "set", name) for name in names]
    edges = [
        ("before", "", "outer"),
        ("outer", "loop", "step"),
        ("step", "", "inner"),
        ("inner", "loop", "deep"),
        ("deep", "", "inner"),
        ("inner", "exit", "outer"),
        ("outer", "exit", "after"),
    ]
    loops.add("", infos, edges)
    child = [ev.BlockInfo("again", "loop", "x"), ev.BlockInfo("x", "set", "x")]
    loops.add("wf_1/", child, [("again", "loop", "x"), ("x", "", "again")])
    for name, number in (("outer", 2), ("inner", 5), ("inner[3]", 7), ("wf_1/again", 4)):
        loops.turn(ev.LoopIteration(name, number, "loop"))
    assert loops.iteration(block) == iteration
    loops.turn(ev.LoopIteration("inner", 5, "exit"))
    assert loops.iteration("deep") == 2
