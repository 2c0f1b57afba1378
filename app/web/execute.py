"""``POST /api/workflows/{id}/execute``: run a workflow, wait for its answer or stream it.

Law of this room: checks come in one order (credential, body, workflow, selectors, protocol, provider,
admission, budgets, rate limits), all before the first byte; after it, failures are events. A run never lives in the
request's greenlet: the request only reads it.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import replace

from flask import Blueprint, Flask, Response, g, request

from app.engine.catalog import Runnable
from app.engine.redaction import kept_name
from app.engine.registry import RunRequest
from app.errors import Problem, ValidationFailed
from app.schemas.attach import AttachQuery
from app.schemas.requests import ExecuteBody, load_execute
from app.streams.agent_events import AgentEvents, AgentEventsOptions
from app.streams.rights import Rights
from app.web import claims, entering, files, starting, streaming, waiting
from app.web.auth import Caller, caller
from app.web.catalog import check_ready
from app.web.errors import unauthorized
from app.web.http import read_object
from app.web.limits import network
from app.web.negotiation import PROTOCOL, SETTLED, Negotiation, check_flags, negotiate
from app.web.repeats import Repeats
from app.web.sight import KEYED
from app.web.starting import as_deployed
from app.workflows import selectors
from app.workflows.public_selections import public_problems

if t.TYPE_CHECKING:
    from app.engine.budgets import Budget
    from app.engine.services import Services
    from app.store.threads import ThreadRow


class Executor:
    """The view, with what it needs at hand."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._catalog = services.catalog
        self._repeats = Repeats(services)

    def __call__(self, workflow_id: str) -> Response:
        """Check, start, and answer in the mode the body asks for."""
        who = caller()
        anonymous = who.key_id is None
        if anonymous:
            self._require_public(workflow_id, None)
        data = read_object()
        body = load_execute(data)
        if anonymous and body.asynchronous:
            problem = Problem(
                "async", "needs a key, for only it can reach the run later; send it in X-API-Key"
            )
            raise ValidationFailed([problem])
        if anonymous and body.version is not None:
            self._require_public(workflow_id, body.version)
        asked = claims.claim("execute", who.key_id, data, workflow_id=workflow_id)
        if asked.is_repeat:
            return self._repeats.passed_on(asked.run_id, data) or self._repeat(asked.run_id, body)
        return self._start(workflow_id, asked.run_id, body, who)

    def _start(self, workflow_id: str, run_id: str, body: ExecuteBody, who: Caller) -> Response:
        anonymous = who.key_id is None
        found = self._catalog.find(workflow_id, body.version, g.get("generation"))
        wanted = body.selected_outputs
        selections = None if wanted is None else selectors.resolve(list(wanted), found.workflow)
        if anonymous and (hidden := public_problems(selections or (), found.workflow)):
            raise ValidationFailed(hidden)
        agreed = _agreed(body)
        check_ready(found, self._services, public=anonymous)
        files.check_input(body.input, who.key_id)
        address = network()
        budgets = starting.let_start(self._services, who, found, address)
        origin = _origin(body, agreed, selections)
        run_request = self._run_request(run_id, found, body, who, selections, origin, budgets)
        if body.asynchronous:
            return self._begin(run_request, address)
        rights = Rights(body.include_thinking, body.include_tool_calls, not anonymous, anonymous)
        if body.stream:
            return self._stream(run_request, agreed, selections, rights, address)
        return self._wait(run_request, selections, rights, address)

    def _require_public(self, workflow_id: str, version: int | None) -> None:
        # Unknown, undeployed and private look the same to a caller without a key.
        if not self._catalog.is_public(workflow_id, version):
            raise unauthorized("Send your key in the header X-API-Key; this workflow is not public.")

    def _run_request(
        self,
        run_id: str,
        found: Runnable,
        body: ExecuteBody,
        who: Caller,
        selections: tuple[selectors.Selection, ...] | None,
        origin: Mapping[str, t.Any],
        budgets: tuple[Budget, ...],
    ) -> RunRequest:
        named = body.conversation_id
        if named is not None:
            named = kept_name(self._services, found.workflow, None, named)
        asked = as_deployed(found, run_id, body.input)
        limit = asked.timeout_s
        return replace(
            asked,
            timeout_s=limit if body.timeout_seconds is None else min(limit, body.timeout_seconds),
            key_id=who.key_id,
            conversation_id=named,
            thread=self._thread(found, who, named, run_id),
            # Nobody reads it to begin with; whoever looks in may leave again.
            on_disconnect="continue" if body.asynchronous else asked.on_disconnect,
            show_thinking=body.include_thinking,
            selections=selections,
            origin=origin,
            budgets=budgets,
            public=who.key_id is None,
        )

    def _thread(self, found: Runnable, who: Caller, name: str | None, run_id: str) -> ThreadRow | None:
        """A caller's name for a conversation is a thread of its key; without a key it is no more than a name. A run
        that may wait for people is always in a thread, by which it can be found and continued.

        :raises ApiError: 409 ``thread_paused``: the run in it waits for people.
        """
        threads = self._services.store.threads
        if name is None or who.key_id is None:
            return threads.open(found.workflow_id, who.key_id, run_id) if found.workflow.durable else None
        thread = threads.named(found.workflow_id, who.key_id, name, run_id)
        if thread.run_id != run_id:
            raise entering.taken(self._services, thread)
        return thread

    def _stream(
        self,
        run_request: RunRequest,
        agreed: Negotiation,
        selections: tuple[selectors.Selection, ...] | None,
        rights: Rights,
        address: str,
    ) -> Response:
        options = AgentEventsOptions(
            run_id=run_request.run_id,
            negotiated=agreed.negotiated,
            separator=agreed.separator,
            rights=rights,
            selections=selections,
            answer_blocks=run_request.workflow.answer_agents(),
            thread_id=run_request.thread_id or "",
        )

        return streaming.respond_run(
            self._services, run_request, AgentEvents(options), dict(agreed.echo), address
        )

    def _begin(self, run_request: RunRequest, address: str) -> Response:
        """Start it for nobody in particular (contract 3.4, ``async``)."""
        return waiting.goes_on(self._services.runs.start(run_request, address=address).id)

    def _wait(
        self,
        run_request: RunRequest,
        selections: tuple[selectors.Selection, ...] | None,
        rights: Rights,
        address: str,
    ) -> Response:
        reader = object()
        run = self._services.runs.start(run_request, readers=(reader,), address=address)
        return waiting.answer_of(run, reader, selections, rights)

    # -- once more ---------------------------------------------------------------------------

    def _repeat(self, run_id: str, body: ExecuteBody) -> Response:
        """The answer of a run that this process carries, or that is told from the store."""
        if body.asynchronous:
            return waiting.goes_on(run_id)
        agreed = _agreed(body)
        thinking, tools = body.include_thinking, body.include_tool_calls
        if not body.stream:
            return self._repeats.answer(
                run_id, KEYED.rights(thinking, tools), lambda row: self._selected(row, body)
            )
        sight = KEYED
        if body.selected_outputs is not None:  # that is not in the record of a run
            sight = replace(KEYED, selections=self._selected(self._repeats.row(run_id), body))
        protocol = PROTOCOL if agreed.negotiated else "agent-text"
        query = AttachQuery(protocol, thinking, tools, "full", 0, "after")
        return self._repeats.stream(run_id, query, agreed.echo, sight)

    def _selected(
        self, row: Mapping[str, t.Any], body: ExecuteBody
    ) -> tuple[selectors.Selection, ...] | None:
        """What a run was asked to select, by the version it was of."""
        if body.selected_outputs is None:
            return None
        found = self._catalog.find(row["workflow_id"], row["version"])
        return selectors.resolve(list(body.selected_outputs), found.workflow)


def _agreed(body: ExecuteBody) -> Negotiation:
    """:raises ValidationFailed: what is asked for cannot be shown as it is asked for."""
    agreed = negotiate(request.environ) if body.stream else SETTLED
    flags = (("includeThinking", body.include_thinking), ("includeToolCalls", body.include_tool_calls))
    check_flags(flags, body.stream, agreed.negotiated)
    return agreed


def _origin(
    body: ExecuteBody, agreed: Negotiation, selections: tuple[selectors.Selection, ...] | None
) -> dict[str, t.Any]:
    """What a resume of the run has to know of how it was asked for."""
    chosen = None if selections is None else [[picked.block, list(picked.path)] for picked in selections]
    if not body.stream:
        return {"surface": "json", "async": body.asynchronous, "selections": chosen}
    return {
        "surface": "agent",
        "selections": chosen,
        "negotiated": agreed.negotiated,
        "separator": agreed.separator,
        "includeThinking": body.include_thinking,
        "includeToolCalls": body.include_tool_calls,
    }


def install(app: Flask, services: Services) -> None:
    """Put the route on ``app``."""
    blueprint = Blueprint("execute", __name__)
    blueprint.add_url_rule(
        "/api/workflows/<workflow_id>/execute", "execute", Executor(services), methods=["POST"]
    )
    app.register_blueprint(blueprint)
