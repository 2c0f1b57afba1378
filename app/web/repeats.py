"""How a repeated start is answered: with the run that the first one began, from its beginning, as it was answered then.

Law of this room: a repeat starts nothing, enters nothing and counts as no start; it is a reader of the run like any
other, with its own rights. The process that carries the run answers best, and is passed the request as it came. As many
may wait in a process as it may carry runs.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from flask import Response, current_app

from app import encoding
from app.errors import ApiError
from app.schemas.attach import AttachQuery
from app.streams.final import RUNS_URL
from app.web import relay, waiting
from app.web.attach import Attacher, events_path
from app.web.runs import carried
from app.web.sight import KEYED, Sight

if t.TYPE_CHECKING:
    from app.engine.services import Services
    from app.streams.final import Selection
    from app.streams.rights import Rights
    from app.web.graph_answer import Listener
    from app.web.told import Told

#: What a run that is told from its record was asked to select: by its row.
Selected = Callable[[Mapping[str, t.Any]], "tuple[Selection, ...] | None"]


class Repeats:
    """What the surfaces share."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._attacher = Attacher(services)

    def row(self, run_id: str) -> dict[str, t.Any]:
        """The row of the run.

        :raises ApiError: 404: it is not there any more.
        """
        return self._attacher.row(run_id)

    def passed_on(self, run_id: str, body: Mapping[str, t.Any]) -> Response | None:
        """The answer of the process that carries, or carried, the run; None where that is this one, or is away.

        :param body: of the request.
        """
        if self._here(run_id):
            return None
        owner = self.row(run_id)["owner_id"]
        try:
            with self._place():
                return relay.respond(self._services, owner, run_id, body=encoding.dumps(body))
        except ApiError as error:
            if error.code != "run_elsewhere":
                raise
            return None  # it went away: what it has stored can be told

    def stream(
        self, run_id: str, query: AttachQuery, headers: Mapping[str, str], sight: Sight = KEYED
    ) -> Response:
        """The stream of the run, from its first event.

        :param headers: further response headers. :raises ApiError: see :meth:`Attacher.attach`.
        """
        response = self._attacher.attach(run_id, query, events_path(run_id, query, sight), sight)
        response.headers.update(headers)
        return response

    def answer(self, run_id: str, rights: Rights, selected: Selected, runs_url: str = RUNS_URL) -> Response:
        """The JSON answer of the run, once it has ended or pauses.

        :param selected: asked where nobody knows any more what was selected. :raises ApiError: 503 ``at_capacity``.
        """
        with self._place():
            return self._answer(run_id, rights, selected, runs_url)

    def _answer(self, run_id: str, rights: Rights, selected: Selected, runs_url: str) -> Response:
        run = carried(run_id)
        if run is not None:
            reader = object()
            run.add_reader(reader)
            return waiting.answer_of(run, reader, run.request.selections, rights, runs_url)
        kept = self._services.runs.ended(run_id)
        if kept is not None:
            return waiting.answer_kept(kept, rights, runs_url)
        selections = selected(self.row(run_id))
        return waiting.answer_elsewhere(self._services.store, run_id, selections, rights, runs_url)

    def heard(self, run_id: str, listener: Callable[[Told], Listener]) -> Response:
        """The answer of a turn, once it is complete or pauses.

        :param listener: made for the caller, of what is told. :raises ApiError: 503 ``at_capacity``.
        """
        with self._place():
            return self._heard(run_id, listener)

    def _heard(self, run_id: str, listener: Callable[[Told], Listener]) -> Response:
        run = carried(run_id)
        if run is not None:
            made = listener(self._attacher.told(run_id))
            made.catch_up(run, 0)
            return made.answer(run)
        if self._services.runs.ended(run_id) is None:
            self.row(run_id)
            if waiting.waited_elsewhere(self._services.store, run_id) is None:
                return waiting.nobody()
        told = self._attacher.told(run_id)
        made = listener(told)
        made.hear(told.run.log, 0)
        return made.heard(told.thread_id or None)

    def _here(self, run_id: str) -> bool:
        return carried(run_id) is not None or self._services.runs.ended(run_id) is not None

    @contextmanager
    def _place(self) -> Iterator[None]:
        """:raises ApiError: 503 ``at_capacity``: as many repeats as may wait in this process."""
        waiting_now: list[None] = current_app.extensions.setdefault("studio.repeats", [])
        if len(waiting_now) >= self._services.settings.max_streams:
            message = "Too many repeated requests wait here (STUDIO_MAX_STREAMS); try again."
            raise ApiError(503, "at_capacity", message, headers={"Retry-After": "5"})
        waiting_now.append(None)
        try:
            yield
        finally:
            waiting_now.pop()
