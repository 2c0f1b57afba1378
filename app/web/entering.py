"""Letting a run into a thread, for every surface that continues conversations.

Law of this room: the last check before a run is started, so that nothing that is refused takes the thread.
"""

from __future__ import annotations

import typing as t

from app.errors import ApiError, Problem
from app.web.errors import not_found

if t.TYPE_CHECKING:
    from app.engine.services import Services
    from app.store.threads import ThreadRow


def enter(
    services: Services, workflow_id: str, key_id: str | None, thread_id: str | None, run_id: str
) -> ThreadRow:
    """The thread, which this run has now to itself; a new one when none is named.

    :raises ApiError: 404 unknown or somebody else's, 409 ``thread_busy`` another run is in it, 409 ``thread_paused``
        its run waits for people.
    """
    threads = services.store.threads
    if thread_id is None:
        return threads.open(workflow_id, key_id, run_id)
    thread = threads.enter(thread_id, workflow_id, key_id, run_id)
    if thread is None:
        raise not_found("thread", thread_id)
    if thread.run_id != run_id:
        raise taken(services, thread)
    return thread


def taken(services: Services, thread: ThreadRow) -> ApiError:
    """The error for a thread in which another run is, or waits."""
    if thread.paused:
        return _paused(services, thread)
    message = (
        f"The run '{thread.run_id}' is in the thread '{thread.id}'. Wait for its end, or stop it: "
        f"POST /api/threads/{thread.id}/stop"
    )
    return ApiError(409, "thread_busy", message, [Problem("run_id", str(thread.run_id))])


def _paused(services: Services, thread: ThreadRow) -> ApiError:
    run_id = str(thread.run_id)
    asked = services.store.decisions.open_of_run(run_id)
    named = ", ".join(f"'{row.id}'" for row in asked)
    message = (
        f"The thread '{thread.id}' waits for a person to decide{f' ({named})' if named else ''}. Answer first: "
        f"POST /api/runs/{run_id}/resume, or on the graph surface POST /chat/resume"
    )
    details = [Problem("run_id", run_id), *(Problem("pause_id", row.id) for row in asked)]
    return ApiError(409, "thread_paused", message, details)
