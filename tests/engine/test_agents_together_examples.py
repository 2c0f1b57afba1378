"""The examples of sequences and routers; that of debates and votes has a file of its own (``test_jury``)."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from app import events as ev
from app.workflows.document import parse
from tests.support.engine import Recorder, services
from tests.support.graphs import ended
from tests.support.shared import ROOT


def played(folder: Path, name: str, message: str) -> tuple[t.Any, Recorder]:
    document = parse((ROOT / "examples" / f"{name}.yaml").read_text())
    with services(folder) as made:
        return ended(made, document, {"message": message})


def test_each_agent_works_on_what_the_one_before_has_answered(tmp_path: Path) -> None:
    end, _ = played(tmp_path, "sequential", "tea")
    assert end.output["content"] == "A short article about tea. (Writer had: An article about tea.)"


@pytest.mark.parametrize(
    ("message", "routes", "answer"),
    [
        (
            "My invoice is wrong",
            ["short", "billing"],
            "Billing will look at it. (It mentions an invoice.)",
        ),
        ("Hello", ["short", "other"], "How can I help? (It does not mention an invoice.)"),
        ("Hello " * 50, ["long"], "Please say it in fewer words."),
    ],
)
def test_messages_go_where_they_belong(tmp_path: Path, message: str, routes: list[str], answer: str) -> None:
    end, recorder = played(tmp_path, "router", message)
    assert [e.route for e in recorder.of(ev.RouteChosen)] == routes
    assert end.output["content"] == answer
