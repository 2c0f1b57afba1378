"""Small workflows for tests of the engine: written as lines, run to their end, stopped in the middle."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from app import events as ev
from app.engine.catalog import Catalog
from app.engine.recompiled import compiled
from app.engine.registry import Run, RunRequest
from app.engine.services import Services
from app.errors import ValidationFailed
from tests.support.engine import Recorder, start


def edge(text: str) -> dict[str, str]:
    """``a -handle> b`` or ``a > b``."""
    left, target = (part.strip() for part in text.split(">"))
    source, _, handle = left.partition(" -")
    return {"source": source.strip(), "target": target, **({"source_handle": handle} if handle else {})}


def document(blocks: list[tuple[str, str, dict[str, t.Any]]], *edges: str, **more: t.Any) -> dict[str, t.Any]:
    """A document of a start block and ``(id, type, config)`` blocks."""
    placed = [{"id": name, "type": kind, "config": config} for name, kind, config in blocks]
    return {
        "name": "test",
        "blocks": [{"id": "start", "type": "start"}, *placed],
        "edges": [edge(text) for text in edges],
        **more,
    }


def ended(made: Services, doc: Mapping[str, t.Any], given: t.Any = None) -> tuple[t.Any, Recorder]:
    """The terminal of a run, and all that came before."""
    run, recorder = start(made, doc, given)
    assert run.done.wait(60)
    return recorder.envelopes[-1].event, recorder


def stopped(run: Run, recorder: Recorder) -> ev.RunCancelled:
    """Stop a run; it ends once, and last."""
    assert run.cancel("stop_requested")
    assert run.done.wait(60)
    ends = [e.event for e in recorder.envelopes if isinstance(e.event, ev.Terminal)]
    assert ends == [recorder.envelopes[-1].event]
    assert isinstance(ends[0], ev.RunCancelled)
    return ends[0]


def finished(recorder: Recorder) -> list[tuple[str, str, int]]:
    """(block, status, execution) of every block that ended, in order."""
    return [(e.block, e.status, e.execution) for e in recorder.of(ev.BlockFinished)]


def stored(made: Services, run: Run) -> dict[str, dict[str, t.Any]]:
    """The stored block log of a run, by block."""
    row = made.store.runs.get(run.id)
    assert row is not None
    return {block["block"]: block for block in row["blocks"]}


def problems(made: Services, doc: dict[str, t.Any]) -> dict[str, str]:
    """What is wrong with a document, by path."""
    try:
        compiled(doc, made.plugins)
    except ValidationFailed as failed:
        return {problem.path: problem.message for problem in failed.details}
    return {}


def save(made: Services, **documents: dict[str, t.Any]) -> None:
    """Store and deploy documents under their ids, in order."""
    for name, doc in documents.items():
        made.store.workflows.save(doc, str(doc["name"]), name)
        made.store.workflows.deploy(name)


def start_saved(made: Services, workflow: str, given: t.Any = None, **options: t.Any) -> tuple[Run, Recorder]:
    """Start a run of a stored workflow's live version, as surfaces do."""
    found = Catalog(made).find(workflow)
    request = RunRequest(
        run_id=made.clock.new_id("run"),
        workflow_id=found.workflow_id,
        version=found.version,
        workflow=found.workflow,
        input={"message": "hi"} if given is None else given,
        timeout_s=options.pop("timeout_s", found.workflow.settings.timeout_s),
        show_thinking=True,
        **options,
    )
    recorder = Recorder()
    return made.runs.start(request, (recorder,)), recorder


def ended_saved(made: Services, workflow: str, given: t.Any = None) -> tuple[t.Any, Recorder]:
    """The terminal of a run of a stored workflow, and all that came before."""
    run, recorder = start_saved(made, workflow, given)
    assert run.done.wait(60)
    return recorder.envelopes[-1].event, recorder
