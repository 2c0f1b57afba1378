"""Joins inside bodies, and what is left of a region that ended early: found by random workflows."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from app import events as ev
from app.engine.services import Services
from app.streams.agent_events import AgentEventsOptions
from app.streams.rights import Rights
from tests.engine.flows import document, ended, finished
from tests.streams.generate import violations
from tests.streams.reader import read
from tests.support.engine import Recorder, start
from tests.support.graphs import When, playing

pytestmark = pytest.mark.leak_check

FAILS = {"values": {"x": "{{ 1 / 0 }}"}}
SAYS = {"values": {"x": 1}}
SLOW: dict[str, t.Any] = {
    "turns": [
        {
            "steps": [
                {"text": "half", "delay_ms": 1},
                {"error": {"code": "provider_overloaded", "message": "Full."}},
            ]
        }
    ]
}
#: Lets others run before it answers.
WAITS = {"turns": [{"steps": [{"delay_ms": 1}, {"text": "done"}]}]}


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Services]:
    with playing(tmp_path, {"says": "yes", "half": SLOW, "waits": WAITS}) as opened:
        yield opened


def begun(recorder: Recorder) -> list[str]:
    return [event.block for event in recorder.of(ev.BlockStarted)]


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        ("loop", {"kind": "for", "times": 2}),
        ("parallel", {"items": [1, 2]}),
        ("parallel", {"branches": ["loop"]}),
    ],
)
def test_a_block_behind_the_way_in_waits_for_what_else_it_joins(
    made: Services, kind: str, config: dict[str, t.Any]
) -> None:
    handle = "branch:loop" if "branches" in config else "loop"
    doc = document(
        [("all", kind, config), ("first", "agent", {"model": "scripted/waits"}), ("then", "set", SAYS)],
        "start > all",
        f"all -{handle}> first",
        "first > then",
        f"all -{handle}> then",
    )
    end, recorder = ended(made, doc)
    assert isinstance(end, ev.RunCompleted)
    ends = [event.block for event in recorder.of(ev.BlockFinished)]
    for suffix in ("[0]", "[1]") if "items" in config else ("",):
        assert ends.index(f"first{suffix}") < ends.index(f"then{suffix}")
        names = [event.block for event in recorder.of(ev.RunEvent) if hasattr(event, "execution")]
        place = names.index(f"then{suffix}")
        assert names[:place].count(f"first{suffix}") == 2  # its start and its end


def test_a_branch_that_did_not_run_yet_when_its_sibling_failed_never_begins(made: Services) -> None:
    doc = document([("bad", "set", FAILS), ("late", "set", SAYS)], "start > bad", "start > late")
    end, recorder = ended(made, doc)
    assert (end.code, end.block) == ("template_failed", "bad")
    assert begun(recorder) == ["start", "bad"]


def test_nothing_begins_once_a_stop_was_asked_for(made: Services) -> None:
    doc = document(
        [("one", "set", SAYS), ("two", "set", SAYS), ("after", "set", SAYS)],
        "start > one",
        "start > two",
        "one > after",
    )
    run, recorder = start(made, doc)
    run.attach(
        When(
            lambda event: isinstance(event, ev.BlockStarted) and event.block == "one",
            lambda: run.cancel("stop_requested"),
        )
    )
    assert run.done.wait(20)
    assert begun(recorder) == ["start", "one"]
    end = recorder.envelopes[-1].event
    assert isinstance(end, ev.RunCancelled)
    assert list(end.following) == ["two", "after"]


def test_what_a_stop_cuts_off_ends_as_the_execution_it_was(made: Services) -> None:
    doc = document(
        [("again", "loop", {"kind": "for", "times": 3}), ("say", "agent", {"model": "scripted/waits"})],
        "start > again",
        "again -loop> say",
        "say > again",
    )
    run, recorder = start(made, doc)
    run.attach(
        When(
            lambda event: isinstance(event, ev.BlockStarted) and event.execution == 2,
            lambda: run.cancel("stop_requested"),
        )
    )
    assert run.done.wait(20)
    assert [entry for entry in finished(recorder) if entry[0] == "say"] == [
        ("say", "executed", 1),
        ("say", "failed", 2),
    ]


@pytest.mark.parametrize("kind", ["loop", "parallel"])
def test_what_was_said_in_a_body_that_is_tried_again_settles_once(made: Services, kind: str) -> None:
    config = {"kind": "for", "times": 1} if kind == "loop" else {"branches": ["a", "b"]}
    doc = document(
        [
            ("tried", kind, {**config, "retries": 1}),
            ("inner", "loop", {"kind": "for", "times": 1}),
            ("say", "agent", {"model": "scripted/says"}),
            ("bad", "set", FAILS),
            ("caught", "set", SAYS),
        ],
        "start > tried",
        f"tried -{'loop' if kind == 'loop' else 'branch:a'}> inner",
        "inner -loop> say",
        "say > inner",
        "inner -exit> bad",
        *(["bad > tried"] if kind == "loop" else []),
        "tried -error> caught",
    )
    end, recorder = ended(made, doc)
    assert isinstance(end, ev.RunCompleted)
    assert violations(recorder.envelopes) == []
    assert [entry for entry in finished(recorder) if entry[0] == "say"] == [
        ("say", "executed", 1),
        ("say", "executed", 2),
    ]
    assert recorder.of(ev.AnswerSettled) == [ev.AnswerSettled("say", "yes")]


def test_a_reader_is_told_of_text_that_was_lost_in_a_branch_that_may_fail(made: Services) -> None:
    doc = document(
        [
            ("all", "parallel", {"branches": ["a"], "on_error": "continue"}),
            ("half", "agent", {"model": "scripted/half", "retries": 0}),
        ],
        "start > all",
        "all -branch:a> half",
    )
    end, recorder = ended(made, doc)
    assert isinstance(end, ev.RunCompleted)
    failed = next(event for event in recorder.of(ev.BlockFinished) if event.block == "half")
    assert recorder.of(ev.StreamFailed) == [ev.StreamFailed("half", failed.message)]
    options = AgentEventsOptions("run_1", True, False, Rights(), None, ("half",))
    reader = read(options, recorder.envelopes)
    assert [frame["blockId"] for frame in reader.events("stream_error")] == ["half"]


def test_lost_text_is_told_once_for_a_block_that_fails_in_each_iteration(made: Services) -> None:
    doc = document(
        [
            ("again", "loop", {"kind": "for", "times": 3}),
            ("half", "agent", {"model": "scripted/half", "retries": 0}),
            ("caught", "set", SAYS),
        ],
        "start > again",
        "again -loop> half",
        "half -error> caught",
        "caught > again",
    )
    end, recorder = ended(made, doc)
    assert isinstance(end, ev.RunCompleted)
    assert len(recorder.of(ev.StreamFailed)) == 1


def test_a_loop_that_ends_settles_nothing_of_the_loop_beside_it(made: Services) -> None:
    """Two at once; the first has fewer iterations and ends while the other goes on."""
    doc = document(
        [
            ("all", "parallel", {"items": [1, 3]}),
            ("again", "loop", {"kind": "for", "times": "{{ loop.item }}"}),
            ("say", "agent", {"model": "scripted/says"}),
            ("then", "agent", {"model": "scripted/waits"}),
        ],
        "start > all",
        "all -loop> again",
        "again -loop> say",
        "say > then",
        "then > again",
        "again -exit> all",
    )
    end, recorder = ended(made, doc)
    assert isinstance(end, ev.RunCompleted)
    assert violations(recorder.envelopes) == []
    assert sorted(event.block for event in recorder.of(ev.AnswerSettled)) == [
        "say[0]",
        "say[1]",
        "then[0]",
        "then[1]",
    ]
    settled = [e.event.block if isinstance(e.event, ev.AnswerSettled) else None for e in recorder.envelopes]
    last = max(
        n
        for n, e in enumerate(recorder.envelopes)
        if isinstance(e.event, ev.BlockFinished) and e.event.block == "say[1]"
    )
    assert settled.index("say[1]") > last


def test_a_branch_sees_what_ran_beside_it_and_around_it_in_its_own_branch(made: Services) -> None:
    doc = document(
        [
            ("outer", "parallel", {"items": ["a", "b"]}),
            ("before", "set", {"values": {"x": "{{ loop.item }}"}}),
            ("inner", "parallel", {"items": [1, 2]}),
            ("first", "set", {"values": {"x": "{{ blocks.before.x }}{{ loop.item }}"}}),
            ("then", "set", {"values": {"x": "{{ blocks.first.x }}!"}}),
        ],
        "start > outer",
        "outer -loop> before",
        "before > inner",
        "inner -loop> first",
        "first > then",
        "then > inner",
        "inner -exit> outer",
    )
    end, _ = ended(made, doc)
    said = [[result["x"] for result in results["results"]] for results in end.output["results"]]
    assert said == [["a1!", "a2!"], ["b1!", "b2!"]]
