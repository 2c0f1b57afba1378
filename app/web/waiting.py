"""A caller who waits for a run's answer in one piece of JSON.

Law of this room: it counts as a reader, so that its leaving is noticed and means what the workflow says.
"""

from __future__ import annotations

import typing as t

import gevent
from flask import Response, request

from app import events as ev
from app.engine.envelopes import unpacked
from app.engine.rebuilt import rebuilt
from app.streams.final import RUNS_URL
from app.web.answer import answer_body, paused_body
from app.web.http import json_response
from app.web.watch import watch_request

if t.TYPE_CHECKING:
    from app.engine.retained import KeptRun
    from app.engine.run import Run
    from app.store import Store
    from app.streams.final import Selection
    from app.streams.rights import Rights


#: Seconds between looks for how a run that another process carries stands.
LOOK_S = 0.1
_GOES_ON = ("queued", "running")


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


def answer_of(
    run: Run,
    reader: object,
    selections: t.Sequence[Selection] | None,
    rights: Rights,
    runs_url: str = RUNS_URL,
) -> Response:
    """The answer to the current request, once the run has ended, pauses, or goes on in another process.

    :param reader: counted as one of the run's already. :param runs_url: where the caller finds runs.
    """
    if not waited(run, reader):
        return nobody()
    if run.ending is not None:
        return _ended(run.id, run.ending, selections, rights)
    if run.paused is not None:
        asked = run.state.decisions.values()
        thread = run.request.thread_id or ""
        body = paused_body(run.id, thread, run.paused, asked, selections, rights, runs_url)
        return Response(body, content_type="application/json", headers={"X-Run-Id": run.id})
    return goes_on(run.id, runs_url)


def answer_kept(run: KeptRun, rights: Rights, runs_url: str = RUNS_URL) -> Response:
    """The answer of a run that has ended in this process."""
    asked, end = run.request, run.log.after(run.log.last - 1, 1)[0].event
    if not isinstance(end, ev.Terminal):
        return goes_on(asked.run_id, runs_url)
    return _ended(asked.run_id, end, asked.selections, rights)


def _ended(
    run_id: str, end: ev.Terminal, selections: t.Sequence[Selection] | None, rights: Rights
) -> Response:
    body = answer_body(run_id, end, selections, rights)
    return Response(body, content_type="application/json", headers={"X-Run-Id": run_id})


def waited_elsewhere(store: Store, run_id: str) -> dict[str, t.Any] | None:
    """Wait until a run that another process carries has ended or pauses; its row then, or None when the caller has
    left. It is no reader of the run: nobody there knows of it.
    """
    left: list[bool] = []
    with watch_request(request.environ, lambda: left.append(True)):
        while not left:
            if store.runs.status(run_id) not in _GOES_ON:
                return store.runs.get(run_id)
            gevent.sleep(LOOK_S)
    return None


def answer_elsewhere(
    store: Store,
    run_id: str,
    selections: t.Sequence[Selection] | None,
    rights: Rights,
    runs_url: str = RUNS_URL,
) -> Response:
    """The answer of a run that another process carries, once it has ended or pauses."""
    row = waited_elsewhere(store, run_id)
    if row is None:
        return nobody()
    last = _last(store, row)
    if isinstance(last, ev.RunPaused):
        asked = [
            ev.DecisionRequested(each.path, each.id, each.shown, None, each.expires_at)
            for each in store.decisions.open_of_run(run_id)
        ]
        thread = row["thread_id"] or ""
        body = paused_body(run_id, thread, last, asked, selections, rights, runs_url)
        return Response(body, content_type="application/json", headers={"X-Run-Id": run_id})
    if isinstance(last, ev.Terminal):
        return _ended(run_id, last, selections, rights)
    return goes_on(run_id, runs_url)


def _last(store: Store, row: t.Mapping[str, t.Any]) -> ev.RunEvent | None:
    """What a durable run said last: of one that has ended, its end."""
    batches = store.durable.log(row["id"], store.durable.last(row["id"]) - 1)
    said = unpacked(batches[-1].data)[-1].event if batches else None
    if row["ended_at"] is None or isinstance(said, ev.Terminal):
        return said
    (end,) = rebuilt(row)
    return end.event


def goes_on(run_id: str, runs_url: str = RUNS_URL) -> Response:
    """202: the run goes on without this caller, who may look for it."""
    where = f"{runs_url}/{run_id}"
    response = json_response({"runId": run_id, "statusUrl": where, "eventsUrl": f"{where}/events"}, 202)
    response.headers["X-Run-Id"] = run_id
    return response
