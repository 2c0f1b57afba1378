"""Pauses on agent events and run events: where a stream ends, and what the next one of the same run shows."""

from __future__ import annotations

import typing as t
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from app import events as ev
from app.engine.run_log import RunLog
from app.state import RunState
from app.streams import agent_events_schema, run_event_schema
from app.streams.agent_events import AgentEvents, AgentEventsOptions
from app.streams.projection import Projection
from app.streams.replay import Replay
from app.streams.rights import Rights
from app.streams.run_events import RunEvents, RunEventsOptions
from app.streams.voices import Voices
from tests.streams.generate import USAGE, Scenario, runs
from tests.streams.reader import Reader
from tests.streams.test_replay import agent_readers, frames, run_readers, texts
from tests.support import sse

_examples = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
NEGOTIATED = Draft202012Validator(agent_events_schema.agent_events(closed=True))
SETTLED = Draft202012Validator(agent_events_schema.agent_text())
RUNS = Draft202012Validator(run_event_schema.run_events(closed=True))
EVERYTHING = Rights(True, True, True)
REVIEW = {
    "kind": "tool",
    "tool": "pay",
    "arguments": {"sum": 5},
    "reasons": ["It costs money."],
    "prompt": "Pay?",
}
EXPIRES = 1_700_000_060_000


def log_of(envelopes: Sequence[ev.Envelope]) -> RunLog:
    log = RunLog()
    for envelope in envelopes:
        log.append(envelope)
    return log


def follow(projection: Projection, log: RunLog, after: int = 0) -> bytes:
    """What an attached reader gets of a log, until its stream ends or there is no more."""
    replay, got = Replay(0, after), []
    while replay.cursor < log.last and not projection.done:
        got.append(replay.next(projection, log))
    return b"".join(got)


@dataclass
class Paused:
    """A run with a pause in it.

    :ivar at: number of the pause. :ivar whole: the run without it, numbered as if it were there.
    """

    envelopes: list[ev.Envelope]
    at: int

    @property
    def until(self) -> RunLog:
        """The log while it is paused."""
        return log_of(self.envelopes[: self.at])

    @property
    def log(self) -> RunLog:
        """The log once it has gone on to its end."""
        return log_of(self.envelopes)


@st.composite
def paused_runs(draw: st.DrawFn) -> tuple[Scenario, Paused]:
    """A drawn run in which a running block asks people, somewhere, and everything waits for them."""
    run = draw(runs())
    events = run.events
    running: list[list[str]] = []
    open_: list[str] = []
    for event in events:
        if isinstance(event, ev.BlockStarted):
            open_.append(event.block)
        elif isinstance(event, ev.BlockFinished) and event.block in open_:
            open_.remove(event.block)
        running.append(list(open_))
    places = [place for place, blocks in enumerate(running) if blocks and place < len(events) - 1]
    if not places:
        return draw(paused_runs())
    place = draw(st.sampled_from(places))
    block = draw(st.sampled_from(running[place]))
    pause: list[ev.RunEvent] = [
        ev.DecisionRequested(block, "dec_1", REVIEW, "call_x", EXPIRES),
        ev.RunPaused([("dec_1", block)], {}, {}, USAGE),
        ev.RunResumed(1500),
        ev.DecisionSettled(block, "dec_1", "approve", 1_700_000_001_500, "key_1"),
    ]
    told = [*events[: place + 1], *pause, *events[place + 1 :]]
    envelopes = [ev.Envelope(seq, 1_700_000_000_000 + seq, event) for seq, event in enumerate(told, 1)]
    return run, Paused(envelopes, place + 3)


@_examples
@given(paused_runs())
def test_what_was_shown_and_what_comes_after_are_the_whole(drawn: tuple[Scenario, Paused]) -> None:
    """The starter's stream ends at the pause; the next one begins after it and repeats nothing."""
    run, paused = drawn
    for make in agent_readers(run):
        first = follow(make(), paused.until)
        rest = follow(make(), paused.log, after=paused.at)
        whole = follow(make(), paused.log)
        live = make()
        assert b"".join(live.frames(envelope) for envelope in paused.envelopes[: paused.at]) == first
        assert first.endswith(b'data: "[DONE]"\n\n')
        shown = first[: first.rindex(b'data: {"event":"final"')]
        assert shown + rest == whole


@_examples
@given(paused_runs())
def test_a_pause_that_is_over_is_passed_over_by_those_who_come_later(
    drawn: tuple[Scenario, Paused],
) -> None:
    run, paused = drawn
    for make in agent_readers(run):
        projection = make()
        without = [e for e in paused.envelopes if e.seq < paused.at - 1 or e.seq > paused.at + 2]
        same = b"".join(projection.frames(envelope) for envelope in without)
        assert follow(make(), paused.log) == same


@_examples
@given(paused_runs())
def test_the_end_of_a_paused_stream_of_agent_events(drawn: tuple[Scenario, Paused]) -> None:
    run, paused = drawn
    for negotiated in (True, False):
        options = AgentEventsOptions(
            "run_1", negotiated, False, EVERYTHING, None, run.agents, thread_id="thr_1"
        )
        reader = Reader(follow(AgentEvents(options), paused.until))
        assert reader.ended
        for frame in reader.frames:
            (NEGOTIATED if negotiated else SETTLED).validate(frame)
        assert reader.frames[-1] == {
            "event": "final",
            "data": {
                "success": True,
                "runId": "run_1",
                "status": "paused",
                "output": {},
                "toolCalls": {},
                "usage": USAGE,
                "resume": {
                    "url": "/api/runs/run_1/resume",
                    "pauseId": "dec_1",
                    "threadId": "thr_1",
                    "expiresAt": "2023-11-14T22:14:20.000Z",
                },
            },
        }


@_examples
@given(paused_runs())
def test_run_events_end_at_a_pause_and_begin_again(drawn: tuple[Scenario, Paused]) -> None:
    run, paused = drawn
    for make in run_readers(run):
        first = [value for _, value in frames(follow(make(), paused.until))]
        rest = [value for _, value in frames(follow(make(), paused.log, after=paused.at))]
        whole = [value for _, value in frames(follow(make(), paused.log))]
        assert first[-1]["type"] == "done"
        assert first[-1]["data"]["status"] == "paused"
        end = next(place for place, value in enumerate(first) if value["type"] == "workflow_paused")
        assert [value["type"] for value in first[end:]] in (
            ["workflow_paused", "flow_state", "done"],
            ["workflow_paused", "done"],  # minimal
        )
        assert first[end - 1]["type"] == "decision_requested"
        assert first[end - 1]["data"] == first[end]["data"]
        assert [value["type"] for value in rest[:2]] == ["thread", "decision_settled"]
        assert rest[-1]["type"] == "done"
        assert first[:end] + rest == whole
    for value in [v for _, v in frames(follow(run_readers(run)[0](), paused.until))]:
        RUNS.validate(value)


@_examples
@given(paused_runs())
def test_the_cursor_of_a_pause_waits_for_what_comes(drawn: tuple[Scenario, Paused]) -> None:
    """Nothing is told again and the stream does not end: it is for the run to go on."""
    run, paused = drawn
    for make in [*agent_readers(run), *run_readers(run)]:
        projection = make()
        assert follow(projection, paused.until, after=paused.at) == b""
        assert not projection.done


def envelopes(*events: ev.RunEvent, first: int = 1) -> list[ev.Envelope]:
    return [ev.Envelope(seq, 1_700_000_000_000, event) for seq, event in enumerate(events, first)]


def started(*blocks: str) -> ev.RunStarted:
    return ev.RunStarted("run_1", "wf_1", [ev.BlockInfo(name, "agent", name) for name in blocks], [])


def run_events(payloads: bool = True, level: t.Any = "full") -> RunEvents:
    rights = Rights(False, True, payloads)
    return RunEvents(RunEventsOptions("run_1", "thr_1", level, rights, Voices(frozenset({"a", "b"}), ("b",))))


def test_what_nobody_has_released_is_not_shown_to_callers_without_a_key() -> None:
    told = envelopes(
        started("a"),
        ev.BlockStarted("a", "agent", "a"),
        ev.DecisionRequested("a", "dec_1", REVIEW),
        ev.DecisionRequested("a", "dec_2", {"kind": "answer", "draft": "Our secret.", "show": {"x": 1}}),
        ev.RunPaused([("dec_1", "a"), ("dec_2", "a")], {}, {}, USAGE),
    )
    for payloads, reviews in (
        (True, [REVIEW, {"kind": "answer", "draft": "Our secret.", "show": {"x": 1}}]),
        (False, [{"kind": "tool", "tool": "pay"}, {"kind": "answer"}]),
    ):
        projection = run_events(payloads, "minimal")
        values = [v for _, v in frames(b"".join(projection.frames(envelope) for envelope in told))]
        for kind in ("decision_requested", "workflow_paused"):
            assert [v["data"]["review"] for v in values if v["type"] == kind] == reviews
            assert [v["data"]["pause_id"] for v in values if v["type"] == kind] == ["dec_1", "dec_2"]


def test_of_several_decisions_only_the_open_ones_pause_a_run() -> None:
    told = envelopes(
        started("a", "b"),
        ev.BlockStarted("a", "agent", "a"),
        ev.BlockStarted("b", "agent", "b"),
        ev.DecisionRequested("a", "dec_1", {"kind": "answer", "draft": "A"}),
        ev.DecisionRequested("b", "dec_2", {"kind": "answer", "draft": "B"}, None, EXPIRES),
        ev.DecisionSettled("a", "dec_1", "approve", 5),
        ev.RunPaused([("dec_2", "b")], {}, {}, USAGE),
    )
    projection = run_events()
    values = [v for _, v in frames(b"".join(projection.frames(envelope) for envelope in told))]
    assert [v["data"] for v in values if v["type"] == "workflow_paused"] == [
        {
            "node_id": "b",
            "pause_id": "dec_2",
            "review": {"kind": "answer", "draft": "B"},
            "expires_at": "2023-11-14T22:14:20.000Z",
        }
    ]
    assert [v["data"] for v in values if v["type"] == "decision_settled"] == [
        {"node_id": "a", "pause_id": "dec_1", "decision": "approve"}
    ]


def test_calls_that_are_held_stay_open_over_a_pause() -> None:
    """HITL-11: the id of the first event that names a call is the id of its end."""
    told = envelopes(
        started("a"),
        ev.BlockStarted("a", "agent", "a"),
        ev.TextDelta("a", 0, "I will pay. ", False),
        ev.ToolStarted("a", 0, "call_1", "pay", 5),
        ev.TurnEnded("a", 0, "intermediate", "tool_turn"),
        ev.DecisionRequested("a", "dec_1", REVIEW, "call_1"),
        ev.RunPaused([("dec_1", "a")], {}, {}, USAGE),
        ev.RunResumed(10),
        ev.DecisionSettled("a", "dec_1", "approve", 15),
        ev.ToolFinished("a", 0, "call_1", "pay", "success", {"sum": 5}, "paid", 20, 15),
        ev.TextDelta("a", 1, "Paid.", True),
        ev.TurnEnded("a", 1, "final"),
        ev.AnswerSettled("a", "Paid."),
        ev.BlockFinished("a", "executed", {"content": "Paid."}),
        ev.RunCompleted({"content": "Paid."}, {"a": {"content": "Paid."}}, {}, USAGE),
    )
    options = AgentEventsOptions("run_1", True, False, EVERYTHING, None, ("a",))
    first = Reader(follow(AgentEvents(options), log_of(told[:7])))
    assert first.standing == {}
    assert [(f["phase"], f["id"]) for f in first.events("tool")] == [("start", "call_1")]
    rest = Reader(follow(AgentEvents(options), log_of(told), after=7))
    assert [(f["phase"], f["id"]) for f in rest.events("tool")] == [("end", "call_1")]
    assert rest.standing == {"a": "Paid."}


@pytest.mark.parametrize("negotiated", [True, False])
def test_selections_that_are_there_are_in_the_pause(negotiated: bool) -> None:
    class Pick(t.NamedTuple):
        block: str
        path: tuple[str, ...]

    told = envelopes(
        started("a", "b"),
        ev.BlockStarted("b", "agent", "b"),
        ev.DecisionRequested("b", "dec_1", {"kind": "answer"}),
        ev.RunPaused([("dec_1", "b")], {"a": {"model": "scripted/x", "content": "A"}}, {}, USAGE),
    )
    picks = (Pick("a", ("model",)), Pick("b", ("model",)))
    options = AgentEventsOptions("run_1", negotiated, False, EVERYTHING, picks)
    reader = Reader(follow(AgentEvents(options), log_of(told)))
    assert reader.frames[-1]["data"]["output"] == {"a": {"model": "scripted/x"}}
    assert "expiresAt" not in reader.frames[-1]["data"]["resume"]


# -- a process that died -----------------------------------------------------------------------------


def crashed() -> tuple[list[ev.Envelope], list[ev.Envelope]]:
    """What a reader saw live, and the log as the next process knows it: the rest was lost with the first one."""
    common = envelopes(
        started("a", "b"),
        ev.BlockStarted("a", "agent", "a"),
        ev.TextDelta("a", 0, "All of A.", True),
        ev.TurnEnded("a", 0, "final"),
        ev.AnswerSettled("a", "All of A."),
        ev.BlockFinished("a", "executed", {"content": "All of A."}),
        ev.BlockStarted("b", "agent", "b"),
        ev.DecisionRequested("b", "dec_1", REVIEW),
        ev.TextDelta("b", 0, "B be", True),
    )
    lost = envelopes(ev.TextDelta("b", 0, "gan to ", True), ev.TextDelta("b", 0, "speak", True), first=10)
    after = envelopes(
        ev.Gap(10, 1000, "worker_lost"),
        ev.RunResumed(None),
        ev.TurnEnded("b", 0, "intermediate", "resumed"),
        ev.TextDelta("b", 0, "B again.", True),
        ev.TurnEnded("b", 0, "final"),
        ev.DecisionSettled("b", "dec_1", "expired", 5),
        ev.AnswerSettled("b", "B again."),
        ev.BlockFinished("b", "executed", {"content": "B again."}),
        ev.RunCompleted({}, {}, {}, USAGE),
        first=1001,
    )
    return common + lost, common + after


@pytest.mark.parametrize("after", range(12))
def test_over_a_crash_every_cursor_ends_up_with_what_stands(after: int) -> None:
    seen, told = crashed()
    options = AgentEventsOptions("run_1", True, False, EVERYTHING, None, ("a", "b"))
    projection = AgentEvents(options)
    shown = b"".join(projection.frames(envelope) for envelope in seen[:after])
    rest = frames(follow(AgentEvents(options), log_of(told), after))
    assert texts(frames(shown) + rest) == {"a": "All of A.", "b": "B again."}
    gaps = [value for _, value in rest if isinstance(value, dict) and value.get("event") == "gap"]
    assert gaps == [{"event": "gap", "from": 10, "to": 1000, "reason": "worker_lost"}]
    reset = [value for _, value in rest if isinstance(value, dict) and value.get("event") == "chunk_reset"]
    assert reset == [{"blockId": "b", "event": "chunk_reset", "reason": "resumed"}]
    ids = [int(id.partition(":")[2]) for id, _ in rest if id is not None]
    assert ids == sorted(ids)


@pytest.mark.parametrize("after", range(12))
def test_over_a_crash_run_events_tell_how_it_stood(after: int) -> None:
    _, told = crashed()
    values = [v for _, v in frames(follow(run_events(), log_of(told), after))]
    for value in values:
        RUNS.validate(value)
    kinds = [value["type"] for value in values]
    gap = kinds.index("gap")
    assert values[gap]["data"] == {"from": 10, "to": 1000, "reason": "worker_lost"}
    assert kinds[gap + 1 :] == [
        "agent_message",
        "workflow_node_start",
        "decision_requested",
        "thread",
        "decision_settled",
        "agent_message",
        "workflow_node_end",
        "flow_state",
        "done",
    ]


def test_over_a_crash_settled_text_comes_once() -> None:
    _, told = crashed()
    options = AgentEventsOptions("run_1", False, False, EVERYTHING, None, ("a", "b"))
    reader = Reader(follow(AgentEvents(options), log_of(told)))
    assert [frame for frame in reader.frames if "chunk" in frame] == [
        {"blockId": "a", "chunk": "All of A."},
        {"blockId": "b", "chunk": "B again."},
    ]


def test_the_fold_knows_what_is_open() -> None:
    _, told = crashed()
    state = RunState()
    opened = []
    for envelope in told:
        state.apply(envelope)
        opened.append(list(state.decisions))
    assert opened == [[]] * 7 + [["dec_1"]] * 7 + [[]] * 4


# -- a stream that ends although its run goes on -----------------------------------------------------


def test_detached_in_the_shape_of_each_surface() -> None:
    live = AgentEvents(AgentEventsOptions("run_1", True, False, EVERYTHING))
    assert live.detached(7, 5) == b'retry: 1000\ndata: {"event":"detached","retryMs":1000}\n\n'
    settled = AgentEvents(AgentEventsOptions("run_1", False, False, EVERYTHING))
    assert settled.detached(7, 5) == b"retry: 1000\n\n"
    told = run_events()
    (frame,) = sse.parse(told.detached(7, 1_700_000_000_000))
    assert frame.id is None
    assert frame.json() == {
        "type": "detached",
        "seq": 7,
        "ts": "2023-11-14T22:13:20.000Z",
        "run_id": "run_1",
        "thread_id": "thr_1",
        "data": {"retry_ms": 1000},
    }
    assert live.done
    assert settled.done
    assert told.done
