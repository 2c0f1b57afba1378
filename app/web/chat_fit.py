"""Whether the chats of a workflow get from its live version what their visitors are to get.

Law of this room: looked at when something has become live, and never in the way of it: what a chat lacks is said, and
the chat is changed by whoever owns it.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterator

from app.engine.catalog import Catalog
from app.errors import ApiError, Problem
from app.schemas.paths import join
from app.web.chat_config import selections_of

if t.TYPE_CHECKING:
    from app.store import Store
    from app.store.chats import ChatRow
    from app.workflows.compiled import CompiledWorkflow

_PAGE = 200
#: Chats that are named; a workflow with more of them that lack something has its owner told often enough.
MOST_TOLD = 50


def lacking(store: Store, catalog: Catalog, workflow_id: str) -> tuple[Problem, ...]:
    """A warning for each chat that is switched on and gets less from the live version than it is to; none where nothing
    is live.
    """
    found: list[Problem] = []
    workflow: CompiledWorkflow | None = None
    for row in _chats(store, workflow_id):
        try:
            workflow = workflow or catalog.find(workflow_id).workflow
        except ApiError:  # taken back in the same moment
            return ()
        if row.active and (problem := _problem(row, workflow)):
            found.append(problem)
            if len(found) == MOST_TOLD:
                break
    return tuple(found)


def _chats(store: Store, workflow_id: str) -> Iterator[ChatRow]:
    after: str | None = None
    while True:
        rows, after = store.chats.list(after, _PAGE, workflow_id)
        yield from rows
        if after is None:
            return


def _problem(row: ChatRow, workflow: CompiledWorkflow) -> Problem | None:
    selections, problems = selections_of(row.outputs, workflow)
    if selections and not problems:
        return None
    if not problems:
        becomes, lacks, at = "has nothing to say", "no agent answers in what is live now", "outputs"
    else:
        becomes = "gives its visitors less than before" if selections else "answers 503 chat_not_ready"
        lacks = "; ".join(problem.message for problem in problems)
        at = problems[0].path
    cure = f"PATCH /api/chats/{row.id} with other outputs, or deploy a version that has them"
    return Problem(f"{join('chats', row.slug)}.{at}", f"the chat '{row.slug}' {becomes}: {lacks}. {cure}")
