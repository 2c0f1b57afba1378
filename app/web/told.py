"""What can be told of a run, wherever it is found: what it said, and what a surface has to know of its workflow.

Law of this room: values only; who may hear it is decided elsewhere.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from app import events as ev
from app.engine.catalog import Catalog
from app.engine.envelopes import unpacked
from app.engine.rebuilt import rebuilt
from app.engine.retained import EndedRun, KeptRun
from app.engine.run import Run
from app.engine.run_log import RunLog
from app.errors import ApiError
from app.streams.voices import Voices, voices
from app.web.held import Held, PausedRun
from app.workflows.compiled import AGENT, CompiledWorkflow
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
    workflow_id: str
    run: Run | EndedRun | PausedRun
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
        asked.workflow_id,
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
        row["workflow_id"],
        EndedRun(log),
        row["thread_id"] or "",
        None,
        agents if workflow is None else workflow.answer_agents(),
        lambda: Voices(frozenset(agents), agents, None) if workflow is None else voices(workflow),
        workflow,
    )


def of_stored_log(row: Mapping[str, t.Any], catalog: Catalog, store: Store, held: Held) -> Told | None:
    """A durable run that has ended, or waits for people, from the log that was stored of it; None where that is gone,
    or lacks its end.

    :param row: as ``store.runs.get`` gives it. :param held: where readers of a paused one wait.
    """
    log = RunLog()
    for batch in store.durable.log(row["id"]):
        for envelope in unpacked(batch.data):
            log.append(envelope)
    last = log.after(log.last - 1, 1)
    if not last or (row["ended_at"] is not None and not isinstance(last[0].event, ev.Terminal)):
        return None
    workflow = _workflow(row, catalog)
    agents = tuple(info.id for info in _blocks(log) if info.type == AGENT)
    return Told(
        row["id"],
        row["workflow_id"],
        EndedRun(log) if row["ended_at"] is not None else PausedRun(row["id"], log, held),
        row["thread_id"] or "",
        selected(row["origin"]),
        agents if workflow is None else workflow.answer_agents(),
        lambda: Voices(frozenset(agents), agents, None) if workflow is None else voices(workflow),
        workflow,
    )


def selected(origin: Mapping[str, t.Any] | None) -> tuple[Selection, ...] | None:
    """What the starter of a durable run selected."""
    found = (origin or {}).get("selections")
    return None if found is None else tuple(Selection(block, tuple(path)) for block, path in found)


def _blocks(log: RunLog) -> t.Sequence[ev.BlockInfo]:
    if log.base is not None:
        return tuple(log.base.infos.values())
    first = log.after(0, 1)[0].event
    return first.blocks if isinstance(first, ev.RunStarted) else ()


def _workflow(row: Mapping[str, t.Any], catalog: Catalog) -> CompiledWorkflow | None:
    """What was run, where it is still stored and can still be run; a draft may be another one by now."""
    if row["version"] is None and not catalog.unversioned(row["workflow_id"]):
        return None
    try:
        return catalog.find(row["workflow_id"], row["version"]).workflow
    except ApiError:
        return None
