"""Everything wrong with a document is told at once: one mistake hides no other."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator

import pytest

from app.engine.services import Services
from tests.engine.flows import document, problems
from tests.support.engine import services

ECHO = {"model": "scripted/echo"}
NONE = {"model": "scripted/nothere"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    with services(tmp_path_factory.mktemp("wrong")) as opened:
        yield opened


@pytest.mark.parametrize(
    ("kind", "config", "paths"),
    [
        ("debate", {"participants": [NONE], "rounds": 99}, {"participants", "participants[0].model", "rounds"}),
        (
            "parallel",
            {"branches": ["a", "a", ""], "items": [], "max_concurrency": 0},
            {"", "branches", "branches[2]", "max_concurrency"},
        ),
        (
            "http",
            {"url": "ftp://x", "method": "BREW", "fail_on": ["abc"]},
            {"url", "method", "fail_on[0]"},
        ),
        (
            "vote",
            {"voters": [NONE], "options": ["a", "A"], "quorum": 4, "secret": "yes"},
            {"voters[0].model", "options[1]", "quorum", "secret"},
        ),
        (
            "guardrail",
            {
                "checks": [
                    {"kind": "regex", "pattern": "("},
                    {"kind": "model", "model": "x/y", "instruction": "i"},
                    {"kind": "detector", "detectors": ["none"]},
                ],
                "on_fail": "rout",
            },
            {"checks[0].pattern", "checks[1].model", "checks[2].detectors[0]", "on_fail"},
        ),
        ("sequential", {"agents": [ECHO, {**NONE, "fallbacks": ["nowhere/x"]}], "prompt": 3}, {
            "agents[1].model",
            "agents[1].fallbacks[0]",
            "prompt",
        }),
    ],
)  # fmt: skip
def test_a_wrong_key_hides_no_other(made: Services, kind: str, config: t.Any, paths: set[str]) -> None:
    place = "blocks[1].config"
    found = problems(made, document([("it", kind, config)], "start > it"))
    assert set(found) == {f"{place}.{path}" if path else place for path in paths}


def test_what_is_wrong_with_a_key_is_told_once(made: Services) -> None:
    config = {"kind": "for", "times": 2, "max_iterations": 0}
    found = problems(
        made,
        document([("l", "loop", config), ("a", "set", {"values": {}})], "start > l", "l -loop> a", "a > l"),
    )
    assert set(found) == {"blocks[1].config.max_iterations"}, "the loop is a loop all the same"


def test_a_choice_that_is_nearly_right_names_the_right_one(made: Services) -> None:
    found = problems(
        made,
        document([("v", "vote", {"voters": [ECHO], "options": ["a", "b"], "tie": "frist"})], "start > v"),
    )
    assert found == {
        "blocks[1].config.tie": 'must be one of none | first | random | moderator, not "frist". Did you mean "first"?'
    }


@pytest.mark.parametrize(
    "edges",
    [
        ("start > c", "c -true> l", "c -false> a", "l -loop> a", "a > l"),
        ("start > c", "c -true> l", "l -loop> b", "b > l", "l -exit> a", "a > l"),
    ],
)
def test_a_way_back_that_is_no_loop_says_which_would_be_one(made: Services, edges: tuple[str, ...]) -> None:
    blocks = [
        ("c", "condition", {"expression": "true"}),
        ("l", "loop", {"kind": "for", "times": 1}),
        ("a", "set", {"values": {}}),
        ("b", "set", {"values": {}}),
    ]
    there = {word for edge in edges for word in edge.replace(">", " ").split()}
    found = problems(made, document([block for block in blocks if block[0] in there], *edges))
    (message,) = found.values()
    assert "closes a cycle" in message
    assert message.endswith('lead back to "l" only from blocks that no way leads to but its handle loop')
