"""A caller who waits for a run's answer in one piece of JSON.

Law of this room: it counts as a reader, so that its leaving is noticed and means what the workflow says.
"""

from __future__ import annotations

import typing as t

from flask import Response, request

from app import events as ev
from app.engine.rebuilt import rebuilt
from app.web.answer import answer_body, paused_body
from app.web.http import json_response
from app.web.watch import watch_request

if t.TYPE_CHECKING:
    from app.engine.run import Run
    from app.store import Store
    from app.streams.final import Selection
    from app.streams.rights import Rights


def waited(run: Run, reader: object) -> bool:
    """Wait until the run has ended, pauses, or leaves this process; whether the caller is still there.

    :param reader: counted as one of the run's; it leaves with the caller.
    """
    left: list[bool] = []

    def leave() -> None:
        left.append(True)
        run.reader_gone(reader)

    with watch_request(request.environ, leave):
        run.done.wait()
    return not left


def nobody() -> Response:
    """The answer to a caller who has left: the status is for the access log (contract 11)."""
    return Response(status=499)


def answer_of(run: Run, reader: object, selections: t.Sequence[Selection] | None, rights: Rights) -> Response:
    """The answer to the current request, once the run has ended, pauses, or goes on in another process.

    :param reader: counted as one of the run's already.
    """
    if not waited(run, reader):
        return nobody()
    if run.ending is not None:
        body = answer_body(run.id, run.ending, selections, rights)
    elif run.paused is not None:
        asked = run.state.decisions.values()
        body = paused_body(run.id, run.request.thread_id or "", run.paused, asked, selections, rights)
    else:
        return goes_on(run.id)
    response = Response(body, content_type="application/json")
    response.headers["X-Run-Id"] = run.id
    return response


def answer_elsewhere(
    store: Store, run_id: str, selections: t.Sequence[Selection] | None, rights: Rights
) -> Response:
    """The answer of a run that this process does not carry: from its record if it has ended, else 202."""
    row = store.runs.get(run_id)
    if row is None or row["ended_at"] is None:
        return goes_on(run_id)
    (end,) = rebuilt(row)
    body = answer_body(run_id, t.cast(ev.Terminal, end.event), selections, rights)
    return Response(body, content_type="application/json", headers={"X-Run-Id": run_id})


def goes_on(run_id: str) -> Response:
    """202: the run goes on without this caller, who may look for it."""
    where = f"/api/runs/{run_id}"
    response = json_response({"runId": run_id, "statusUrl": where, "eventsUrl": f"{where}/events"}, 202)
    response.headers["X-Run-Id"] = run_id
    return response
