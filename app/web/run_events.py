"""``POST /api/workflows/{id}/runs``: run a workflow and follow it as run events (contract section 5).

Law of this room: as for execute, every check comes before the first byte; entering the thread is the last of them,
so that nothing that is refused takes it.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import replace

from flask import Blueprint, Flask, Response, g, request

from app.engine.catalog import Runnable
from app.engine.registry import RunRequest
from app.errors import ApiError, Problem, ValidationFailed
from app.schemas.attach import AttachQuery
from app.schemas.requests import RunsBody, load_runs
from app.store.threads import ThreadRow
from app.streams.rights import Rights
from app.streams.run_events import RunEvents, RunEventsOptions
from app.streams.voices import voices
from app.web import claims, files, starting, streaming
from app.web.auth import Caller, caller
from app.web.catalog import check_ready
from app.web.entering import enter
from app.web.errors import unauthorized
from app.web.http import read_object
from app.web.limits import network
from app.web.repeats import Repeats
from app.web.starting import as_deployed

if t.TYPE_CHECKING:
    from app.engine.budgets import Budget
    from app.engine.services import Services

_MEDIA_TYPE = re.compile(r"[\w!#$&^.+*-]+/[\w!#$&^.+*-]+")


class RunEventsView:
    """The view, with what it needs at hand."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._catalog = services.catalog
        self._repeats = Repeats(services)

    def __call__(self, workflow_id: str) -> Response:
        """Check, enter the thread, start, stream."""
        who = caller()
        anonymous = who.key_id is None
        if anonymous and not self._catalog.is_public(workflow_id):
            # Unknown, undeployed and private look the same to a caller without a key.
            raise unauthorized("Send your key in the header X-API-Key; this workflow is not public.")
        _check_accept(request.environ.get("HTTP_ACCEPT", ""))
        data = read_object()
        body = load_runs(data)
        if body.include_thinking and anonymous:
            raise ValidationFailed([Problem("includeThinking", "needs a key; send it in X-API-Key")])
        asked = claims.claim("runs", who.key_id, data, workflow_id=workflow_id)
        if asked.is_repeat:
            return self._repeats.passed_on(asked.run_id, data) or self._repeat(asked.run_id, body)
        return self._start(workflow_id, asked.run_id, body, who)

    def _repeat(self, run_id: str, body: RunsBody) -> Response:
        query = AttachQuery("runs", body.include_thinking, False, body.events, 0, "after")
        return self._repeats.stream(run_id, query, {})

    def _start(self, workflow_id: str, run_id: str, body: RunsBody, who: Caller) -> Response:
        anonymous = who.key_id is None
        found = self._catalog.find(workflow_id, None, g.get("generation"))
        check_ready(found, self._services, public=anonymous)
        files.check_input(body.input, who.key_id)
        address = network()
        budgets = starting.let_start(self._services, who, found, address)
        thread = enter(self._services, found.workflow_id, who.key_id, body.thread_id, run_id)
        run_request = _run_request(found, body, who, run_id, thread, budgets)
        return self._stream(run_request, body, who, address)

    def _stream(self, run_request: RunRequest, body: RunsBody, who: Caller, address: str) -> Response:
        # Whoever starts a run with a key has the run's own key.
        anonymous = who.key_id is None
        rights = Rights(body.include_thinking, tools=True, payloads=not anonymous, public=anonymous)
        options = RunEventsOptions(
            run_request.run_id,
            str(run_request.thread_id),
            body.events,
            rights,
            voices(run_request.workflow),
        )

        return streaming.respond_run(self._services, run_request, RunEvents(options), {}, address)


def _run_request(
    found: Runnable,
    body: RunsBody,
    who: Caller,
    run_id: str,
    thread: ThreadRow,
    budgets: tuple[Budget, ...],
) -> RunRequest:
    return replace(
        as_deployed(found, run_id, body.input),
        key_id=who.key_id,
        conversation_id=thread.name,
        show_thinking=body.include_thinking,
        thread=thread,
        budgets=budgets,
        origin={"surface": "runs", "events": body.events, "includeThinking": body.include_thinking},
        public=who.key_id is None,
    )


def _check_accept(header: str) -> None:
    """Refuse a caller who takes everything but a stream; what is no media type says nothing.

    :raises ApiError: 406 naming the route that answers in JSON.
    """
    if not _MEDIA_TYPE.search(header) or request.accept_mimetypes["text/event-stream"] > 0:
        return
    raise ApiError(
        406,
        "not_acceptable",
        "This route answers with a stream only. Send Accept: text/event-stream, or ask "
        "POST /api/workflows/{id}/execute for one JSON answer.",
    )


def install(app: Flask, services: Services) -> None:
    """Put the route on ``app``."""
    blueprint = Blueprint("run_events", __name__)
    blueprint.add_url_rule(
        "/api/workflows/<workflow_id>/runs", "run_events", RunEventsView(services), methods=["POST"]
    )
    app.register_blueprint(blueprint)
