"""``POST /chat/resume``: answer the question at which a turn has paused, and go on with it (contract section 6).

Law of this room: how an answer is judged and given is :mod:`app.web.resume`'s, the same on every surface; here a thread
leads to the run. What comes back begins where the turn went on, in the form that the answerer prefers.
"""

from __future__ import annotations

import typing as t

from flask import Blueprint, Flask, Response, current_app, request

from app import encoding
from app.errors import ApiError
from app.schemas.answers import AnswerBody
from app.schemas.attach import AttachQuery
from app.schemas.chat import ChatResumeBody, load_chat_resume
from app.streams.rights import Rights
from app.web import answers, relay, runs, waiting
from app.web.accept import wants_stream
from app.web.attach import Attacher
from app.web.auth import Caller, caller
from app.web.errors import not_found, unauthorized
from app.web.graph_answer import Listener, goes_on
from app.web.graph_reader import graph_events
from app.web.held import held
from app.web.http import read_object
from app.web.resume import Resumed, follow, resume, surfaces
from app.web.told import of_stored_log

if t.TYPE_CHECKING:
    from app.engine.services import Services
    from app.store.threads import ThreadRow

_NAMES = answers.Names("pause_id", "edited_text", "edited_arguments")
#: Who answers without a key, for the record.
VISITOR = "visitor"


class GraphResumer:
    """The view, with what it needs at hand."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._catalog = services.catalog
        self._attacher = Attacher(services)

    def __call__(self) -> Response:
        """Check, answer, and follow."""
        sent = read_object()
        who = caller()
        if who.key_id is None:
            self._let_in(sent.get("thread_id"))
        body = load_chat_resume(sent)
        thread = self._thread(body.thread_id, who)
        run_id = self._asking(thread, body.pause_id)
        run, row = runs.find(run_id)
        if row is None:
            raise _not_paused(thread)
        if run is None and row["status"] == "running":  # the process that carries it answers best
            passed = relay.respond(
                self._services, row["owner_id"], run_id, "/chat/resume", encoding.dumps(sent)
            )
            if passed is not None:
                return passed
        self._check_sight(run_id, body, who)
        answer = AnswerBody(
            body.decision, body.edited_text, body.edited_arguments, body.reason, body.remember
        )
        resumed = resume(self._services, row, body.pause_id, answer, who.key_id or VISITOR, _NAMES)
        stream = wants_stream(request.environ.get("HTTP_ACCEPT", ""))
        anonymous = who.key_id is None
        return self._answer(resumed, stream, Rights(payloads=not anonymous, public=anonymous))

    def install(self, app: Flask) -> None:
        """Let a turn go on as it began, also where its question was answered by the id of its run."""
        keyed = Rights(payloads=True)
        surfaces(app)["graph"] = lambda resumed: self._answer(resumed, True, keyed)
        surfaces(app)["graph-json"] = lambda resumed: self._answer(resumed, False, keyed)

    # -- which turn --------------------------------------------------------------------------

    def _let_in(self, thread_id: t.Any) -> None:
        """Nobody's threads of public workflows are for those who know them.

        :raises ApiError: 401: the caller has no key, and the thread is none of those.
        """
        thread = self._services.store.threads.get(thread_id) if isinstance(thread_id, str) else None
        if thread is None or thread.key_id is not None or not self._catalog.is_public(thread.workflow_id):
            raise unauthorized("Send your key in the header X-API-Key; this thread is not open to all.")

    def _thread(self, thread_id: str, who: Caller) -> ThreadRow:
        """:raises ApiError: 404: there is none that the caller may answer for."""
        thread = self._services.store.threads.get(thread_id)
        if thread is None or (who.key_id is not None and not runs.may_stop(who, {"key_id": thread.key_id})):
            raise not_found("thread", thread_id)
        return thread

    def _asking(self, thread: ThreadRow, pause_id: str | None) -> str:
        """The run an answer is for: that of the question, where it is one of this thread, else the last one.

        :raises ApiError: 409 ``not_paused``.
        """
        asked = None if pause_id is None else self._services.store.decisions.get(pause_id)
        if asked is not None and asked.thread_id == thread.id:
            return asked.run_id
        if thread.run_id is None:
            raise _not_paused(thread)
        return thread.run_id

    def _check_sight(self, run_id: str, body: ChatResumeBody, who: Caller) -> None:
        """Nobody decides about what they may not see.

        :raises ApiError: 401: the question is about a call, whose arguments are for keys.
        """
        if who.key_id is not None:
            return
        asked = answers.open_decision(self._services.store, run_id, body.pause_id, _NAMES)
        if asked.review.get("kind") == "tool":
            raise unauthorized("Send a key in the header X-API-Key; calls of tools are approved with one.")

    # -- how it goes on ----------------------------------------------------------------------

    def _answer(self, resumed: Resumed, stream: bool, rights: Rights) -> Response:
        run, run_id = resumed.run, str(resumed.row["id"])
        if run is None:
            return self._elsewhere(resumed, stream, rights)
        asked = run.request
        projection = graph_events(self._services.store, run_id, asked.thread_id or "", asked.workflow, rights)
        if stream:
            return follow(resumed, projection, {})
        listener = Listener(projection, run_id)
        listener.catch_up(run, resumed.after)
        return listener.answer(run)

    def _elsewhere(self, resumed: Resumed, stream: bool, rights: Rights) -> Response:
        """Of a turn that goes on in another process: as one who attaches, or who waits; 202 to those who cannot."""
        run_id = str(resumed.row["id"])
        if not stream:
            return self._waited(resumed, rights)
        if not rights.payloads:
            return goes_on(run_id, resumed.row["thread_id"])
        query = AttachQuery("graph", False, False, "full", resumed.after, "after")
        path = f"/api/runs/{run_id}/events?protocol=graph&after={run_id}:{resumed.after}"
        return self._attacher.attach(run_id, query, path)

    def _waited(self, resumed: Resumed, rights: Rights) -> Response:
        """The JSON answer of such a turn, once it is complete or pauses."""
        store, run_id = self._services.store, str(resumed.row["id"])
        row = waiting.waited_elsewhere(store, run_id)
        if row is None:
            return waiting.nobody()
        told = of_stored_log(row, self._catalog, store, held(current_app))
        if told is None:
            return goes_on(run_id, row["thread_id"])
        listener = Listener(graph_events(store, run_id, told.thread_id, told.workflow, rights), run_id)
        listener.hear(told.run.log, resumed.after)
        return listener.heard(row["thread_id"])


def _not_paused(thread: ThreadRow) -> ApiError:
    return ApiError(409, "not_paused", f"The thread '{thread.id}' waits for nobody.")


def install(app: Flask, services: Services, blueprint: Blueprint) -> None:
    """Put the route on ``blueprint``, and the surface on ``app``."""
    resumer = GraphResumer(services)
    resumer.install(app)
    blueprint.add_url_rule("/chat/resume", "resume", resumer, methods=["POST"])
