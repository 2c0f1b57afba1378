"""A process that cannot make the workflow of a run that waits for a process: it leaves the run to one that can."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.engine import carrying
from app.engine.services import Services
from tests.support.engine import services, start
from tests.support.graphs import graph

ASKS = graph(
    [("ask", "approval", {"prompt": "Go?", "draft": "x"}), ("z", "set", {"values": {"x": 1}})],
    "start > ask",
    "ask -approved> z",
)


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Services]:
    with services(tmp_path) as opened:
        yield opened


@pytest.fixture
def answered(made: Services) -> str:
    """A run that was paused, and then answered in a process that lacks a type of its blocks, as this one does."""
    run, _ = start(made, ASKS)
    assert run.done.wait(20)
    assert made.store.runs.status(run.id) == "paused"
    assert made.runs.obstacle(run.id) is None
    (asked,) = made.store.decisions.open_of_run(run.id)
    won, _ = made.store.decisions.answer(asked.id, {"decision": "approve"}, "somebody")
    assert won
    return run.id


def test_it_is_left_until_it_can_be_made(
    made: Services, answered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    types = made.plugins.block_types
    monkeypatch.setattr(carrying, "LOOK_S", 0.0)
    with monkeypatch.context() as lacking:
        lacking.delitem(types, "set")  # type: ignore[arg-type]  # a mapping that is a dict
        assert "set" in (made.runs.obstacle(answered) or "")
        assert made.runs.go_on(answered) is None
        assert made.store.runs.status(answered) == "paused"
    run = made.runs.go_on(answered)
    assert run is not None
    assert run.done.wait(20)
    assert made.store.runs.status(answered) == "completed"


def test_it_fails_when_nobody_took_it_for_long(
    made: Services, answered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No run stays open for ever (contract 7.4)."""
    monkeypatch.delitem(made.plugins.block_types, "set")  # type: ignore[arg-type]  # a mapping that is a dict
    monkeypatch.setattr(carrying, "LEAVE_S", 0.0)
    run = made.runs.go_on(answered)
    assert run is not None
    assert run.done.wait(20)
    row = made.store.runs.get(answered)
    assert row is not None
    assert (row["status"], row["error"]["code"]) == ("failed", "resume_failed")
    assert "has ended" not in row["error"]["message"]
