"""Workflows inside workflows, with tools and a judge, stopped at every switch point: what began has ended, once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app import events as ev
from app.engine.services import Services
from tests.engine.flows import document, save, start_saved
from tests.engine.switches import cancelled_at
from tests.streams.generate import violations
from tests.support.engine import Recorder, services

SCRIPTS = {
    "speaks": "turns: [{steps: [{text: hm}, {tool_call: {name: clock, arguments: {}}}]}, {steps: [{text: 'yes'}]}]",
    "judge": """turns: [{steps: [{text: '{"reason": "fine", "passed": true}'}]}]""",
}
INNER = document(
    [
        ("call", "tool", {"tool": "calculator", "arguments": {"expression": "6*7"}}),
        ("say", "agent", {"model": "scripted/speaks", "tools": ["clock"]}),
        (
            "guard",
            "guardrail",
            {"checks": [{"kind": "model", "model": "scripted/judge", "instruction": "x"}]},
        ),
    ],
    "start > call",
    "call > say",
    "say > guard",
)
OUTER = document(
    [
        ("all", "parallel", {"items": [1, 2]}),
        ("sub", "workflow", {"workflow": "inner", "retries": 1, "timeout_s": 60}),
    ],
    "start > all",
    "all -loop> sub",
    "sub > all",
)


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Services]:
    for name, text in SCRIPTS.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    with services(tmp_path / "data", {"STUDIO_SCRIPTS_DIR": str(tmp_path)}) as opened:
        save(opened, inner=INNER, outer=OUTER)
        yield opened


def stopped_at(made: Services, point: int) -> tuple[Recorder, int]:
    """A run that is asked to stop at the given switch; also how many switches there were."""
    run, recorder, count = cancelled_at(lambda: start_saved(made, "outer"), {point: "stop_requested"})
    assert not run.scope.greenlets
    row = made.store.runs.get(run.id)
    assert row is not None
    assert all(block["status"] != "running" for block in row["blocks"])
    return recorder, count


def test_stopped_at_every_switch_point(made: Services) -> None:
    stopped_at(made, 0)  # imports and caches warm, so that the switch points repeat
    recorder, count = stopped_at(made, 0)
    end = recorder.envelopes[-1].event
    assert isinstance(end, ev.RunCompleted)
    assert [result["content"] for result in end.output["results"]] == ["yes", "yes"]
    cancelled = 0
    for point in range(1, count + 1):
        recorder, _ = stopped_at(made, point)
        assert violations(recorder.envelopes) == []
        starts = sorted(e.id for e in recorder.of(ev.ToolStarted))
        assert starts == sorted(e.id for e in recorder.of(ev.ToolFinished))
        cancelled += isinstance(recorder.envelopes[-1].event, ev.RunCancelled)
    assert cancelled > count // 3
