"""``GET`` and ``DELETE /api/runs/{id}``, and ``POST /api/runs/{id}/cancel``.

Law of this room: what does not exist and what is not the caller's give the same answer. A run that is
carried by this process is asked itself; any other is read from the store.
"""

from __future__ import annotations

import logging
import typing as t

from flask import Blueprint, Flask, Response

from app import encoding
from app.errors import ApiError
from app.store.errors import StoreFailed
from app.store.retention import RunStays
from app.streams import references
from app.web import audit
from app.web.auth import Caller, caller, credential
from app.web.errors import not_found
from app.web.http import json_response, read_nothing, services
from app.web.record import referring, resume_block, run_body

if t.TYPE_CHECKING:
    from app.engine.registry import Run

log = logging.getLogger("studio.runs")

_LIVE = ("queued", "running", "paused")


def show(run_id: str) -> Response:
    """The run's record. The vendor's own words on an error are for scope ``read`` only."""
    who = caller()
    reads_all = who.may("read")
    _, row = find(run_id)
    if row is None or not who.reads(row["key_id"]):
        raise not_found("run", run_id)
    body = run_body(row, details=reads_all)
    if row["status"] == "paused":
        body["resume"] = resume_block(row, services().store.decisions.open_of_run(run_id))
    encoded = encoding.dumps(body)
    if len(encoded) > references.VALUE_LIMIT:
        encoded = encoding.dumps(referring(body))
    return Response(encoded, content_type="application/json")


def value(run_id: str, ref: str) -> Response:
    """A value of a run for which a reference was given in its place."""
    _, row = find(run_id)
    if row is None or not caller().reads(row["key_id"]):
        raise not_found("run", run_id)
    path = references.read(ref)
    found, wanted = (False, None) if path is None else references.follow(run_body(row, details=False), path)
    if not found:
        raise not_found("value", ref)
    return json_response(wanted)


def cancel(run_id: str) -> Response:
    """Ask the run to stop; 202 at once, whether or not it still could."""
    read_nothing()
    run, row = find(run_id)
    if row is None or not may_stop(caller(), row):
        raise not_found("run", run_id)
    return stop(run_id, run, row["status"])


def remove(run_id: str) -> Response:
    """Delete a run that has ended, with all that is kept of it: 204."""
    read_nothing()
    _, row = find(run_id)
    if row is None or not may_stop(caller(), row):
        raise not_found("run", run_id)
    details = {"workflowId": row["workflow_id"]}
    note = audit.note(audit.told("run.delete", f"run:{run_id}", details))
    try:
        removed = services().store.retention.forget(run_id, note)
    except RunStays as stays:
        raise ApiError(409, stays.code, stays.message) from None
    if not removed:
        raise not_found("run", run_id)
    services().runs.forget(run_id)
    return Response(status=204)


def stop(run_id: str, run: Run | None, status: str) -> Response:
    """Ask a run to stop, whichever process carries it: one of another process sees the wish in the store.

    :param run: it, when this process carries it. :param status: as it was found.
    """
    if status in _LIVE:
        if _accepted(run_id, run):
            return json_response({"outcome": "accepted", "status": status}, 202)
        ended = services().store.runs.get(run_id)  # it has, since it was found
        status = status if ended is None else ended["status"]
    return json_response({"outcome": "already_finished", "status": status}, 202)


def _accepted(run_id: str, run: Run | None) -> bool:
    """Whether a run will end that was asked to; False: it has ended by itself."""
    if run is not None and run.durable is None:
        run.cancel("stop_requested")
        return True
    # Stored first: a durable run ends then also if this process goes before it has.
    if not services().store.runs.request_stop(run_id):
        return False
    if run is not None:
        run.cancel("stop_requested")
    elif services().store.runs.status(run_id) == "paused":
        try:
            services().runs.stop(run_id)
        except StoreFailed:
            log.exception("run %s is to end and could not be taken up at once", run_id)
    return True


def may_stop(who: Caller, row: t.Mapping[str, t.Any]) -> bool:
    """Whether a caller may stop what this row's key has started."""
    return who.owns(row["key_id"]) or (credential().own == "only" and who.may("admin"))


def find(run_id: str) -> tuple[Run | None, dict[str, t.Any] | None]:
    """The run if this process carries it, and its row."""
    run = carried(run_id)
    if run is not None:
        return run, run.record()
    return None, services().store.runs.get(run_id)


def carried(run_id: str) -> Run | None:
    """The run, if this process carries it; one that leaves it is found in the store."""
    run = services().runs.get(run_id)
    return None if run is None or run.leaves else run


def install(app: Flask) -> None:
    """Put the routes on ``app``."""
    blueprint = Blueprint("runs", __name__)
    blueprint.add_url_rule("/api/runs/<run_id>", view_func=show)
    blueprint.add_url_rule("/api/runs/<run_id>", view_func=remove, methods=["DELETE"])
    blueprint.add_url_rule("/api/runs/<run_id>/values/<ref>", view_func=value)
    blueprint.add_url_rule("/api/runs/<run_id>/cancel", view_func=cancel, methods=["POST"])
    app.register_blueprint(blueprint)
