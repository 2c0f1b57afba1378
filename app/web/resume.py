"""``POST /api/runs/{id}/resume``: answer what a run asks, and follow how it goes on (contract 7.2).

Law of this room: the answer is judged, and the run's place in this process sure, before anything is decided; then one
write decides. What comes back is in the protocol the run was started in, with the answerer's rights, and begins where
the run went on: nothing that was shown before is shown again.
"""

from __future__ import annotations

import logging
import typing as t
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from flask import Blueprint, Flask, Response, current_app

from app import encoding
from app.engine.run import Run
from app.errors import ApiError
from app.schemas.answers import AnswerBody, ResumeBody, load_answer
from app.schemas.attach import AttachQuery
from app.store.errors import StoreFailed
from app.streams.agent_events import AgentEvents, AgentEventsOptions
from app.streams.projection import Projection
from app.streams.run_events import RunEvents, RunEventsOptions
from app.streams.voices import voices
from app.web import answers, relay, runs, streaming, waiting
from app.web.attach import Attacher, events_path
from app.web.auth import caller
from app.web.errors import not_found
from app.web.held import held
from app.web.http import read_object
from app.web.limits import network
from app.web.negotiation import HEADERS, PROTOCOL
from app.web.sight import KEYED, Sight
from app.web.told import selected

if t.TYPE_CHECKING:
    from app.engine.services import Services

log = logging.getLogger("studio.runs")


@dataclass(frozen=True, slots=True)
class Resumed:
    """A run whose question was answered.

    :ivar row: the run as it was found, a row of the store. :ivar run: it, where this process carries it now; None: it
        goes on elsewhere.
    :ivar after: number of the last event before it went on. :ivar sight: how the answerer sees runs.
    """

    row: Mapping[str, t.Any]
    run: Run | None
    after: int
    sight: Sight = KEYED

    @property
    def origin(self) -> Mapping[str, t.Any]:
        """The surface it came in on, and what was agreed there."""
        return self.row["origin"] or {"surface": "agent", "negotiated": True}


def surfaces(app: Flask) -> dict[str, Callable[[Resumed], Response]]:
    """What answers a resume of a run, by the surface it came in on; each surface adds its own."""
    found: dict[str, Callable[[Resumed], Response]] = app.extensions.setdefault("studio.resume", {})
    return found


def resume(
    services: Services,
    row: Mapping[str, t.Any],
    pause_id: str | None,
    body: AnswerBody,
    by: str,
    names: answers.Names = answers.OURS,
) -> Resumed:
    """Answer what a run asks, and let it go on here.

    :param row: the run; that the caller may answer for it is judged before.
    :param by: who answers, for the record. :param names: what the surface calls the parts of an answer.
    :raises ApiError: nothing was decided: see :func:`app.web.answers.open_decision`, ``check``, ``give`` and
        :meth:`app.engine.registry.RunRegistry.admit`.
    """
    run_id = row["id"]
    decision = answers.open_decision(services.store, run_id, pause_id, names)
    answers.check(decision, body, names)
    run = runs.carried(run_id)
    # Before anything is decided: from then on anybody may take it up, and be done with it at once.
    after = services.store.durable.last(run_id) if run is None else run.log.last
    address = network()
    if run is None:
        check_can_go_on(services, run_id)
        services.runs.admit(row["key_id"], address)
    answers.give(services.store, decision, body, by)
    return Resumed(row, go_on(services, run_id, address), after)


def check_can_go_on(services: Services, run_id: str) -> None:
    """See that a run, once answered, can go on in this process, if it would.

    :raises ApiError: 503 ``workflow_unavailable``; nothing was decided.
    """
    if services.runs.get(run_id) is not None or services.store.runs.status(run_id) != "paused":
        return  # whoever carries it is told
    why = services.runs.obstacle(run_id)
    if why is not None:
        message = f"This server cannot go on with the run '{run_id}' ({why}). Nothing was decided."
        raise ApiError(503, "workflow_unavailable", message, headers={"Retry-After": "10"})


def go_on(services: Services, run_id: str, address: str | None = None) -> Run | None:
    """Let a run go on whose question was answered; None where that is not in this process."""
    try:
        run = services.runs.go_on(run_id, address=address)
    except StoreFailed:
        # The answer is stored, and whoever looks for such runs finds it.
        log.exception("run %s was answered and could not be taken up at once", run_id)
        return None
    held(current_app).goes_on(run_id)
    return run


class Resumer:
    """The view, with what it needs at hand."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._attacher = Attacher(services)

    def __call__(self, run_id: str) -> Response:
        """Check, answer, follow."""
        resumed = self.answer(run_id, str(caller().key_id))
        if isinstance(resumed, Response):
            return resumed
        answer = surfaces(current_app).get(resumed.origin.get("surface", ""), self._agent)
        return answer(resumed)

    def visit(self, run_id: str, sight: Sight, by: str) -> Response:
        """The same for a visitor, who sees agent events alone.

        :param by: who answers, for the record.
        """
        resumed = self.answer(run_id, by, sight)
        if isinstance(resumed, Response):
            return resumed
        return self._json(resumed) if resumed.origin.get("surface") == "json" else self._agent(resumed)

    def answer(self, run_id: str, by: str, sight: Sight = KEYED) -> Resumed | Response:
        """Check and answer; the answer to this request where another process gives that."""
        sent = read_object()
        run, row = runs.find(run_id)
        if row is None or not runs.may_stop(caller(), row):
            raise not_found("run", run_id)
        body = load_answer(ResumeBody, sent)
        if run is None and row["status"] == "running":  # the process that carries it answers best
            path = f"{sight.runs_url}/{run_id}/resume"
            passed = relay.respond(self._services, row["owner_id"], run_id, path, encoding.dumps(sent))
            if passed is not None:
                return passed
        if sight.public:
            _check_seen(self._services, run_id, body.pause_id)
        return replace(resume(self._services, row, body.pause_id, body, by), sight=sight)

    def install(self, app: Flask) -> None:
        """Add the surfaces that are told of here."""
        surfaces(app).update(agent=self._agent, cli=self._agent, json=self._json, runs=self._runs)

    # -- surfaces ----------------------------------------------------------------------------

    def _json(self, resumed: Resumed) -> Response:
        run, run_id, sight = resumed.run, resumed.row["id"], resumed.sight
        if resumed.origin.get("async"):
            return waiting.goes_on(run_id)
        if run is None:
            store, selections = self._services.store, selected(resumed.origin)
            return waiting.answer_elsewhere(store, run_id, selections, sight.rights(), sight.runs_url)
        reader = object()
        run.add_reader(reader)
        return waiting.answer_of(run, reader, run.request.selections, sight.rights(), sight.runs_url)

    def _agent(self, resumed: Resumed) -> Response:
        origin, run_id = resumed.origin, resumed.row["id"]
        negotiated = origin.get("negotiated", True)
        thinking, tools = origin.get("includeThinking", False), origin.get("includeToolCalls", False)
        echo = {HEADERS[0][0]: PROTOCOL} if negotiated else {}
        protocol = PROTOCOL if negotiated else "agent-text"
        if resumed.run is None:
            query = AttachQuery(protocol, thinking, tools, "full", resumed.after, "after")
            return self._attached(resumed, query)
        asked, sight = resumed.run.request, resumed.sight
        options = AgentEventsOptions(
            run_id,
            negotiated,
            origin.get("separator", not negotiated),
            sight.rights(thinking, tools),
            asked.selections,
            asked.workflow.answer_agents(),
            asked.thread_id or "",
            sight.runs_url,
            working=sight.public,
        )
        return follow(resumed, AgentEvents(options), echo)

    def _runs(self, resumed: Resumed) -> Response:
        origin, run_id = resumed.origin, resumed.row["id"]
        level, thinking = origin.get("events", "full"), origin.get("includeThinking", False)
        if resumed.run is None:
            query = AttachQuery("runs", thinking, False, level, resumed.after, "after")
            return self._attached(resumed, query)
        asked = resumed.run.request
        rights = resumed.sight.rights(thinking, tools=True)
        options = RunEventsOptions(run_id, asked.thread_id or "", level, rights, voices(asked.workflow))
        return follow(resumed, RunEvents(options), {})

    def _attached(self, resumed: Resumed, query: AttachQuery) -> Response:
        """Of a run that goes on in another process: as one who attaches."""
        run_id, sight = resumed.row["id"], resumed.sight
        path = events_path(run_id, query, sight)
        return self._attacher.attach(run_id, query, path, sight)


def _check_seen(services: Services, run_id: str, pause_id: str | None) -> None:
    """Nobody decides about what they may not see.

    :raises ApiError: 403: the question is about a call, whose arguments are for keys.
    """
    asked = answers.open_decision(services.store, run_id, pause_id)
    if asked.review.get("kind") == "tool":
        raise ApiError(403, "forbidden", "This is not for you to decide. Somebody else will.")


def follow(resumed: Resumed, projection: Projection, headers: Mapping[str, str]) -> Response:
    """The stream of a run that goes on here, from where it did."""
    run = resumed.run
    assert run is not None

    def start(subscriber: t.Any) -> Run:
        run.add_reader(subscriber)
        return run

    return streaming.respond(projection, start, headers, run.id, after=resumed.after)


def install(app: Flask, services: Services) -> None:
    """Put the route on ``app``."""
    blueprint = Blueprint("resume", __name__)
    resumer = Resumer(services)
    resumer.install(app)
    blueprint.add_url_rule("/api/runs/<run_id>/resume", "resume", resumer, methods=["POST"])
    app.register_blueprint(blueprint)
