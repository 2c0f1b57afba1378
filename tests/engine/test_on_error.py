"""``on_error: continue``: by which way a block that failed goes on, and which blocks have none."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from app import events as ev
from app.engine.services import Services
from tests.engine.flows import document, ended, finished, problems
from tests.support.engine import services

pytestmark = pytest.mark.leak_check

FAILS: dict[str, t.Any] = {"model": "scripted/error-before", "retries": 0}
SET = {"values": {"why": "{{ blocks.it.code }}"}}


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Services]:
    with services(tmp_path) as opened:
        yield opened


def test_an_agent_goes_on_by_its_plain_edge(made: Services) -> None:
    doc = document(
        [("it", "agent", {**FAILS, "on_error": "continue"}), ("z", "set", SET)], "start > it", "it > z"
    )
    end, recorder = ended(made, doc)
    assert isinstance(end, ev.RunCompleted)
    assert end.success is True
    assert end.output == {"why": "provider_overloaded"}
    assert finished(recorder)[1:] == [("it", "failed", 1), ("z", "executed", 1)]


def test_a_loop_goes_on_by_its_exit(made: Services) -> None:
    loop = {"kind": "for", "times": 2, "on_error": "continue"}
    doc = document(
        [("it", "loop", loop), ("a", "agent", FAILS), ("z", "set", SET)],
        "start > it",
        "it -loop> a",
        "a > it",
        "it -exit> z",
    )
    end, recorder = ended(made, doc)
    assert isinstance(end, ev.RunCompleted)
    assert end.output == {"why": "provider_overloaded"}
    assert finished(recorder)[1:] == [("a", "failed", 1), ("it", "failed", 1), ("z", "executed", 1)]


CHOOSE: dict[str, dict[str, t.Any]] = {
    "condition": {"expression": "true"},
    "router": {"mode": "expression", "routes": [{"name": "a"}]},
    "guardrail": {"checks": [{"kind": "max_length", "limit": 9}]},
}
WAYS = {"condition": "true", "router": "route:a", "guardrail": "true"}


@pytest.mark.parametrize("kind", CHOOSE)
def test_what_chooses_a_way_needs_an_error_edge(made: Services, kind: str) -> None:
    blocks = [("it", kind, {**CHOOSE[kind], "on_error": "continue"}), ("z", "set", SET), ("y", "set", SET)]
    edges = ("start > it", f"it -{WAYS[kind]}> z")
    found = problems(made, document(blocks[:2], *edges))
    assert set(found) == {"blocks[1].config.on_error"}
    assert "source_handle error" in found["blocks[1].config.on_error"]
    assert problems(made, document(blocks, *edges, "it -error> y")) == {}


@pytest.mark.parametrize(
    ("config", "handle"),
    [({"branches": ["a"]}, "loop"), ({"branches": ["a"]}, "branch:b"), ({"items": [1]}, "branch:a")],
)
def test_a_way_that_is_never_taken_is_refused(made: Services, config: dict[str, t.Any], handle: str) -> None:
    real = "loop" if "items" in config else "branch:a"
    back = ["a > p"] if "items" in config else []
    blocks = [("p", "parallel", config), ("a", "set", SET), ("b", "set", SET)]
    found = problems(made, document(blocks, "start > p", f"p -{handle}> b", f"p -{real}> a", *back))
    assert set(found) == {"edges[1].source_handle"}
    assert real in found["edges[1].source_handle"]
