"""How a durable run leaves a process and goes on in another: its numbers, its time, its end, and what cannot go on."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from pathlib import Path

import gevent
import pytest

from app import events as ev
from app.engine import motion
from app.engine.registry import RunRegistry
from app.engine.run import Run
from app.engine.services import Services
from plugins.hookspecs import hookimpl
from plugins.spec import Tool, ToolContext
from tests.engine.durable_runs import PATIENCE_S, Story, carry_on, die, execute, lose_owner, recorded
from tests.engine.flows import document
from tests.support.engine import Recorder, services, start

SET = {"values": {"x": "{{ blocks.ask.content }}!"}}
ASKS = document(
    [("ask", "approval", {"prompt": "Go?", "draft": "hello"}), ("z", "set", SET)],
    "start > ask",
    "ask -approved> z",
)
#: Something that goes on beside a question.
BESIDE = document(
    [
        ("ask", "approval", {"prompt": "Go?", "draft": "hello", "timeout_s": 0.5}),
        ("wait", "tool", {"tool": "wait"}),
        ("z", "set", {"values": {"x": 1}}),
    ],
    "start > ask",
    "start > wait",
    "ask -approved> z",
)


class Door:
    """A tool that waits until a test lets it go on, and counts how often it was called."""

    def __init__(self) -> None:
        self.open = gevent.event.Event()
        self.calls = 0

    @hookimpl
    def tools(self) -> list[Tool]:
        """See ``plugins.hookspecs``."""
        return [Tool("wait", "Waits.", {"type": "object", "properties": {}}, self._run, idempotent=True)]

    def _run(self, arguments: dict[str, t.Any], context: ToolContext) -> str:
        self.calls += 1
        with context.waits.wait():
            self.open.wait()
        return "done"


@pytest.fixture(scope="module")
def door() -> Door:
    return Door()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, door: Door) -> Iterator[Services]:
    with (
        services(tmp_path_factory.mktemp("resume"), plugins=(door,)) as opened,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(motion, "QUIET_S", 0.001)
        yield opened


@pytest.fixture(autouse=True)
def _closed(door: Door, made: Services) -> Iterator[None]:
    door.open.clear()
    door.calls = 0
    yield
    door.open.set()
    for run in made.runs.live():
        assert run.done.wait(PATIENCE_S)


def paused(made: Services, doc: t.Any = ASKS, **options: t.Any) -> tuple[Run, Story]:
    run, recorder = start(made, doc, **options)
    assert run.done.wait(PATIENCE_S)
    assert run.paused is not None
    return run, Story(run.id, [recorder])


def answered(made: Services, run_id: str, story: Story, **say: t.Any) -> tuple[Run, list[ev.RunEvent]]:
    """The run after an answer has let it go on to its end, and what it told since."""
    (row,) = made.store.decisions.open_of_run(run_id)
    won, _ = made.store.decisions.answer(row.id, {"decision": "approve", **say}, "somebody")
    assert won
    run = made.runs.go_on(run_id)
    assert run is not None
    return run, rest(run, story)


def rest(run: Run, story: Story) -> list[ev.RunEvent]:
    recorder = recorded(run)
    story.parts.append(recorder)
    assert run.done.wait(PATIENCE_S)
    return [envelope.event for envelope in recorder.envelopes]


def kinds(events: list[ev.RunEvent]) -> list[str]:
    return [type(event).__name__ for event in events]


# -- a pause ---------------------------------------------------------------------------------------------


def test_a_pause_is_the_last_word_of_a_process_and_the_next_goes_on_behind_it(made: Services) -> None:
    run, story = paused(made)
    assert run.status == "paused"
    assert made.runs.get(run.id) is None
    assert made.runs.ended(run.id) is None
    row = made.store.runs.get(run.id)
    assert row is not None
    assert (row["status"], row["owner_id"], row["ended_at"]) == ("paused", None, None)
    assert [block["status"] for block in row["blocks"]] == ["executed", "running"]
    assert isinstance(story.parts[0].envelopes[-1].event, ev.RunPaused)
    last = story.parts[0].envelopes[-1].seq
    again, events = answered(made, run.id, story, decision="edit", text="bye")
    assert kinds(events) == [
        "RunResumed",
        "DecisionSettled",
        "AnswerSettled",
        "BlockFinished",
        "BlockStarted",
        "BlockFinished",
        "RunCompleted",
    ]
    assert story.parts[1].envelopes[0].seq == last + 1
    end = again.ending
    assert isinstance(end, ev.RunCompleted)
    assert end.output == {"x": "bye!"}
    assert story.faults(made) == []


def test_the_time_people_take_is_told_alike_and_is_nobody_elses(made: Services) -> None:
    run, story = paused(made, timeout_s=30)
    at = story.parts[0].envelopes[-1].ts
    gevent.sleep(0.05)
    again, events = answered(made, run.id, story)
    (settled,) = [event for event in events if isinstance(event, ev.DecisionSettled)]
    waited = settled.at - at
    assert waited >= 30
    assert events[0] == ev.RunResumed(waited)
    assert again.resumption is not None
    assert again.resumption.active_ms < 30_000 - waited
    assert again._time_left() == pytest.approx(30 - again.resumption.active_ms / 1000)
    row = made.store.runs.get(run.id)
    assert row is not None
    usage = row["usage"]
    assert (row["human_wait_ms"], usage["humanWaitMs"], row["paused_at"]) == (waited, waited, None)
    assert usage["durationMs"] == usage["activeMs"] + usage["queuedMs"] + usage["humanWaitMs"]


def test_an_answer_to_a_run_in_which_something_moves_pauses_nothing(made: Services, door: Door) -> None:
    """And the time of a block does not pass while it waits for a person."""
    run, recorder = start(made, BESIDE)
    with gevent.Timeout(PATIENCE_S):
        while not recorder.of(ev.DecisionRequested):
            gevent.sleep(0.001)
    gevent.sleep(0.6)
    (row,) = made.store.decisions.open_of_run(run.id)
    made.store.decisions.answer(row.id, {"decision": "approve"}, "somebody")
    assert made.runs.go_on(run.id) is run
    door.open.set()
    assert run.done.wait(PATIENCE_S)
    assert isinstance(run.ending, ev.RunCompleted)
    assert recorder.of(ev.RunPaused) == []
    assert [event.status for event in recorder.of(ev.BlockFinished)] == ["executed"] * 4
    assert run.usage()["humanWaitMs"] == 0


def test_a_question_whose_time_is_up_lets_the_run_go_on(made: Services) -> None:
    doc = document(
        [("ask", "approval", {"prompt": "Go?", "draft": "x", "deadline_s": 0.01}), ("late", "set", SET)],
        "start > ask",
        "ask -expired> late",
    )
    run, story = paused(made, doc)
    gevent.sleep(0.02)
    made.runs._carrier.sweep()
    again = made.runs.get(run.id)
    assert again is not None
    events = rest(again, story)
    assert [event.decision for event in events if isinstance(event, ev.DecisionSettled)] == ["expired"]
    assert "late" in again.state.outputs()
    assert story.faults(made) == []


def test_a_server_that_is_full_takes_up_nothing(made: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    run, story = paused(made)
    (row,) = made.store.decisions.open_of_run(run.id)
    made.store.decisions.answer(row.id, {"decision": "approve"}, "somebody")
    with monkeypatch.context() as full:
        full.setattr(RunRegistry, "__len__", lambda runs: 1_000_000)
        made.runs._carrier.sweep()
        assert made.runs.get(run.id) is None
    made.runs._carrier.sweep()
    again = made.runs.get(run.id)
    assert again is not None
    rest(again, story)
    assert isinstance(again.ending, ev.RunCompleted)


# -- an end instead --------------------------------------------------------------------------------------


def test_a_paused_run_that_is_stopped_ends_once_and_asks_nobody_any_more(made: Services) -> None:
    run, story = paused(made)
    assert made.runs.stop(run.id)
    again = made.runs.get(run.id)
    assert again is not None
    events = rest(again, story)
    assert isinstance(events[-1], ev.RunCancelled)
    assert (events[-1].cause, events[-1].following) == ("stop_requested", ("z",))
    assert [row.state for row in made.store.decisions.of_run(run.id)] == ["cancelled"]
    row = made.store.runs.get(run.id)
    assert row is not None
    assert (row["status"], row["cause"]) == ("cancelled", "stop_requested")
    assert story.faults(made) == []
    assert not made.runs.stop(run.id)


@pytest.mark.parametrize(
    ("table", "column"), [("journal", "value"), ("run_logs", "data"), ("journal", "input_hash")]
)
def test_what_cannot_go_on_fails_with_the_reason(made: Services, table: str, column: str) -> None:
    run, story = paused(made)
    value: t.Any = "0" * 32 if column == "input_hash" else b"\xc1"
    execute(made.store, f"UPDATE {table} SET {column} = ? WHERE run_id = ?", value, run.id)
    _, events = answered(made, run.id, story)
    (end,) = [event for event in events if isinstance(event, ev.Terminal)]
    assert isinstance(end, ev.RunFailed)
    assert end.code == ("journal_mismatch" if column == "input_hash" else "resume_failed")
    row = made.store.runs.get(run.id)
    assert row is not None
    assert (row["status"], row["error"]["code"]) == ("failed", end.code)
    assert made.store.decisions.open_of_run(run.id) == []


# -- another process -------------------------------------------------------------------------------------


def waiting(made: Services) -> tuple[Run, Recorder]:
    """A run in the middle of a call."""
    doc = document([("wait", "tool", {"tool": "wait"})], "start > wait", settings={"durable": True})
    run, recorder = start(made, doc)
    with gevent.Timeout(PATIENCE_S):
        while not recorder.of(ev.ToolExecuting):
            gevent.sleep(0.001)
    return run, recorder


def test_a_run_that_is_handed_over_goes_on_with_the_next_number(made: Services, door: Door) -> None:
    run, recorder = waiting(made)
    assert run.hand_over()
    assert not run.hand_over()
    assert run.done.wait(PATIENCE_S)
    assert (run.ending, run.status) == (None, "running")
    row = made.store.runs.get(run.id)
    assert row is not None
    assert (row["status"], row["owner_id"]) == ("running", None)
    story = Story(run.id, [recorder])
    door.open.set()
    found = carry_on(made, run.id)
    assert found is not None
    again, after = found
    story.parts.append(after)
    assert again.done.wait(PATIENCE_S)
    assert isinstance(again.ending, ev.RunCompleted)
    assert after.envelopes[0].seq == recorder.envelopes[-1].seq + 1
    assert after.envelopes[0].event == ev.RunResumed(None)
    assert after.of(ev.Gap) == []
    assert [event.block for event in after.of(ev.BlockStarted)] == []
    assert door.calls == 2  # it may be repeated
    assert story.faults(made) == []


def test_a_run_whose_process_died_says_what_may_be_missing(made: Services, door: Door) -> None:
    run, recorder = waiting(made)
    reserved = made.store.runs.get(run.id)["seq_reserved"]  # type: ignore[index]  # it is there
    die(run)
    lose_owner(made, run)
    door.open.set()
    found = carry_on(made, run.id)
    assert found is not None
    again, after = found
    assert again.done.wait(PATIENCE_S)
    story = Story(run.id, [recorder, after])
    gap, resumed = after.envelopes[0], after.envelopes[1]
    assert isinstance(gap.event, ev.Gap)
    assert (gap.seq, gap.event.last, gap.event.reason) == (reserved + 1, reserved, "worker_lost")
    assert resumed.event == ev.RunResumed(None)
    assert isinstance(again.ending, ev.RunCompleted)
    assert story.faults(made) == []


def test_a_process_that_was_thought_dead_tells_no_end(made: Services, door: Door) -> None:
    run, recorder = waiting(made)
    execute(made.store, "UPDATE runs SET owner_id = 'gone' WHERE id = ?", run.id)
    door.open.set()
    assert run.done.wait(PATIENCE_S)
    assert not [e for e in recorder.envelopes if isinstance(e.event, ev.Terminal)]
    found = carry_on(made, run.id)
    assert found is not None
    assert found[0].done.wait(PATIENCE_S)
    assert isinstance(found[0].ending, ev.RunCompleted)


def test_a_turn_that_was_cut_off_is_taken_back_and_asked_again(made: Services, tmp_path: Path) -> None:
    doc = document(
        [("a", "agent", {"model": "scripted/stall", "prompt": "Hi"})],
        "start > a",
        settings={"durable": True},
    )
    run, recorder = start(made, doc)
    with gevent.Timeout(PATIENCE_S):
        while not recorder.of(ev.TextDelta):
            gevent.sleep(0.001)
    assert run.hand_over()
    assert run.done.wait(PATIENCE_S)
    found = carry_on(made, run.id)
    assert found is not None
    again, after = found
    with gevent.Timeout(PATIENCE_S):
        while not after.of(ev.TextDelta):
            gevent.sleep(0.001)
    (ended,) = after.of(ev.TurnEnded)
    assert (ended.block, ended.turn, ended.kind, ended.reason) == ("a", 0, "intermediate", "resumed")
    assert "".join(e.text for e in after.of(ev.TextDelta)) == again.state.blocks["a"].streamed_text()
    again.cancel("stop_requested")
    assert again.done.wait(PATIENCE_S)
