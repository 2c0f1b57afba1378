"""What can be told of a run, wherever it is found: what it said, and what a surface has to know of its workflow.

Law of this room: values only; who may hear it is decided elsewhere.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from app.engine.rebuilt import rebuilt
from app.engine.retained import EndedRun, KeptRun
from app.engine.run import Run
from app.errors import ApiError
from app.streams.voices import Voices, voices
from app.web.catalog import Catalog
from app.workflows.compiled import CompiledWorkflow
from app.workflows.selectors import Selection

if t.TYPE_CHECKING:
    from app.store import Store


@dataclass(frozen=True, slots=True)
class Told:
    """See the module.

    :ivar run: who tells: the run itself, or what is left of it.
    :ivar thread_id: empty for a run in no thread.
    :ivar selections: what the starter selected; None for nothing, and where nobody knows any more.
    :ivar answers: agents whose output reaches the run's output.
    :ivar workflow: what was run; None where nobody knows any more.
    """

    run_id: str
    run: Run | EndedRun
    thread_id: str
    selections: tuple[Selection, ...] | None
    answers: tuple[str, ...]
    voices: Callable[[], Voices]
    workflow: CompiledWorkflow | None


def of_run(run: Run | KeptRun) -> Told:
    """A run that is live in this process, or has ended and is still kept."""
    asked = run.request
    workflow = asked.workflow
    return Told(
        asked.run_id,
        run,
        asked.thread_id or "",
        asked.selections,
        workflow.answer_agents(),
        lambda: voices(workflow),
        workflow,
    )


def of_record(row: Mapping[str, t.Any], catalog: Catalog, store: Store) -> Told:
    """A run that has ended, from its record.

    :param row: as ``store.runs.get`` gives it.
    """
    workflow = _workflow(row, catalog)
    thread = None if row["thread_id"] is None else store.threads.get(row["thread_id"])
    pinned = thread.pinned if thread is not None and thread.run_id == row["id"] else None
    log = rebuilt(row, () if workflow is None else workflow.infos(), pinned)
    agents = tuple(block["block"] for block in row["blocks"] if block["type"] == "agent")
    return Told(
        row["id"],
        EndedRun(log),
        row["thread_id"] or "",
        None,
        agents if workflow is None else workflow.answer_agents(),
        lambda: Voices(frozenset(agents), agents, None) if workflow is None else voices(workflow),
        workflow,
    )


def _workflow(row: Mapping[str, t.Any], catalog: Catalog) -> CompiledWorkflow | None:
    """What was run, where it is still stored and can still be run."""
    try:
        return catalog.find(row["workflow_id"], row["version"]).workflow
    except ApiError:
        return None
