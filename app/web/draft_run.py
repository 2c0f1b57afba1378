"""``POST /api/workflows/{id}/draft/run``: run what is being edited, followed as builder events (contract section 4).

Law of this room: as for execute, every check comes before the first byte. What runs is compiled and checked as
whatever is deployed; nothing is saved, and no version comes of it.
"""

from __future__ import annotations

import typing as t
from dataclasses import replace

from flask import Blueprint, Flask, Response

from app.engine.catalog import ASSISTANT, Runnable, packaged
from app.engine.registry import RunRequest
from app.errors import ApiError, Problem, ValidationFailed
from app.schemas.attach import AttachQuery
from app.schemas.paths import did_you_mean
from app.schemas.requests import DraftRunBody, load_draft_run
from app.web import claims, drafts, files, runs, starting, streaming, waiting
from app.web.attach import Attacher
from app.web.auth import Caller, caller
from app.web.builder_reader import builder_events
from app.web.catalog import check_ready
from app.web.errors import not_found
from app.web.http import read_object
from app.web.limits import network
from app.web.repeats import Repeats
from app.web.resume import Resumed, follow, surfaces
from app.web.starting import as_deployed
from app.workflows.document import parse

if t.TYPE_CHECKING:
    from app.engine.budgets import Budget
    from app.engine.services import Services
    from app.workflows.compiled import CompiledWorkflow

SURFACE = "builder"
DOCUMENT, STOP_AFTER, FROM_RUN = "document", "stopAfter", "inputFromRunId"


class DraftRunner:
    """The view, with what it needs at hand."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._catalog = services.catalog
        self._attacher = Attacher(services)
        self._repeats = Repeats(services)

    def __call__(self, workflow_id: str) -> Response:
        """Check, start, stream."""
        who = caller()
        data = read_object()
        draft = self._draft(workflow_id)
        body = load_draft_run(data)
        asked = claims.claim("draft", who.key_id, data, workflow_id=workflow_id)
        if asked.is_repeat:
            return self._repeats.passed_on(asked.run_id, data) or self._repeats.stream(
                asked.run_id, AttachQuery(SURFACE, False, False, "full", 0, "after"), {}
            )
        found = self._found(workflow_id, draft, body.document)
        if body.stop_after is not None:
            _check_block(body.stop_after, found.workflow)
        given = self._input(workflow_id, body, who)
        check_ready(found, self._services, public=False)
        files.check_input(given, who.key_id)
        address = network()
        budgets = starting.let_start(self._services, who, found, address)
        run_request = self._run_request(asked.run_id, found, given, body, who, budgets)
        projection = builder_events(
            self._services, run_request.run_id, workflow_id, run_request.thread_id or ""
        )
        return streaming.respond_run(self._services, run_request, projection, {}, address)

    def _draft(self, workflow_id: str) -> dict[str, t.Any]:
        """:raises ApiError: 404 unknown, 400 ``not_supported`` no document makes it."""
        if workflow_id in self._services.plugins.runners:
            message = (
                f"'{workflow_id}' is a graph that a plugin serves, not a document: it has no draft. Run it: "
                f"POST /api/workflows/{workflow_id}/execute"
            )
            raise ApiError(400, "not_supported", message)
        if workflow_id == ASSISTANT and self._services.store.workflows.get(workflow_id) is None:
            return packaged()
        return drafts.known(workflow_id).document

    def _found(self, workflow_id: str, draft: dict[str, t.Any], sent: dict[str, t.Any] | None) -> Runnable:
        """What is to run, compiled.

        :raises ValidationFailed: 400 with everything that is wrong with it; paths into a document that was sent begin
            with ``document``.
        """
        if sent is None:
            return self._catalog.of(workflow_id, draft)
        try:
            return self._catalog.of(workflow_id, parse(sent))
        except ValidationFailed as failed:
            inside = [Problem(_inside(problem.path), problem.message) for problem in failed.details]
            raise ValidationFailed(inside) from None

    def _input(self, workflow_id: str, body: DraftRunBody, who: Caller) -> t.Any:
        """:raises ApiError: 404: the run it is to be taken from is none of this workflow's."""
        if body.input_from_run_id is None:
            return body.input
        _, row = runs.find(body.input_from_run_id)
        if row is None or row["workflow_id"] != workflow_id or not who.reads(row["key_id"]):
            raise not_found("run", body.input_from_run_id)
        return row["input"]

    def _run_request(
        self,
        run_id: str,
        found: Runnable,
        given: t.Any,
        body: DraftRunBody,
        who: Caller,
        budgets: tuple[Budget, ...],
    ) -> RunRequest:
        # One that may wait for people is always in a thread, by which it can be found and continued.
        threads = self._services.store.threads
        return replace(
            as_deployed(found, run_id, given),
            version=None,
            key_id=who.key_id,
            thread=threads.open(found.workflow_id, who.key_id, run_id) if found.workflow.durable else None,
            show_thinking=True,
            origin={"surface": SURFACE},
            budgets=budgets,
            draft=True,
            stop_after=body.stop_after,
        )

    # -- how it goes on ----------------------------------------------------------------------

    def goes_on(self, resumed: Resumed) -> Response:
        """The stream of a draft run whose question was answered, for those who build it."""
        row, run_id = resumed.row, str(resumed.row["id"])
        if not caller().may("admin"):
            return waiting.goes_on(run_id)
        if resumed.run is None:
            query = AttachQuery(SURFACE, False, False, "full", resumed.after, "after")
            path = f"/api/runs/{run_id}/events?protocol={SURFACE}&after={run_id}:{resumed.after}"
            return self._attacher.attach(run_id, query, path)
        projection = builder_events(self._services, run_id, row["workflow_id"], row["thread_id"] or "")
        return follow(resumed, projection, {})


def _inside(path: str) -> str:
    """A path into a document that was sent, in the body."""
    return f"{DOCUMENT}.{path}" if path else DOCUMENT


def _check_block(name: str, workflow: CompiledWorkflow) -> None:
    """:raises ValidationFailed: there is no such block."""
    if name not in workflow.blocks:
        message = f"there is no block {name[:100]!r}. {did_you_mean(name, workflow.blocks)}"
        raise ValidationFailed([Problem(STOP_AFTER, message)])


def install(app: Flask, services: Services) -> None:
    """Put the route on ``app``, and the surface where runs go on."""
    runner = DraftRunner(services)
    surfaces(app)[SURFACE] = runner.goes_on
    blueprint = Blueprint("draft_run", __name__)
    blueprint.add_url_rule("/api/workflows/<workflow_id>/draft/run", "run", runner, methods=["POST"])
    app.register_blueprint(blueprint)
