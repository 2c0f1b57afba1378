"""``/api/decisions``: what runs ask people, answers to it, and links for those who have no key.

Law of this room: what does not exist and what is not the caller's give the same answer. A key reads what it may read of
runs, and answers where it may stop the run: a key with ``run`` those it started, ``admin`` all. Of a run that nobody's
key started, only ``admin`` can.
"""

from __future__ import annotations

import re
import typing as t

from flask import Blueprint, Flask, Response, request

from app.clock import rfc3339
from app.errors import Problem, ValidationFailed
from app.schemas.answers import STATUSES, AnswerBody, load_answer
from app.store.decisions import DecisionFilter
from app.web import answers, audit, runs
from app.web.auth import caller
from app.web.errors import not_found
from app.web.http import json_response, read_nothing, read_object, services
from app.web.lists import page_of, read_filtered
from app.web.own_address import own_address
from app.web.resume import check_can_go_on, go_on

if t.TYPE_CHECKING:
    from app.store.checkpoints import DecisionRow


_FILTERS = {
    "status": "state",
    "workflowId": "workflow_id",
    "threadId": "thread_id",
    "runId": "run_id",
}
_CURSOR = re.compile(r"dec_[0-9A-Za-z_]{1,60}")


def index() -> Response:
    """``{items, nextCursor?}``, newest first."""
    wanted, before, limit = _read()
    rows, further = services().store.decisions.list(wanted, before, limit)
    return page_of([answers.body_of(row) for row in rows], further)


def show(decision_id: str) -> Response:
    """One decision."""
    row = services().store.decisions.get(decision_id)
    if row is None or not caller().reads(row.key_id):
        raise not_found("decision", decision_id)
    return json_response(answers.body_of(row))


def answer(decision_id: str) -> Response:
    """Answer it; the run goes on by itself."""
    sent = read_object()
    row = _mine(decision_id)
    body = load_answer(AnswerBody, sent)
    row = answers.open_decision(services().store, row.run_id, row.id)
    answers.check(row, body)
    check_can_go_on(services(), row.run_id)
    answered = answers.give(services().store, row, body, str(caller().key_id))
    go_on(services(), answered.run_id)
    return json_response(answers.body_of(answered))


def link(decision_id: str) -> Response:
    """Make the link by which one person without a key may answer, once. It replaces the one before."""
    read_nothing()
    row, base = _mine(decision_id), _address()
    note = audit.note(audit.told("decision.link", f"decision:{row.id}"))
    token = services().store.decisions.new_token(row.id, note)
    if token is None:
        raise answers.closed(services().store.decisions.get(row.id) or row)
    body = {"url": f"{base}/decide/{token}"}
    if row.expires_at is not None:
        body["expiresAt"] = rfc3339(row.expires_at)
    response = json_response(body, 201)
    response.headers["Cache-Control"] = "no-store"
    return response


def _mine(decision_id: str) -> DecisionRow:
    """:raises ApiError: 404: it is not the caller's to answer."""
    row = services().store.decisions.get(decision_id)
    if row is None or not runs.may_stop(caller(), {"key_id": row.key_id}):
        raise not_found("decision", decision_id)
    return row


def _address() -> str:
    """Where a person's browser reaches this server: as it was told, else as this request did.

    :raises ValidationFailed: it was not told, and the request came to no name.
    """
    if not (services().settings.public_url or request.host):
        raise ValidationFailed([Problem("Host", "is no name of a server; see STUDIO_PUBLIC_URL")])
    return own_address()


def _read() -> tuple[DecisionFilter, str | None, int]:
    """The query: which decisions, after which one, how many.

    :raises ValidationFailed: with everything that is wrong with it.
    """
    chosen, before, limit = read_filtered(_CURSOR, _FILTERS, STATUSES)
    who = caller()
    return DecisionFilter(**chosen, key_id=None if who.may("read") else who.key_id), before, limit


def install(app: Flask) -> None:
    """Put the routes on ``app``."""
    blueprint = Blueprint("decisions", __name__)
    blueprint.add_url_rule("/api/decisions", "index", index)
    blueprint.add_url_rule("/api/decisions/<decision_id>", "show", show)
    blueprint.add_url_rule("/api/decisions/<decision_id>", "answer", answer, methods=["POST"])
    blueprint.add_url_rule("/api/decisions/<decision_id>/link", "link", link, methods=["POST"])
    app.register_blueprint(blueprint)
