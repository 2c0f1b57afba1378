"""``GET /api/runs``: runs, newest first, page by page.

Law of this room: a key without scope ``read`` sees its own runs and cannot tell that there are others. A run
that this process carries is asked itself, since its row may not be written yet.
"""

from __future__ import annotations

import re
import typing as t

from flask import Blueprint, Flask, Response

from app.events import RunStatus
from app.store.run_list import RunFilter
from app.web.auth import caller
from app.web.http import services
from app.web.lists import page_of, read_filtered
from app.web.record import resume_block, run_summary

if t.TYPE_CHECKING:
    from app.engine.registry import Run

STATUSES = ("running", "paused", *t.get_args(RunStatus))

_FILTERS = {
    "status": "status",
    "workflowId": "workflow_id",
    "conversationId": "conversation_id",
    "threadId": "thread_id",
}
CURSOR = re.compile(r"run_[0-9A-Za-z_]{1,60}")


def index() -> Response:
    """``{items, nextCursor?}``; see :func:`app.web.record.run_summary` for an item."""
    who = caller()
    reads_all = who.may("read")
    wanted, before, limit = _read(None if reads_all else who.key_id)
    # The live ones first: a run that ends meanwhile is in one of both.
    live = {run.id: run for run in services().runs.live()}
    rows, next_cursor = services().store.run_list.page(wanted, before, limit)
    found: dict[str, t.Any] = {row["id"]: row for row in rows if row["id"] not in live}
    found |= {
        run.id: run
        for run in live.values()
        if _matches(run, wanted) and (next_cursor or "") <= run.id < (before or "z")
    }
    newest_first = sorted(found, reverse=True)
    if len(newest_first) > limit:
        del newest_first[limit:]
        next_cursor = newest_first[-1]
    items = [
        _summary(live[name].record() if name in live else found[name], reads_all) for name in newest_first
    ]
    return page_of(items, next_cursor)


def _summary(row: t.Mapping[str, t.Any], details: bool) -> dict[str, t.Any]:
    body = run_summary(row, details=details)
    if row["status"] == "paused":
        body["resume"] = resume_block(row, services().store.decisions.open_of_run(row["id"]))
    return body


def _read(key_id: str | None) -> tuple[RunFilter, str | None, int]:
    """The query: which runs, after which one, how many.

    :raises ValidationFailed: with everything that is wrong with it.
    """
    chosen, before, limit = read_filtered(CURSOR, _FILTERS, STATUSES)
    return RunFilter(key_id, **chosen), before, limit


def _matches(run: Run, wanted: RunFilter) -> bool:
    request = run.request
    return (
        wanted.status in (None, "running")
        and wanted.key_id in (None, request.key_id)
        and wanted.workflow_id in (None, request.workflow_id)
        and wanted.conversation_id in (None, request.conversation_id)
        and wanted.thread_id in (None, request.thread_id)
    )


def install(app: Flask) -> None:
    """Put the route on ``app``."""
    blueprint = Blueprint("run_list", __name__)
    blueprint.add_url_rule("/api/runs", view_func=index)
    app.register_blueprint(blueprint)
