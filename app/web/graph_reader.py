"""A reader of a run as graph events, whoever started it and on whatever surface.

Law of this room: values in, a projection out; who may read is judged before.
"""

from __future__ import annotations

import typing as t

from app.clock import trace_id_of
from app.streams.chat_response import Turn
from app.streams.graph_events import GraphEvents, GraphEventsOptions
from app.streams.topology import topology

if t.TYPE_CHECKING:
    from app.store import Store
    from app.streams.rights import Rights
    from app.workflows.compiled import CompiledWorkflow


def graph_events(
    store: Store, run_id: str, thread_id: str, workflow: CompiledWorkflow | None, rights: Rights
) -> GraphEvents:
    """The projection of a run.

    :param thread_id: empty for a run in no thread. :param workflow: None where it is not stored any more.
    """
    index = store.threads.turns_before(thread_id, run_id) if thread_id else 0
    turn = Turn(run_id, thread_id, trace_id_of(run_id), index)
    drawn = None if workflow is None else topology(workflow, rights)
    return GraphEvents(GraphEventsOptions(turn, drawn, rights))
