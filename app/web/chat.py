"""``POST /api/chat/{slug}``: what a visitor says, and the answer as agent events in public mode (contract section 8).

Law of this room: as for execute, every check comes before the first byte and before any run; entering the conversation
is the last of them. What a visitor may see is the deployment's to say, never the request's.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from flask import Blueprint, Flask, Response, request

from app.engine.redaction import kept_name
from app.engine.run_request import RunRequest
from app.errors import ApiError, Problem, ValidationFailed
from app.redaction.loading import policy_of
from app.schemas.attach import AttachQuery
from app.schemas.chat_message import load_message
from app.store.threads import ThreadRow
from app.streams.agent_events import AgentEvents, AgentEventsOptions
from app.web import chat_files, claims, streaming, visitors, waiting
from app.web.accept import takes_no_stream
from app.web.chat_config import Chat, door, sight_of
from app.web.chat_gates import Visitor
from app.web.chat_runs import for_visitor
from app.web.http import MAX_BODY, read_object
from app.web.limits import network
from app.web.negotiation import PROTOCOL, Negotiation, negotiate
from app.web.repeats import Repeats
from app.web.starting import as_deployed, let_visitor_start
from app.web.told import selected

if t.TYPE_CHECKING:
    from app.engine.services import Services

#: Most bytes of a message: what files of 50 MiB take in base64, and the words that go with them.
MAX_MESSAGE = 72 * 1024 * 1024
#: Most messages of more than 10 MiB that a process takes in at once: each needs several times its size.
MOST_LARGE = 4
#: Of them, from one address: who sends slowly holds his place for minutes, and shall not hold everybody's.
MOST_LARGE_OF_ONE = 2


@dataclass(frozen=True, slots=True)
class _Message:
    """A message whose run may start.

    :ivar json: its sender waits for one JSON answer. :ivar is_named: its sender has named the conversation.
    """

    run_request: RunRequest
    agreed: Negotiation
    json: bool
    address: str
    is_named: bool


@dataclass(frozen=True, slots=True)
class _Again:
    """A message that was sent before, and whose run was begun then; see :class:`_Message`.

    :ivar sent: it, as it came.
    """

    run_id: str
    sent: dict[str, t.Any]
    agreed: Negotiation
    json: bool
    is_named: bool


class Talk:
    """The view, with what it needs at hand."""

    def __init__(self, app: Flask, services: Services) -> None:
        self._services = services
        self._door = door(app)
        self._repeats = Repeats(services)
        self._large: list[str] = []

    def __call__(self, slug: str) -> Response:
        """Check, enter the conversation, start, and answer."""
        chat = self._door.find(slug)
        if (request.content_length or 0) <= MAX_BODY:
            return self._answer(chat, self._taken_in(chat, read_object()))
        self._door.let_in(chat)  # what is large is taken from those alone who get in without it
        with self._room():
            message = self._taken_in(chat, read_object(MAX_MESSAGE))
        return self._answer(chat, message)

    def _taken_in(self, chat: Chat, sent: dict[str, t.Any]) -> _Message | _Again:
        """A message that may start its run, and has entered its conversation; or one that is repeated.

        :raises ApiError: every one there is.
        """
        visitor = self._door.let_in(chat, sent)
        body = load_message(sent)
        asked = _claimed(chat, visitor, sent)
        json = takes_no_stream(request.environ.get("HTTP_ACCEPT", ""))
        agreed = negotiate(request.environ, lenient=True)
        is_named = body.conversation_id is not None
        if asked.is_repeat:
            return _Again(asked.run_id, sent, agreed, json, is_named)
        files = chat_files.read(chat, body.files)
        self._door.check_ready(chat)
        address = network()
        budgets = let_visitor_start(self._services, chat.row, visitor, chat.found, address)
        thread = self._thread(chat, visitor, body.conversation_id, asked.run_id)
        try:
            kept = chat_files.keep(self._services, chat, visitor, files)
        except BaseException:
            self._services.store.threads.leave(thread)
            raise
        given = {"message": body.input, "conversationId": thread.name, "files": kept}
        run_request = _run_request(chat, visitor, thread, given)
        run_request = replace(run_request, origin=_origin(chat, agreed, json), budgets=budgets)
        return _Message(run_request, agreed, json, address, is_named)

    def _answer(self, chat: Chat, message: _Message | _Again) -> Response:
        if isinstance(message, _Again):
            return self._repeated(chat, message)
        response = self._wait(chat, message) if message.json else self._stream(chat, message)
        if not message.is_named:
            response.headers["X-Conversation-Id"] = str(message.run_request.conversation_id)
        return response

    @contextmanager
    def _room(self) -> Iterator[None]:
        """:raises ApiError: 503 ``at_capacity``: as many large messages as may be are being taken in."""
        address = network()
        if len(self._large) >= MOST_LARGE or self._large.count(address) >= MOST_LARGE_OF_ONE:
            message = "Too many large messages are being sent at this moment; try again."
            raise ApiError(503, "at_capacity", message, headers={"Retry-After": "10"})
        self._large.append(address)
        try:
            yield
        finally:
            self._large.remove(address)

    # -- the run -----------------------------------------------------------------------------

    def _thread(self, chat: Chat, visitor: Visitor, name: str | None, run_id: str) -> ThreadRow:
        """The conversation, which a new run has now to itself. Another visitor's of the same name is another one.

        :raises ApiError: 409 ``thread_busy`` or ``thread_paused``.
        """
        threads = self._services.store.threads
        name = name or self._services.clock.new_id("conv")
        name = kept_name(self._services, chat.found.workflow, policy_of(chat.row.redact), name)
        thread = threads.named(chat.found.workflow_id, visitor.subject, name, run_id, alone=True)
        if thread.run_id == run_id:
            return thread
        where = f"{sight_of(chat).runs_url}/{thread.run_id}"
        details = [Problem("runId", str(thread.run_id))]
        if thread.paused:
            message = f"Something has to be decided before this conversation goes on. See: GET {where}"
            raise ApiError(409, "thread_paused", message, details)
        message = f"The last message is still being answered. Wait, or stop it: POST {where}/cancel"
        raise ApiError(409, "thread_busy", message, details)

    def _stream(self, chat: Chat, message: _Message) -> Response:
        run_request, agreed = message.run_request, message.agreed
        options = AgentEventsOptions(
            run_id=run_request.run_id,
            negotiated=agreed.negotiated,
            separator=agreed.separator,
            rights=chat.rights,
            selections=chat.selections,
            thread_id=run_request.thread_id or "",
            runs_url=sight_of(chat).runs_url,
            working=True,
        )
        projection, echo = AgentEvents(options), dict(agreed.echo)
        return streaming.respond_run(self._services, run_request, projection, echo, message.address)

    def _wait(self, chat: Chat, message: _Message) -> Response:
        run_request, reader, url = message.run_request, object(), sight_of(chat).runs_url
        try:
            run = self._services.runs.start(run_request, readers=(reader,), address=message.address)
        except BaseException:
            if run_request.thread is not None:
                self._services.store.threads.leave(run_request.thread)
            raise
        return waiting.answer_of(run, reader, chat.selections, chat.rights, url)

    # -- once more ---------------------------------------------------------------------------

    def _repeated(self, chat: Chat, again: _Again) -> Response:
        """The answer of the run that the message has started before, as this visitor may see it."""
        with for_visitor(again.run_id):
            response = self._repeats.passed_on(again.run_id, again.sent) or self._told(chat, again)
            if not again.is_named and response.status_code < 400:
                name = self._repeats.row(again.run_id)["conversation_id"]
                response.headers["X-Conversation-Id"] = str(name)
        return response

    def _told(self, chat: Chat, again: _Again) -> Response:
        sight, live = sight_of(chat), again.agreed.negotiated
        if again.json:
            return self._repeats.answer(
                again.run_id,
                chat.rights,
                lambda row: selected(row["origin"]) or chat.selections,
                sight.runs_url,
            )
        query = AttachQuery(PROTOCOL if live else "agent-text", live, live, "full", 0, "after")
        return self._repeats.stream(again.run_id, query, again.agreed.echo, sight)


def _claimed(chat: Chat, visitor: Visitor, sent: Mapping[str, t.Any]) -> claims.Start:
    """What a message is to start, or has started.

    :raises ApiError: see :func:`app.web.claims.claim`; 400 ``not_supported``: who sends it could not be recognised by
        a repeat.
    """
    if claims.is_sent() and not visitors.is_known(chat.row):
        problem = Problem(
            claims.HEADER,
            "needs a visitor who is known already; call GET /api/chat/{slug}, or POST …/session, and send back the "
            "cookie or X-Studio-Visitor it answers with, or leave the key out",
        )
        raise ValidationFailed([problem], code="not_supported")
    # What gets a visitor in is said once, and is no part of what he says.
    said = {name: value for name, value in sent.items() if name not in ("password", "email")}
    return claims.claim("message", visitor.subject, said, chat_id=chat.row.id)


def _run_request(chat: Chat, visitor: Visitor, thread: ThreadRow, given: Mapping[str, t.Any]) -> RunRequest:
    return replace(
        as_deployed(chat.found, str(thread.run_id), given),
        key_id=visitor.subject,
        conversation_id=thread.name,
        show_thinking=chat.row.include_thinking,
        thread=thread,
        selections=chat.selections,
        public=True,
        redact=policy_of(chat.row.redact),
    )


def _origin(chat: Chat, agreed: Negotiation, json: bool) -> dict[str, t.Any]:
    """What a resume of the run has to know of how it was asked for; see execute."""
    selections = [[picked.block, list(picked.path)] for picked in chat.selections]
    if json:
        return {"surface": "json", "selections": selections}
    return {
        "surface": "agent",
        "selections": selections,
        "negotiated": agreed.negotiated,
        "separator": agreed.separator,
        "includeThinking": chat.row.include_thinking,
        "includeToolCalls": chat.row.include_tool_calls,
    }


def install(app: Flask, services: Services) -> None:
    """Put the route on ``app``."""
    blueprint = Blueprint("talk", __name__)
    blueprint.add_url_rule("/api/chat/<slug>", "talk", Talk(app, services), methods=["POST"])
    app.register_blueprint(blueprint)
