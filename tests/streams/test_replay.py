"""Reading the log: what is replayed is what was said, from any event on, by any surface (contract 7.3)."""

from __future__ import annotations

import typing as t
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from app import encoding
from app import events as ev
from app.engine.run_log import RunLog
from app.streams import agent_events_schema, run_event_schema
from app.streams.agent_events import AgentEvents, AgentEventsOptions
from app.streams.projection import Projection
from app.streams.replay import SLICE, Replay
from app.streams.rights import Rights
from app.streams.run_event_levels import LEVELS
from app.streams.run_events import RunEvents, RunEventsOptions
from app.streams.voices import Voices
from tests.streams.generate import Scenario, runs
from tests.streams.test_invariants import ALL_RIGHTS

Make = Callable[[], Projection]
_examples = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def agent_readers(run: Scenario) -> list[Make]:
    """Each kind of reader of agent events."""

    def make(negotiated: bool, separator: bool, rights: Rights, selections: t.Any) -> Make:
        options = AgentEventsOptions("run_1", negotiated, separator, rights, selections, run.agents)
        return lambda: AgentEvents(options)

    return [
        make(negotiated, separator, rights, selections)
        for negotiated, separator in ((True, False), (True, True), (False, True))
        for rights in (ALL_RIGHTS[0], ALL_RIGHTS[-1])
        for selections in (None, ())
    ]


def run_readers(run: Scenario, thinking: bool = True) -> list[Make]:
    """Each kind of reader of run events."""

    def make(level: t.Any, rights: Rights, lone: str | None) -> Make:
        speakers = frozenset(run.agents)
        options = RunEventsOptions("run_1", "thr_1", level, rights, Voices(speakers, run.agents[-1:], lone))
        return lambda: RunEvents(options)

    retracted = any(
        isinstance(e.event, ev.TurnEnded) and e.event.kind == "intermediate" for e in run.envelopes
    )
    lone = run.agents[0] if len(run.agents) == 1 and not retracted else None  # whose text nothing takes back
    levels = LEVELS if thinking else LEVELS[1:]
    return [make(level, rights, lone) for level in levels for rights in (ALL_RIGHTS[0], ALL_RIGHTS[-1])]


def logged(run: Scenario, kept: int = 1_000_000) -> RunLog:
    log = RunLog(max_count=kept)
    for envelope in run.envelopes:
        log.append(envelope)
    return log


def attached(projection: Projection, log: RunLog, after: int) -> bytes:
    """Everything an attached reader gets of a log that is complete."""
    replay, got = Replay(0, after), []
    while replay.cursor < log.last:
        got.append(replay.next(projection, log))
    return b"".join(got)


def live(projection: Projection, run: Scenario) -> list[bytes]:
    """What the starter got, by envelope."""
    return [projection.frames(envelope) for envelope in run.envelopes]


@_examples
@given(runs())
def test_a_replay_after_any_event_is_what_was_said_after_it(run: Scenario) -> None:
    log = logged(run)
    for make in [*agent_readers(run), *run_readers(run)]:
        said = live(make(), run)
        for cut in range(len(said) + 1):
            assert attached(make(), log, cut) == b"".join(said[cut:])


@_examples
@given(runs(), st.data())
def test_what_is_still_kept_is_replayed_the_same_when_the_rest_was_evicted(
    run: Scenario, data: st.DataObject
) -> None:
    """A reader who has everything that was evicted meets no gap. (Counts of thinking begin anew: not at full.)"""
    kept = data.draw(st.integers(1, len(run.envelopes)))
    log = logged(run, kept)
    first = log.first
    for make in [*agent_readers(run), *run_readers(run, thinking=False)]:
        said = live(make(), run)
        for cut in range(first - 1, len(said) + 1):
            assert attached(make(), log, cut) == b"".join(said[cut:])


def test_text_that_was_lost_live_is_not_lost_again_by_an_eviction() -> None:
    """What an answer settles on is told as run events when its block ends, also to those who come in between."""
    events: list[ev.RunEvent] = [
        ev.RunStarted("run_1", "wf_1", [ev.BlockInfo("a", "agent", "A")], []),
        ev.BlockStarted("a", "agent", "A"),
        ev.TextDelta("a", 0, "The wh", True),
        ev.TurnEnded("a", 0, "final"),
        ev.AnswerSettled("a", "The whole."),
        ev.BlockFinished("a", "executed", {"content": "The whole."}),
        ev.RunCompleted({"content": "The whole."}, {}, {}, {}),
    ]
    made = [ev.Envelope(seq, seq, event) for seq, event in enumerate(events, 1)]
    for make in run_readers(Scenario(made, ("a",), frozenset()), thinking=False):
        for kept in range(1, len(made) + 1):
            log = RunLog(max_count=kept)
            for envelope in made:
                log.append(envelope)
            projection = make()
            said = [projection.frames(envelope) for envelope in made]
            for cut in range(log.first - 1, len(made) + 1):
                assert attached(make(), log, cut) == b"".join(said[cut:])
            told = [value for _, value in frames(attached(make(), log, 0))]
            text = [v["data"]["content"] for v in told if v["type"] == "chat_chunk"]
            assert "".join(text) == "The whole."


def frames(data: bytes) -> list[tuple[str | None, t.Any]]:
    """(id, data) of each frame."""
    found = []
    for part in data.decode().split("\n\n")[:-1]:
        *head, line = part.split("\n")
        value = encoding.loads(line.removeprefix("data: ").encode())
        found.append((head[0].removeprefix("id: ") if head else None, value))
    return found


def standing(run: Scenario, upto: int) -> dict[str, str]:
    """What stands at a reader who was there up to an event."""
    options = AgentEventsOptions("run_1", True, False, ALL_RIGHTS[-1], None, run.agents)
    projection = AgentEvents(options)
    return texts(frames(b"".join(projection.frames(e) for e in run.envelopes[:upto])))


def texts(told: list[tuple[str | None, t.Any]]) -> dict[str, str]:
    text: dict[str, str] = {}
    for _, value in told:
        if not isinstance(value, dict):
            continue
        if value.get("event") == "gap":
            text = {}
        elif value.get("event") == "chunk_reset":
            text.pop(value["blockId"], None)
        elif "chunk" in value:
            text[value["blockId"]] = text.get(value["blockId"], "") + value["chunk"]
    return text


@_examples
@given(runs(), st.data())
def test_a_gap_is_marked_and_what_stands_follows(run: Scenario, data: st.DataObject) -> None:
    kept = data.draw(st.integers(1, max(1, len(run.envelopes) - 2)))
    log = logged(run, kept)
    if log.first < 3:
        return
    after = data.draw(st.integers(0, log.first - 2))
    options = AgentEventsOptions("run_1", True, False, ALL_RIGHTS[-1], None, run.agents)
    told = frames(attached(AgentEvents(options), log, after))
    end = log.first - 1
    assert told[0][1] == {"event": "gap", "from": after + 1, "to": end, "reason": "evicted"}
    snapshot = next(place for place, (id, _) in enumerate(told) if id is not None)
    assert told[snapshot][0] == f"run_1:{end}"
    assert texts(told[: snapshot + 1]) == standing(run, end)
    assert texts(told) == standing(run, len(run.envelopes))
    starts = [v["id"] for _, v in told if isinstance(v, dict) and v.get("phase") == "start"]
    ends = [v["id"] for _, v in told if isinstance(v, dict) and v.get("phase") == "end"]
    assert set(ends) <= set(starts)
    assert len(set(starts)) == len(starts)
    validator = Draft202012Validator(agent_events_schema.agent_events(closed=True))
    for _, value in told:
        validator.validate(value)


@_examples
@given(runs(), st.data())
def test_a_reader_that_fell_behind_ends_up_with_what_stands(run: Scenario, data: st.DataObject) -> None:
    """It was there up to an event, then its place was evicted."""
    upto = data.draw(st.integers(0, len(run.envelopes) - 1))
    kept = data.draw(st.integers(1, len(run.envelopes)))
    log = logged(run, kept)
    for negotiated in (True, False):
        options = AgentEventsOptions("run_1", negotiated, False, ALL_RIGHTS[-1], None, run.agents)
        projection = AgentEvents(options)
        got = [projection.frames(envelope) for envelope in run.envelopes[:upto]]
        replay = Replay(upto, upto)
        while replay.cursor < log.last:
            got.append(replay.next(projection, log))
        whole = AgentEvents(options)
        expected = texts(frames(b"".join(whole.frames(e) for e in run.envelopes)))
        told = frames(b"".join(got))
        assert texts(told) == expected
        assert told[-1][1] == "[DONE]"
        if not negotiated:  # a stateless map of what settled: nothing is added, nothing comes twice
            chunks = [v["blockId"] for _, v in told if isinstance(v, dict) and "chunk" in v]
            assert len(set(chunks)) == len(chunks)
            assert not any(isinstance(v, dict) and v.get("event") == "gap" for _, v in told)


@_examples
@given(runs(), st.data())
def test_run_events_tell_of_a_gap_too(run: Scenario, data: st.DataObject) -> None:
    kept = data.draw(st.integers(1, max(1, len(run.envelopes) - 2)))
    log = logged(run, kept)
    if log.first < 3:
        return
    validator = Draft202012Validator(run_event_schema.run_events(closed=True))
    for after in (0, log.first - 2):
        for make in run_readers(run):
            told = [value for _, value in frames(attached(make(), log, after))]
            kinds = [value["type"] for value in told]
            assert kinds[:2] == ["thread", "gap"] if after == 0 else kinds[0] == "gap"
            assert kinds[-1] == "done"
            gap = told[kinds.index("gap")]
            assert gap["data"] == {"from": after + 1, "to": log.first - 1, "reason": "evicted"}
            running = set()
            for value in told:
                validator.validate(value)
                if value["type"] == "workflow_node_start":
                    running.add(value["data"]["node_run_id"])
                elif value["type"] == "workflow_node_end" and "skipped" not in value["data"]:
                    running.remove(value["data"]["node_run_id"])
            assert not running


def test_a_slice_is_bounded() -> None:
    log = RunLog()
    log.append(ev.Envelope(1, 1, ev.RunStarted("run_1", "wf", [ev.BlockInfo("a", "agent", "A")], [])))
    log.append(ev.Envelope(2, 2, ev.BlockStarted("a", "agent", "A")))
    for seq in range(3, 3 + 5 * SLICE):
        log.append(ev.Envelope(seq, seq, ev.TextDelta("a", 0, f"{seq};", True)))
    options = AgentEventsOptions("run_1", True, False, Rights(), None, ("a",))
    replay, projection = Replay(0, 0), AgentEvents(options)
    before = 0
    while replay.cursor < log.last:
        replay.next(projection, log)
        assert replay.cursor - before <= SLICE
        before = replay.cursor


@pytest.mark.parametrize("sealed", [False, True])
def test_the_log_keeps_the_newest_and_knows_how_the_rest_stood(sealed: bool) -> None:
    log = RunLog(max_count=3)
    log.append(ev.Envelope(1, 1, ev.RunStarted("run_1", "wf", [ev.BlockInfo("a", "agent", "A")], [])))
    log.append(ev.Envelope(2, 2, ev.BlockStarted("a", "agent", "A")))
    for seq in range(3, 8):
        log.append(ev.Envelope(seq, seq, ev.TextDelta("a", 0, str(seq), True)))
    if sealed:
        log.seal()
    assert (log.first, log.last, len(log)) == (5, 7, 3)
    assert [e.seq for e in log.after(0, 2)] == [5, 6]
    assert [e.seq for e in log.after(5, 9)] == [6, 7]
    assert log.after(7, 9) == []
    assert log.base is not None
    assert log.base.blocks["a"].standing_text() == "34"
