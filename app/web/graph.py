"""``POST /chat`` and ``GET /graph/topology``: turns of a conversation, followed node by node (contract section 6).

Law of this room: as for execute, every check comes before the first byte; entering the thread is the last of them. JSON
and stream are two ways to hand over what one projection says of one run.
"""

from __future__ import annotations

import typing as t
from dataclasses import replace

from flask import Blueprint, Flask, Response, g, request

from app.engine.catalog import Runnable
from app.engine.registry import RunRequest
from app.errors import ValidationFailed
from app.schemas.attach import AttachQuery
from app.schemas.chat import ChatBody, load_chat
from app.streams.rights import Rights
from app.streams.topology import topology
from app.web import claims, graph_resume, starting, streaming
from app.web.accept import wants_stream
from app.web.auth import Caller, caller
from app.web.catalog import check_ready
from app.web.entering import enter
from app.web.errors import unauthorized
from app.web.graph_answer import Listener
from app.web.graph_reader import graph_events
from app.web.http import read_object, read_query
from app.web.limits import network
from app.web.repeats import Repeats
from app.web.starting import as_deployed
from app.web.told import Told

if t.TYPE_CHECKING:
    from app.engine.budgets import Budget
    from app.engine.services import Services
    from app.store.threads import ThreadRow


class Graph:
    """The views, with what they need at hand."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._catalog = services.catalog
        self._repeats = Repeats(services)

    def chat(self) -> Response:
        """Check, enter the thread, start, and answer in the form the caller prefers."""
        who = caller()
        data = read_object()
        self._let_in(data.get("workflow"))
        body = load_chat(data)
        stream = wants_stream(request.environ.get("HTTP_ACCEPT", ""))
        workflow_id = body.workflow or self._services.settings.chat_workflow
        asked = claims.claim("chat", who.key_id, data, workflow_id=workflow_id)
        if asked.is_repeat:
            return self._repeats.passed_on(asked.run_id, data) or self._repeat(asked.run_id, stream)
        return self._start(asked.run_id, body, who, stream)

    def _repeat(self, run_id: str, stream: bool) -> Response:
        if stream:
            query = AttachQuery("graph", False, False, "full", 0, "after")
            return self._repeats.stream(run_id, query, {})
        store, rights = self._services.store, Rights(payloads=True)

        def listener(told: Told) -> Listener:
            return Listener(graph_events(store, run_id, told.thread_id, told.workflow, rights), run_id)

        return self._repeats.heard(run_id, listener)

    def _start(self, run_id: str, body: ChatBody, who: Caller, stream: bool) -> Response:
        found = self._find(body.workflow)
        anonymous = who.key_id is None
        check_ready(found, self._services, public=anonymous)
        address = network()
        budgets = starting.let_start(self._services, who, found, address)
        thread = enter(self._services, found.workflow_id, who.key_id, body.thread_id, run_id)
        rights = Rights(payloads=not anonymous, public=anonymous)
        projection = graph_events(self._services.store, run_id, thread.id, found.workflow, rights)
        run_request = _run_request(found, body, who.key_id, run_id, thread, stream, budgets)
        if stream:
            return streaming.respond_run(self._services, run_request, projection, {}, address)
        listener = Listener(projection, run_id)
        try:
            run = self._services.runs.start(run_request, (listener,), address=address)
        except BaseException:
            self._services.store.threads.leave(thread)
            raise
        return listener.answer(run)

    def topology(self) -> Response:
        """The graph of a workflow."""
        sent, problems = read_query("workflow")
        self._let_in(sent.get("workflow"))
        if problems:
            raise ValidationFailed(problems)
        found = self._find(sent.get("workflow"))
        rights = Rights(public=caller().key_id is None)
        return Response(topology(found.workflow, rights).data, content_type="application/json")

    def _find(self, workflow: str | None) -> Runnable:
        """:raises ApiError: see :meth:`app.engine.catalog.Catalog.find`."""
        wanted = workflow or self._services.settings.chat_workflow
        return self._catalog.find(wanted, None, g.get("generation"))

    def _let_in(self, workflow: t.Any) -> None:
        """:raises ApiError: 401: the caller has no key, and the workflow is not public."""
        if caller().key_id is not None:
            return
        wanted = workflow or self._services.settings.chat_workflow
        # Unknown, undeployed and private look the same to a caller without a key.
        if not isinstance(wanted, str) or not self._catalog.is_public(wanted):
            raise unauthorized("Send your key in the header X-API-Key; this workflow is not public.")


def _run_request(
    found: Runnable,
    body: ChatBody,
    key_id: str | None,
    run_id: str,
    thread: ThreadRow,
    stream: bool,
    budgets: tuple[Budget, ...],
) -> RunRequest:
    return replace(
        as_deployed(found, run_id, body.input()),
        key_id=key_id,
        conversation_id=thread.name,
        thread=thread,
        budgets=budgets,
        origin={"surface": "graph" if stream else "graph-json"},
        public=key_id is None,
    )


def _varies(response: Response) -> Response:
    if request.method == "POST":  # what answers in two forms
        response.vary.add("Accept")
    return response


def install(app: Flask, services: Services) -> None:
    """Put the routes on ``app``."""
    blueprint = Blueprint("graph", __name__)
    views = Graph(services)
    blueprint.add_url_rule("/chat", "chat", views.chat, methods=["POST"])
    blueprint.add_url_rule("/graph/topology", "topology", views.topology)
    graph_resume.install(app, services, blueprint)
    blueprint.after_request(_varies)
    app.register_blueprint(blueprint)
