"""Who speaks in a workflow, and whose text may be shown as it is written."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator

import pytest

from app.engine.catalog import Catalog, runnable
from app.engine.recompiled import compiled
from app.engine.services import Services
from app.streams.voices import Voices, voices
from app.workflows.document import parse
from tests.engine.test_regions import document
from tests.support.engine import services
from tests.support.shared import ROOT

ECHO = {"model": "scripted/echo"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    with services(tmp_path_factory.mktemp("voices")) as opened:
        yield opened


def heard(made: Services, blocks: list[tuple[str, str, dict[str, t.Any]]], *edges: str) -> Voices:
    return voices(compiled(document(blocks, *edges), made.plugins))


def test_one_agent_alone_is_shown_as_it_writes(made: Services) -> None:
    assert heard(made, [("a", "agent", ECHO)], "start > a") == Voices(frozenset({"a"}), ("a",), "a")
    with_response = [("a", "agent", ECHO), ("r", "response", {"body": "{{ blocks.a.content }}"})]
    found = heard(made, with_response, "start > a", "a > r")
    assert found == Voices(frozenset({"a"}), ("a",), "a", closing=frozenset({"r"}))


@pytest.mark.parametrize(
    "more",
    [
        {"tools": ["clock"]},
        {"capture": True},
        {"fallbacks": ["scripted/tour"]},
        {"response_format": {"type": "object", "properties": {"a": {"type": "string"}}}},
        {"on_error": "continue"},
    ],
)
def test_text_that_may_be_taken_back_is_shown_whole(made: Services, more: dict[str, t.Any]) -> None:
    assert heard(made, [("a", "agent", {**ECHO, **more})], "start > a").lone is None


def test_what_another_process_may_say_anew_is_shown_whole(made: Services) -> None:
    document_ = {**document([("a", "agent", ECHO)], "start > a"), "settings": {"durable": True}}
    assert voices(compiled(document_, made.plugins)) == Voices(frozenset({"a"}), ("a",), None)


def test_an_error_edge_a_loop_and_company_make_it_whole_too(made: Services) -> None:
    blocks = [("a", "agent", ECHO), ("b", "set", {"values": {"x": 1}})]
    assert heard(made, blocks, "start > a", "a -error> b").lone is None
    loop = [("l", "loop", {"kind": "for", "times": 2}), ("a", "agent", ECHO)]
    assert heard(made, loop, "start > l", "l -loop> a", "a > l").lone is None
    two = heard(made, [("a", "agent", ECHO), ("b", "agent", ECHO)], "start > a", "a > b")
    assert two == Voices(frozenset({"a", "b"}), ("b",), None)


def test_where_no_agent_answers_the_response_does(made: Services) -> None:
    blocks = [("a", "agent", ECHO), ("r", "response", {"body": "Done."})]
    found = heard(made, blocks, "start > a", "a > r")
    assert found == Voices(frozenset({"a"}), (), None, closing=frozenset({"r"}))


LOOP = ("l", "loop", {"kind": "for", "times": 2})
ITEMS = ("l", "parallel", {"items": [1, 2]})
BRANCHES = ("l", "parallel", {"branches": ["x", "y"]})
A, B, Z = (("a", "agent", ECHO), ("b", "agent", ECHO), ("z", "agent", ECHO))
INSIDE = ("start > l", "l -loop> a", "a > l")
BESIDE = ("start > l", "l -branch:x> a", "l -branch:y> b")


@pytest.mark.parametrize(
    ("blocks", "edges", "answers"),
    [
        ([LOOP, A, Z], (*INSIDE, "l -exit> z"), ("z",)),
        ([ITEMS, A, Z], (*INSIDE, "l -exit> z"), ("z",)),
        ([BRANCHES, A, B, Z], (*BESIDE, "l -exit> z"), ("z",)),
        ([LOOP, A], INSIDE, ("a",)),
        ([ITEMS, A], INSIDE, ("a",)),
        ([BRANCHES, A, B], BESIDE, ("a", "b")),
        ([LOOP, A, B], ("start > l", "l -loop> a", "a > b", "b > l"), ("b",)),
        ([BRANCHES, A, B, Z], (*BESIDE, "a -error> z"), ("a", "b", "z")),
        ([LOOP, A, ("r", "response", {})], (*INSIDE, "l -exit> r"), ("a",)),
        ([LOOP, A, ("r", "response", {"body": "{{ blocks.l.iterations }}"})], (*INSIDE, "l -exit> r"), ()),
        ([LOOP, A, ("r", "response", {"body": "Done."})], (*INSIDE, "l -exit> r"), ()),
    ],
)
def test_what_a_body_ends_with_answers_where_what_runs_it_does(
    made: Services, blocks: list[t.Any], edges: tuple[str, ...], answers: tuple[str, ...]
) -> None:
    workflow = compiled(document(blocks, *edges), made.plugins)
    assert workflow.answer_agents() == answers
    assert voices(workflow).answers == answers


def test_bodies_in_bodies_answer_only_when_all_around_them_do(made: Services) -> None:
    outer = ("o", "loop", {"kind": "for", "times": 2})
    inside = ("start > o", "o -loop> l", "l -loop> a", "a > l")
    found = heard(made, [outer, LOOP, A], *inside, "l -exit> o")
    assert found.answers == ("a",)
    found = heard(made, [outer, LOOP, A, Z], *inside, "l -exit> o", "o -exit> z")
    assert found.answers == ("z",)
    found = heard(made, [outer, LOOP, A, Z], *inside, "l -exit> z", "z > o")
    assert found.answers == ("z",)


def example(made: Services, name: str) -> Voices:
    found = parse((ROOT / "examples" / f"{name}.yaml").read_text())
    return voices(runnable("wf_test", 1, compiled(found, made.plugins)).workflow)


def test_what_a_guardrail_checks_does_not_speak(made: Services) -> None:
    assert example(made, "guardrail").speakers == {"question", "answer"}
    checks = [{"kind": "max_length", "limit": 9}]
    by_template = [
        ("a", "agent", ECHO),
        ("between", "set", {"values": {"x": 1}}),
        ("g", "guardrail", {"checks": checks, "input": "{{ blocks.a.content }}"}),
    ]
    assert heard(made, by_template, "start > a", "a > between", "between > g").speakers == {"g"}


def test_a_guardrail_hands_on_what_others_said_and_never_what_was_asked(made: Services) -> None:
    assert example(made, "guardrail").relays == {"answer"}
    checks = [{"kind": "max_length", "limit": 9}]
    blocks = [A, ("g", "guardrail", {"checks": checks}), ("h", "guardrail", {"checks": checks}), Z]
    found = heard(made, blocks, "start > a", "a > g", "g -true> h", "h -true> z")
    assert (found.speakers, found.relays) == ({"h", "z"}, {"g", "h"})


def test_the_jurys_composites_and_its_foreman_speak(made: Services) -> None:
    assert example(made, "jury") == Voices(frozenset({"discussion", "ballot", "foreman"}), ("foreman",), None)


def test_blocks_of_a_child_speak_by_their_paths(made: Services) -> None:
    inner = document([("in", "agent", ECHO)], "start > in")
    child = made.store.workflows.save(inner, "inner")
    made.store.workflows.deploy(child)
    outer = document([("sub", "workflow", {"workflow": child})], "start > sub")
    saved = made.store.workflows.save(outer, "outer")
    made.store.workflows.deploy(saved)
    found = voices(Catalog(made).find(saved).workflow)
    assert found == Voices(frozenset({"sub/in"}), ("sub/in",), None)
    read = [("sub", "workflow", {"workflow": child}), ("r", "response", {"body": "{{ blocks.sub.content }}"})]
    made.store.workflows.save(document(read, "start > sub", "sub > r"), "outer", saved)
    made.store.workflows.deploy(saved)
    assert voices(Catalog(made).find(saved).workflow).answers == ("sub/in",)
