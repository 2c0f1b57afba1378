"""``GET /api/threads``, and one of them: its run's end and its pin's.

Law of this room: what does not exist and what is not the caller's give the same answer, whoever asks.
"""

from __future__ import annotations

import re
import typing as t

import gevent
from flask import Blueprint, Flask, Response

from app.clock import rfc3339
from app.errors import Problem, ValidationFailed
from app.store.threads import ThreadRow
from app.web import runs
from app.web.auth import caller
from app.web.errors import not_found
from app.web.http import json_response, read_nothing, services
from app.web.lists import page_of, read_page

#: A run that has entered its thread has a row within milliseconds, unless its client left before it began.
_LOOKS, _LOOK_S = 20, 0.05
_FILTERS = {"workflowId": "workflow_id", "conversationId": "name"}
_CURSOR = re.compile(r"thr_[0-9A-Za-z_]{1,60}")


def index() -> Response:
    """``{items, nextCursor?}``, newest first: all that the caller may read."""
    sent, problems, before, limit = read_page(_CURSOR, *_FILTERS, judge=_empty)
    if problems:
        raise ValidationFailed(problems)
    wanted = {_FILTERS[name]: sent[name] for name in _FILTERS if name in sent}
    who = caller()
    if not who.may("read"):
        wanted["key_id"] = str(who.key_id)
    rows, further = services().store.threads.page(wanted, before, limit)
    return page_of([_body(row) for row in rows], further)


def _empty(sent: t.Mapping[str, str]) -> list[Problem]:
    return [Problem(name, "is empty; leave it out") for name in _FILTERS if sent.get(name) == ""]


def show(thread_id: str) -> Response:
    """Whose run is in it, and where the next one enters."""
    return json_response(_body(readable(thread_id)))


def stop(thread_id: str) -> Response:
    """Ask the run that is in the thread to stop; 202 at once, whether or not it still could."""
    row = mine(thread_id)
    run_id = str(row.run_id)
    run, record = runs.find(run_id)
    for _ in range(_LOOKS):
        if record is not None or not row.busy(services().clock.now_ms()):
            break
        gevent.sleep(_LOOK_S)
        run, record = runs.find(run_id)
    if record is None:
        return json_response({"outcome": "already_finished", "status": "cancelled"}, 202)
    return runs.stop(run_id, run, record["status"])


def release(thread_id: str) -> Response:
    """Let the next message enter at the start, whatever an agent wants that runs meanwhile."""
    row = mine(thread_id)
    services().store.threads.release(row.id)
    found = services().store.threads.get(row.id)
    return json_response(_body(row if found is None else found))


def readable(thread_id: str) -> ThreadRow:
    """The thread, if this caller may see it.

    :raises ApiError: 404.
    """
    row = services().store.threads.get(thread_id)
    if row is None or not caller().reads(row.key_id):
        raise not_found("thread", thread_id)
    return row


def mine(thread_id: str) -> ThreadRow:
    """The thread, if this caller may act on it.

    :raises ApiError: 404. :raises ValidationFailed: the call came with a body.
    """
    read_nothing()
    row = services().store.threads.get(thread_id)
    if row is None or not runs.may_stop(caller(), {"key_id": row.key_id}):
        raise not_found("thread", thread_id)
    return row


def _body(row: ThreadRow) -> dict[str, t.Any]:
    """What the API says of a thread; ``pauseIds``: what has to be decided before it goes on."""
    asked = services().store.decisions.open_of_run(str(row.run_id)) if row.paused else ()
    busy = "running" if row.busy(services().clock.now_ms()) else "idle"
    body: dict[str, t.Any] = {
        "threadId": row.id,
        "workflowId": row.workflow_id,
        "conversationId": row.name,
        "status": "paused" if row.paused else busy,
        "runId": row.run_id,
        "runStatus": row.run_status,
        "pauseIds": [decision.id for decision in asked] or None,
        "pinnedNode": row.pinned,
        "createdAt": rfc3339(row.created_at),
    }
    return {name: value for name, value in body.items() if value is not None}


def install(app: Flask) -> None:
    """Put the routes on ``app``."""
    blueprint = Blueprint("threads", __name__)
    blueprint.add_url_rule("/api/threads", view_func=index)
    blueprint.add_url_rule("/api/threads/<thread_id>", view_func=show)
    blueprint.add_url_rule("/api/threads/<thread_id>/stop", view_func=stop, methods=["POST"])
    blueprint.add_url_rule("/api/threads/<thread_id>/release", view_func=release, methods=["POST"])
    app.register_blueprint(blueprint)
