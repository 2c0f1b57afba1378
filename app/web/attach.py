"""``GET /api/runs/{id}/events``: follow a run that somebody started, from its beginning or from an event on.

Law of this room: the attacher's own rights decide, not the starter's. A run is read where it is: live in this
process, from its log while that is kept, through the process of this host that has it, from the log in the store if it
is durable, else from its record. All checks come before the first byte.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

import gevent
from flask import Blueprint, Flask, Response, current_app, request
from gevent import get_hub

from app.clock import time_of
from app.engine.run import Run
from app.errors import ApiError, Problem, ValidationFailed
from app.schemas.attach import PARAMETERS, AttachQuery, load_attach
from app.streams.agent_events import AgentEvents, AgentEventsOptions
from app.streams.projection import Projection
from app.streams.run_events import RunEvents, RunEventsOptions
from app.web import relay, streaming
from app.web.auth import caller
from app.web.builder_reader import builder_events
from app.web.errors import forbidden, not_found
from app.web.graph_reader import graph_events
from app.web.held import PausedRun, held
from app.web.http import read_query
from app.web.negotiation import PROTOCOL, joins_blocks
from app.web.runs import carried
from app.web.sight import KEYED, Sight
from app.web.told import Told, of_record, of_run, of_stored_log

if t.TYPE_CHECKING:
    from app.engine.retained import KeptRun
    from app.engine.run_log import RunLog
    from app.engine.services import Services

_LIVE = ("queued", "running")
#: A run that another process has just started has no row for some milliseconds: wait while its id is that young.
_LOOKS, _LOOK_S, _YOUNG_MS = 20, 0.05, 3_000
#: Seconds in which another process takes up a run whose own has gone.
CLAIMED_S, _CLAIMED_LOOK_S = 15.0, 0.25


class Attacher:
    """The view, with what it needs at hand."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._catalog = services.catalog

    def __call__(self, run_id: str) -> Response:
        """Check, find the run, stream."""
        sent, problems = read_query(*PARAMETERS)
        query = load_attach(sent, problems, run_id, request.environ.get("HTTP_LAST_EVENT_ID", ""))
        return self.attach(run_id, query)

    def attach(
        self, run_id: str, query: AttachQuery, path: str | None = None, sight: Sight = KEYED
    ) -> Response:
        """The stream of a run, wherever it is.

        :param path: what another process of this host is asked instead, when it carries the run; None: the same.
        :param sight: how the caller sees runs.
        :raises ApiError: 403: builders alone see everything.
        """
        if query.protocol == "builder" and (sight.public or not caller().may("admin")):
            raise forbidden("admin")
        until = get_hub().loop.now() + CLAIMED_S
        while True:
            here = carried(run_id) or self._ended(run_id)
            if here is not None:
                _check(run_id, here.request.key_id)
                return self._tell(of_run(here), query, sight)
            row = self.row(run_id)
            self._check_room()
            passed = relay.respond(self._services, row["owner_id"], run_id, path)
            if passed is not None:
                return passed
            row = self.row(run_id)
            if row["status"] not in _LIVE:
                return self._tell(self._recorded(row), query, sight)
            # What a process that has gone left behind is taken up by another one, in a moment.
            if not row["durable"] or get_hub().loop.now() > until:
                raise _elsewhere(run_id)
            gevent.sleep(_CLAIMED_LOOK_S)

    # -- a run of another process, or of another time ----------------------------------------

    def row(self, run_id: str) -> dict[str, t.Any]:
        """The row of a run, also of one that another process has just started.

        :raises ApiError: 404 unknown, or not the caller's.
        """
        runs = self._services.store.runs
        row = runs.get(run_id)
        for _ in range(_LOOKS):
            if row is not None or not self._young(run_id):
                break
            gevent.sleep(_LOOK_S)
            row = runs.get(run_id)
        if row is None:
            raise not_found("run", run_id)
        _check(run_id, row["key_id"])
        return row

    def told(self, run_id: str) -> Told:
        """What this process can tell of a run that it carries, or that is over or waits for people.

        :raises ApiError: 404 unknown, or not the caller's.
        """
        here = carried(run_id) or self._ended(run_id)
        return self._recorded(self.row(run_id)) if here is None else of_run(here)

    def _ended(self, run_id: str) -> KeptRun | None:
        """A run whose log this process keeps, unless it was deleted meanwhile, by whichever process."""
        kept = self._services.runs.ended(run_id)
        if kept is None or not kept.is_recorded:  # of what never came to the store, this is all there is
            return kept
        if self._services.store.runs.status(run_id) is None:
            self._services.runs.forget(run_id)
            return None
        return kept

    def _young(self, run_id: str) -> bool:
        return abs(self._services.clock.now_ms() - time_of(run_id)) < _YOUNG_MS

    def _recorded(self, row: Mapping[str, t.Any]) -> Told:
        """A run that has ended, or waits for people."""
        if row["durable"]:
            told = of_stored_log(row, self._catalog, self._services.store, held(current_app))
            if told is not None:
                return told
        return of_record(row, self._catalog, self._services.store)

    # -- telling it --------------------------------------------------------------------------

    def _tell(self, told: Told, query: AttachQuery, sight: Sight) -> Response:
        run = told.run
        # While it ends, its record is stored: the end itself is still to come.
        more = isinstance(run, PausedRun) or (isinstance(run, Run) and not run.emitter.ended)
        last = self._counted(run, query.after)
        if query.after > last:
            raise ValidationFailed([Problem(query.where, f"the run has had {last} events")])
        if query.after == last and not more:
            return _nothing_more(told.run_id)
        self._check_room()

        def start(subscriber: t.Any) -> t.Any:
            if isinstance(run, Run):
                run.add_reader(subscriber)
            return run

        projection = self._projection(told, query, sight)
        return streaming.respond(projection, start, {}, told.run_id, after=query.after)

    def _counted(self, run: t.Any, after: int) -> int:
        """The number of the last event. That of a run which another process left behind is told in a moment."""
        log: RunLog = run.log
        for _ in range(_LOOKS):
            if after <= log.last or not isinstance(run, Run) or run.emitter.ended:
                break
            gevent.sleep(_LOOK_S)
        return log.last

    def _projection(self, told: Told, query: AttachQuery, sight: Sight) -> Projection:
        if query.protocol == "graph":
            rights = sight.rights()
            return graph_events(self._services.store, told.run_id, told.thread_id, told.workflow, rights)
        if query.protocol == "builder":
            return builder_events(
                self._services, told.run_id, told.workflow_id, told.thread_id, query.replay == "durable"
            )
        return _projection(told, query, sight)

    def _check_room(self) -> None:
        """:raises ApiError: 503: as many streams as may be are open in this process."""
        if len(streaming.service(current_app)) >= 2 * self._services.settings.max_streams:
            message = "Too many streams are open here (twice STUDIO_MAX_STREAMS); try again."
            raise ApiError(503, "at_capacity", message, headers={"Retry-After": "5"})


def events_path(run_id: str, query: AttachQuery, sight: Sight) -> str:
    """What another process of this host is asked for the same stream."""
    flags = {  # of a visitor his chat decides
        "includeThinking": query.include_thinking and not sight.public,
        "includeToolCalls": query.include_tool_calls and query.protocol == PROTOCOL and not sight.public,
    }
    asked = "".join(f"&{name}=true" for name, wanted in flags.items() if wanted)
    if query.protocol == "runs":
        asked += f"&events={query.events}"
    if query.after:
        asked = f"&after={run_id}:{query.after}{asked}"
    return f"{sight.runs_url}/{run_id}/events?protocol={query.protocol}{asked}"


def _elsewhere(run_id: str) -> ApiError:
    message = (
        "This run is carried by a process that this server cannot reach. Attach at the server that started "
        f"it, or wait for its record: GET /api/runs/{run_id}"
    )
    return ApiError(503, "run_elsewhere", message, headers={"Retry-After": "2"})


def _nothing_more(run_id: str) -> Response:
    """What an ``EventSource`` stops to reconnect at."""
    response = Response(status=204, headers={"X-Run-Id": run_id})
    del response.headers["Content-Type"]
    return response


def _projection(told: Told, query: AttachQuery, sight: Sight) -> Projection:
    if query.protocol == "runs":
        rights = sight.rights(query.include_thinking, tools=True)
        return RunEvents(
            RunEventsOptions(
                told.run_id,
                told.thread_id,
                query.events,
                rights,
                told.voices(),
            )
        )
    live = query.protocol != "agent-text"
    return AgentEvents(
        AgentEventsOptions(
            told.run_id,
            live,
            not live or joins_blocks(request.environ),
            sight.rights(query.include_thinking, query.include_tool_calls),
            sight.selections if told.selections is None else told.selections,
            told.answers,
            told.thread_id,
            sight.runs_url,
            working=sight.public,
        )
    )


def _check(run_id: str, key_id: str | None) -> None:
    """:raises ApiError: 404: the run is not the caller's."""
    if not caller().reads(key_id):
        raise not_found("run", run_id)


def install(app: Flask, services: Services) -> None:
    """Put the route on ``app``."""
    blueprint = Blueprint("attach", __name__)
    blueprint.add_url_rule("/api/runs/<run_id>/events", "attach", Attacher(services))
    app.register_blueprint(blueprint)
