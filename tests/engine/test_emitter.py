"""The emitter: order, the latch, subscribers that raise, no switch point, the thinking cap."""

from __future__ import annotations

import typing as t

import greenlet
import pytest

from app import events as ev
from app.clock import SteppingClock
from app.engine.emitter import THINKING_CAP, Emitter
from app.engine.run_log import RunLog
from app.events import Envelope
from app.state import InvariantBroken, RunState


class Seen:
    def __init__(self) -> None:
        self.envelopes: list[Envelope] = []
        self.flushes = 0

    def deliver(self, envelope: Envelope) -> None:
        self.envelopes.append(envelope)

    def flush(self) -> None:
        self.flushes += 1


class Broken(Seen):
    def deliver(self, envelope: Envelope) -> None:
        raise RuntimeError("sink")


def make() -> tuple[Emitter, RunState, Seen]:
    state = RunState()
    emitter, seen = Emitter(SteppingClock(), state, RunLog()), Seen()
    emitter.attach(seen)
    emitter.emit(ev.RunStarted("run_1", "wf", [ev.BlockInfo("a", "agent", "A")], []))
    emitter.emit(ev.BlockStarted("a", "agent", "A"))
    return emitter, state, seen


def completed() -> ev.RunCompleted:
    return ev.RunCompleted(None, {}, {}, {})


def test_sequence_numbers_are_gapless_from_one() -> None:
    emitter, _, seen = make()
    emitter.emit(ev.TextDelta("a", 0, "x", True))
    assert [e.seq for e in seen.envelopes] == [1, 2, 3]


def test_nothing_follows_the_terminal() -> None:
    emitter, state, seen = make()
    emitter.emit(ev.BlockFinished("a", "executed", {}))
    emitter.emit(completed())
    emitter.emit(completed())
    emitter.emit(ev.TextDelta("a", 0, "late", True))
    assert sum(isinstance(e.event, ev.Terminal) for e in seen.envelopes) == 1
    assert emitter.late == 2
    assert state.terminal is not None


def test_a_subscriber_that_raises_is_detached_and_the_others_go_on() -> None:
    emitter, _, seen = make()
    emitter.attach(Broken())
    emitter.emit(ev.TextDelta("a", 0, "x", True))
    emitter.emit(ev.TextDelta("a", 0, "y", True))
    assert emitter.detached == 1
    assert [e.event.text for e in seen.envelopes if isinstance(e.event, ev.TextDelta)] == ["x", "y"]


def test_emit_contains_no_switch_point() -> None:
    emitter, _, _ = make()
    emitter.attach(Broken())  # the log line of a detached subscriber must not switch either
    switches: list[t.Any] = []
    greenlet.settrace(lambda event, args: switches.append(args))
    try:
        emitter.emit(ev.TextDelta("a", 0, "x", True))
        emitter.emit(ev.ThinkingDelta("a", 0, "x"))
        emitter.flush()
    finally:
        greenlet.settrace(None)
    assert switches == []


def test_a_forbidden_event_changes_nothing() -> None:
    emitter, state, seen = make()
    with pytest.raises(InvariantBroken):
        emitter.emit(ev.ToolFinished("a", 0, "t1", "clock", "success", {}, None, 1, 1))
    with pytest.raises(InvariantBroken):
        emitter.emit(ev.TextDelta("b", 0, "x", True))
    with pytest.raises(InvariantBroken):
        emitter.emit(completed())
    assert set(state.blocks) == {"a"}
    emitter.emit(ev.TextDelta("a", 0, "x", True))
    assert [e.seq for e in seen.envelopes] == [1, 2, 3]


def test_an_end_that_may_not_come_here_comes_all_the_same() -> None:
    emitter, _, seen = make()
    emitter.end(completed())
    emitter.end(completed())
    assert [type(e.event) for e in seen.envelopes[2:]] == [ev.RunCompleted]
    assert [e.seq for e in seen.envelopes] == [1, 2, 3]


@pytest.mark.parametrize("piece", ["x" * 1000, "é" * 1000, "🌍" * 500])
def test_the_thinking_cap_counts_utf_16_units_and_shows_the_cut(piece: str) -> None:
    emitter, _, seen = make()
    for _ in range(600):
        emitter.emit(ev.ThinkingDelta("a", 0, piece))
    deltas = [e.event for e in seen.envelopes if isinstance(e.event, ev.ThinkingDelta)]
    units = sum(len(d.text.encode("utf-16-le")) // 2 for d in deltas)
    assert units == THINKING_CAP
    assert [d.truncated for d in deltas].count(True) == 1
    assert deltas[-1].truncated


def test_thinking_of_exactly_the_cap_is_not_called_cut() -> None:
    emitter, _, seen = make()
    emitter.emit(ev.ThinkingDelta("a", 0, "x" * THINKING_CAP))
    deltas = [e.event for e in seen.envelopes if isinstance(e.event, ev.ThinkingDelta)]
    assert [d.truncated for d in deltas] == [False]
