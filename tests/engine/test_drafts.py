"""Runs of those who build a workflow: what each block was given, and how far they go."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from app import events as ev
from app.encoding import dumps
from app.engine.given import MOST, bounded, given
from app.engine.recompiled import compiled
from app.engine.services import Services
from tests.engine.test_regions import document
from tests.support.engine import Recorder, services, start

pytestmark = pytest.mark.leak_check

SET = "set"


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Services]:
    scripts = {
        "says": {"turns": [{"steps": [{"text": "Tea."}]}]},
        "silent": {"turns": [{"steps": [{"text": "Well "}, {"stall": True}]}]},
        "broken": {"turns": [{"steps": [{"error": {"code": "provider_auth", "message": "No."}}]}]},
    }
    for name, script in scripts.items():
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(script))
    with services(tmp_path, {"STUDIO_SCRIPTS_DIR": str(tmp_path)}) as opened:
        yield opened


def drafted(made: Services, doc: dict[str, t.Any], given: t.Any = None, **options: t.Any) -> Recorder:
    run, recorder = start(made, doc, given, draft=True, **options)
    assert run.done.wait(20)
    return recorder


def inputs(recorder: Recorder) -> dict[str, t.Any]:
    return {event.block: event.given for event in recorder.of(ev.BlockStarted)}


def ran(recorder: Recorder) -> list[str]:
    return [event.block for event in recorder.of(ev.BlockFinished) if event.status == "executed"]


# -- what blocks are given -------------------------------------------------------------------------


def test_a_block_is_given_its_config_as_it_was_rendered(made: Services) -> None:
    blocks: list[tuple[str, str, dict[str, t.Any]]] = [
        ("words", SET, {"values": {"topic": "{{ input.message|upper }}"}}),
        ("ask", "agent", {"model": "scripted/says", "prompt": "About {{ blocks.words.topic }}"}),
        ("answer", "response", {"body": {"said": "{{ blocks.ask.content }}"}, "status": 201}),
    ]
    found = inputs(
        drafted(made, document(blocks, "start > words", "words > ask", "ask > answer"), {"message": "tea"})
    )
    assert found == {
        "start": {"message": "tea"},
        "words": {"values": {"topic": "TEA"}},
        "ask": {"model": "scripted/says", "prompt": "About TEA"},
        "answer": {"body": {"said": "Tea."}, "status": 201},
    }


def test_nothing_is_given_to_others(made: Services) -> None:
    run, recorder = start(made, document([("words", SET, {"values": {"a": "b"}})], "start > words"))
    assert run.done.wait(20)
    assert set(inputs(recorder).values()) == {None}


def test_a_loop_shows_what_each_time_was_given(made: Services) -> None:
    blocks: list[tuple[str, str, dict[str, t.Any]]] = [
        ("each", "loop", {"kind": "for_each", "items": ["tea", "cake"]}),
        ("say", SET, {"values": {"it": "{{ loop.item }}"}}),
    ]
    recorder = drafted(made, document(blocks, "start > each", "each -loop> say", "say > each"))
    given = [event.given["values"]["it"] for event in recorder.of(ev.BlockStarted) if event.block == "say"]
    assert given == ["tea", "cake"]


def test_a_field_with_a_secret_is_told_as_it_was_written(made: Services) -> None:
    headers = {"Authorization": "Bearer {{ secrets.TOKEN }}"}
    blocks: list[tuple[str, str, dict[str, t.Any]]] = [
        ("call", "http", {"url": "http://127.0.0.1/{{ input.message }}", "headers": headers}),
    ]
    workflow = compiled(document(blocks, "start > call"), made.plugins)
    told = given(workflow.blocks["call"], {"input": {"message": "orders"}, "secrets": {"TOKEN": "sk-secret"}})
    assert told == {"url": "http://127.0.0.1/orders", "headers": headers}


def test_what_cannot_be_rendered_is_told_as_it_was_written(made: Services) -> None:
    wrong = "{{ 1 / 0 }}"
    blocks: list[tuple[str, str, dict[str, t.Any]]] = [("words", SET, {"values": {"a": wrong}})]
    recorder = drafted(made, document(blocks, "start > words"))
    assert inputs(recorder)["words"] == {"values": {"a": wrong}}
    assert recorder.of(ev.RunFailed)[0].code == "template_failed"


@pytest.mark.parametrize(
    "value",
    [
        "x" * 200_000,
        ["x" * 1000] * 300,
        {"a": {"b": "x" * MOST, "c": 1}},
        list(range(200_000)),
        ["x"] * 200_000,
    ],
)
def test_what_is_long_is_cut(value: t.Any) -> None:
    assert len(dumps(bounded(value))) <= 4 * MOST
    assert bounded(short := {"a": ["b", 1, None]}) == short


# -- how far a run goes ----------------------------------------------------------------------------

FORK: list[tuple[str, str, dict[str, t.Any]]] = [
    ("a", SET, {"values": {"n": 1}}),
    ("b", SET, {"values": {"n": 2}}),
    ("side", "agent", {"model": "scripted/silent"}),
    ("join", SET, {"values": {"n": "{{ blocks.a.n + blocks.b.n }}"}}),
    ("after", SET, {"values": {"n": 4}}),
]
WAYS = ("start > a", "start > b", "start > side", "a > join", "b > join", "join > after")


def test_it_ends_with_the_block_and_runs_nothing_that_does_not_lead_to_it(made: Services) -> None:
    recorder = drafted(made, document(FORK, *WAYS), stop_after="join")
    assert sorted(ran(recorder)) == ["a", "b", "join", "start"]
    (end,) = recorder.of(ev.RunCompleted)
    assert end.output == {"n": 3}
    assert {event.block for event in recorder.of(ev.BlockFinished)} == {"start", "a", "b", "join"}


def test_it_may_be_the_first_one(made: Services) -> None:
    recorder = drafted(made, document(FORK, *WAYS), {"message": "hi"}, stop_after="start")
    assert ran(recorder) == ["start"]
    assert recorder.of(ev.RunCompleted)[0].output == {"message": "hi"}


def test_in_a_loop_it_ends_when_the_block_has_ended_once(made: Services) -> None:
    blocks: list[tuple[str, str, dict[str, t.Any]]] = [
        ("each", "loop", {"kind": "for_each", "items": ["tea", "cake"]}),
        ("say", SET, {"values": {"it": "{{ loop.item }}"}}),
        ("more", SET, {"values": {"it": "no"}}),
    ]
    doc = document(blocks, "start > each", "each -loop> say", "say > more", "more > each")
    recorder = drafted(made, doc, stop_after="say")
    assert ran(recorder) == ["start", "say"]
    (end,) = recorder.of(ev.RunCompleted)
    assert (end.output, end.success) == ({"it": "tea"}, True)
    (left,) = [event for event in recorder.of(ev.BlockFinished) if event.status == "failed"]
    assert (left.block, left.code) == ("each", "cancelled")


def test_in_a_branch_it_gives_up_what_runs_beside_it(made: Services) -> None:
    blocks: list[tuple[str, str, dict[str, t.Any]]] = [
        ("both", "parallel", {"branches": ["two", "one"]}),
        ("quick", SET, {"values": {"n": 1}}),
        ("slow", "agent", {"model": "scripted/silent"}),
    ]
    doc = document(blocks, "start > both", "both -branch:one> quick", "both -branch:two> slow")
    recorder = drafted(made, doc, stop_after="quick")
    (end,) = recorder.of(ev.RunCompleted)
    assert end.output == {"n": 1}
    assert {e.block: e.status for e in recorder.of(ev.BlockFinished)} == {
        "start": "executed",
        "quick": "executed",
        "slow": "failed",
        "both": "failed",
    }


def test_a_whole_loop_is_a_block_like_any_other(made: Services) -> None:
    blocks: list[tuple[str, str, dict[str, t.Any]]] = [
        ("each", "loop", {"kind": "for_each", "items": ["tea", "cake"]}),
        ("say", SET, {"values": {"it": "{{ loop.item }}"}}),
        ("after", SET, {"values": {"n": 4}}),
    ]
    doc = document(blocks, "start > each", "each -loop> say", "say > each", "each -exit> after")
    recorder = drafted(made, doc, stop_after="each")
    assert ran(recorder) == ["start", "say", "say", "each"]
    assert recorder.of(ev.RunCompleted)[0].output["iterations"] == 2


def test_one_that_fails_fails_the_run_and_one_that_is_caught_ends_it(made: Services) -> None:
    blocks: list[tuple[str, str, dict[str, t.Any]]] = [
        ("ask", "agent", {"model": "scripted/broken", "retries": 0}),
        ("sorry", SET, {"values": {"n": 1}}),
    ]
    recorder = drafted(made, document(blocks, "start > ask", "ask > sorry"), stop_after="ask")
    assert recorder.of(ev.RunFailed)[0].code == "provider_auth"
    doc = document(blocks, "start > ask", "ask -error> sorry")
    recorder = drafted(made, doc, stop_after="ask")
    (end,) = recorder.of(ev.RunCompleted)
    assert end.success is False
    assert "sorry" not in ran(recorder)


def test_a_block_that_no_path_leads_to_is_told_as_skipped(made: Services) -> None:
    blocks: list[tuple[str, str, dict[str, t.Any]]] = [
        ("ask", "condition", {"expression": "false"}),
        ("yes", SET, {"values": {"n": 1}}),
        ("no", SET, {"values": {"n": 2}}),
    ]
    recorder = drafted(
        made, document(blocks, "start > ask", "ask -true> yes", "ask -false> no"), stop_after="yes"
    )
    assert [(e.block, e.status) for e in recorder.of(ev.BlockFinished)][-1] == ("yes", "skipped")
    assert "no" not in ran(recorder)
