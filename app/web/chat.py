"""``POST /api/chat/{slug}``: what a visitor says, and the answer as agent events in public mode (contract section 8).

Law of this room: as for execute, every check comes before the first byte and before any run; entering the conversation
is the last of them. What a visitor may see is the deployment's to say, never the request's.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from flask import Blueprint, Flask, Response, request

from app.engine.run_request import RunRequest
from app.errors import ApiError, Problem, ValidationFailed
from app.redaction.loading import load_policy
from app.schemas.chat_message import ChatMessageBody, load_message
from app.schemas.paths import join
from app.store.threads import ThreadRow
from app.streams.agent_events import AgentEvents, AgentEventsOptions
from app.web import streaming, waiting
from app.web.accept import takes_no_stream
from app.web.chat_config import Chat, door, sight_of
from app.web.chat_gates import Visitor
from app.web.http import MAX_BODY, client_address, read_object, refuse_idempotency_key
from app.web.negotiation import Negotiation, negotiate
from app.web.starting import let_visitor_start
from app.workflows.file_entries import MAX_BYTES, Entry, FileRefused, content_of, sniff

if t.TYPE_CHECKING:
    from app.engine.services import Services

#: Most bytes of a message: what files of 50 MiB take in base64, and the words that go with them.
MAX_MESSAGE = 72 * 1024 * 1024
#: Most messages of more than 10 MiB that a process takes in at once: each needs several times its size.
MOST_LARGE = 4


class Talk:
    """The view, with what it needs at hand."""

    def __init__(self, app: Flask, services: Services) -> None:
        self._services = services
        self._door = door(app)
        self._large = 0

    def __call__(self, slug: str) -> Response:
        """Check, enter the conversation, start, and answer."""
        chat = self._door.find(slug)
        sent = self._read(chat)
        visitor = self._door.let_in(chat, sent)
        refuse_idempotency_key()
        body = load_message(sent)
        files = _files(chat, body)
        json = takes_no_stream(request.environ.get("HTTP_ACCEPT", ""))
        agreed = negotiate(request.environ, lenient=True)
        self._door.check_ready(chat)
        address = client_address(request.environ, self._services.settings.trusted_proxies)
        budgets = let_visitor_start(self._services, chat.row, visitor, chat.found, address)
        thread = self._thread(chat, visitor, body.conversation_id)
        run_request = _run_request(chat, visitor, body, files, thread)
        origin = _origin(chat, agreed, json)
        run_request = replace(run_request, origin=origin, budgets=budgets)
        answer = self._wait if json else self._stream
        response = answer(chat, run_request, agreed, address)
        if body.conversation_id is None:
            response.headers["X-Conversation-Id"] = str(run_request.conversation_id)
        return response

    # -- what comes in -----------------------------------------------------------------------

    def _read(self, chat: Chat) -> dict[str, t.Any]:
        """The body. One that is large is taken from those alone who are let in without it.

        :raises ApiError: see :func:`app.web.http.read_object` and :meth:`Door.let_in`; 503 ``at_capacity``.
        """
        if (request.content_length or 0) <= MAX_BODY:
            return read_object()
        self._door.let_in(chat)
        with self._room():
            return read_object(MAX_MESSAGE)

    @contextmanager
    def _room(self) -> Iterator[None]:
        if self._large >= MOST_LARGE:
            message = "Too many large messages are being sent at this moment; try again."
            raise ApiError(503, "at_capacity", message, headers={"Retry-After": "10"})
        self._large += 1
        try:
            yield
        finally:
            self._large -= 1

    # -- the run -----------------------------------------------------------------------------

    def _thread(self, chat: Chat, visitor: Visitor, name: str | None) -> ThreadRow:
        """The conversation, which a new run has now to itself. Another visitor's of the same name is another one.

        :raises ApiError: 409 ``thread_busy`` or ``thread_paused``.
        """
        threads, clock = self._services.store.threads, self._services.clock
        run_id, name = clock.new_id("run"), name or clock.new_id("conv")
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

    def _stream(self, chat: Chat, run_request: RunRequest, agreed: Negotiation, address: str) -> Response:
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
        return streaming.respond_run(self._services, run_request, projection, echo, address)

    def _wait(self, chat: Chat, run_request: RunRequest, agreed: Negotiation, address: str) -> Response:
        reader, url = object(), sight_of(chat).runs_url
        try:
            run = self._services.runs.start(run_request, readers=(reader,), address=address)
        except BaseException:
            if run_request.thread is not None:
                self._services.store.threads.leave(run_request.thread)
            raise
        return waiting.answer_of(run, reader, chat.selections, chat.rights, url)


def _run_request(
    chat: Chat,
    visitor: Visitor,
    body: ChatMessageBody,
    files: list[dict[str, t.Any]],
    thread: ThreadRow,
) -> RunRequest:
    settings = chat.found.workflow.settings
    return RunRequest(
        run_id=str(thread.run_id),
        workflow_id=chat.found.workflow_id,
        version=chat.found.version,
        workflow=chat.found.workflow,
        input={"message": body.input, "conversationId": thread.name, "files": files},
        timeout_s=settings.timeout_s,
        key_id=visitor.subject,
        conversation_id=thread.name,
        on_disconnect=settings.on_disconnect,
        disconnect_grace_s=settings.disconnect_grace_s,
        show_thinking=chat.row.include_thinking,
        thread=thread,
        selections=chat.selections,
        traceparent=request.environ.get("HTTP_TRACEPARENT"),
        public=True,
        redact=load_policy(chat.row.redact, "redact")[0],
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


def _files(chat: Chat, body: ChatMessageBody) -> list[dict[str, t.Any]]:
    """The files of a message as entries that agents take, each what its bytes say.

    :raises ValidationFailed: 400 with every problem.
    """
    if body.files and not chat.takes_files:
        raise ValidationFailed([Problem("files", "this chat takes no files; leave them out")])
    entries, problems, left = [], [], MAX_BYTES
    for place, file in enumerate(body.files):
        entry = Entry(data=file.data, media_type=file.type, name=file.name)
        try:
            data, stated = content_of(entry)
            _, media_type, _ = sniff(data, stated)
        except FileRefused as refused:
            problems.append(Problem(join("files", place), str(refused)))
            continue
        left -= len(data)
        # As it came: who reads it looks at the bytes again.
        entries.append({"name": _plain(file.name), "media_type": media_type, "data": file.data})
    if left < 0:
        problems.append(Problem("files", f"may have {MAX_BYTES // 1024 // 1024} MiB together; send less"))
    if problems:
        raise ValidationFailed(problems)
    return entries


def _plain(name: str) -> str:
    """A name without what is no character, and without folders."""
    bare = name.replace("\\", "/").rpartition("/")[2]
    return "".join(c for c in bare if c.isprintable()) or "file"


def install(app: Flask, services: Services) -> None:
    """Put the route on ``app``."""
    blueprint = Blueprint("talk", __name__)
    blueprint.add_url_rule("/api/chat/<slug>", "talk", Talk(app, services), methods=["POST"])
    app.register_blueprint(blueprint)
