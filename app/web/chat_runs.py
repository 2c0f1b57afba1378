"""What a visitor may do with the runs he has started: see how they stand, follow, stop and answer them; and read his
conversations again.

Law of this room: how runs are followed, stopped and answered is what those who have keys do, seen through a visitor's
eyes. His own runs are those started under his name in this chat; all others do not exist for him.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from flask import Blueprint, Flask, Response, request
from werkzeug.routing import BaseConverter

from app.clock import rfc3339
from app.engine.redaction import kept_name
from app.errors import ApiError, Problem, ValidationFailed
from app.redaction.loading import policy_of
from app.schemas.attach import load_attach
from app.store.run_list import RunFilter
from app.streams.final import selection_map, selects
from app.streams.public_texts import code_for, text_for
from app.streams.rights import Rights, strip_review
from app.web import runs
from app.web.attach import Attacher
from app.web.auth import caller
from app.web.chat_config import Chat, door, sight_of, unknown
from app.web.http import json_response, read_query
from app.web.lists import page_of, read_page
from app.web.record import resume_block
from app.web.resume import Resumer
from app.web.run_list import CURSOR

if t.TYPE_CHECKING:
    from app.engine.services import Services
    from app.store.checkpoints import DecisionRow

#: Who answers, for the record.
VISITOR = "visitor"
_PUBLIC = Rights(public=True)
#: What a visitor is told where a key is told who, when and why.
_WORDS = {
    "already_answered": "This was decided already.",
    "decision_expired": "The time to decide is over.",
    "not_paused": "There is nothing to decide.",
    "workflow_unavailable": "This cannot be decided at the moment. Try again later.",
    "run_elsewhere": "This cannot be done at the moment. Try again.",
}


class Visits:
    """The views, with what they need at hand."""

    def __init__(self, app: Flask, services: Services) -> None:
        self._services = services
        self._door = door(app)
        self._attacher = Attacher(services)
        self._resumer = Resumer(services)

    def show(self, slug: str, run_id: str) -> Response:
        """How a run stands, and what it asks."""
        chat = self._enter(slug)
        _, problems = read_query()
        if problems:
            raise ValidationFailed(problems)
        _, row = runs.find(run_id)
        if row is None or not caller().owns(row["key_id"]):
            raise unknown("run", run_id)
        return json_response(self._standing(chat, row))

    def events(self, slug: str, run_id: str) -> Response:
        """Follow a run, from its beginning or from an event on."""
        chat = self._enter(slug)
        sent, problems = read_query("protocol", "after")
        sent = {"protocol": sent.get("protocol", "agent-events-v1"), **sent}
        if sent["protocol"] not in ("agent-events-v1", "agent-text"):
            raise ValidationFailed([*problems, Problem("protocol", "there are agent-events-v1, agent-text")])
        if sent["protocol"] == "agent-events-v1":  # the chat decides what is shown
            sent |= {"includeThinking": "true", "includeToolCalls": "true"}
        with for_visitor(run_id):
            query = load_attach(sent, problems, run_id, request.environ.get("HTTP_LAST_EVENT_ID", ""))
            return self._attacher.attach(run_id, query, sight=sight_of(chat))

    def cancel(self, slug: str, run_id: str) -> Response:
        """Ask a run to stop."""
        self._enter(slug)
        with for_visitor(run_id):
            return runs.cancel(run_id)

    def resume(self, slug: str, run_id: str) -> Response:
        """Answer what a run asks, and follow how it goes on."""
        chat = self._enter(slug)
        with for_visitor(run_id):
            return self._resumer.visit(run_id, sight_of(chat), VISITOR)

    def conversation(self, slug: str, conversation: str) -> Response:
        """``{items, nextCursor?}``: what was said in a conversation, newest first; of answers what is final."""
        chat = self._enter(slug)
        _, problems, cursor, limit = read_page(CURSOR)
        if problems:
            raise ValidationFailed(problems)
        store, subject = self._services.store, caller().key_id
        name = kept_name(self._services, chat.found.workflow, policy_of(chat.row.redact), conversation)
        thread = store.threads.find(chat.found.workflow_id, str(subject), name)
        if thread is None:
            raise unknown("conversation", conversation)
        page, further = store.run_list.page(RunFilter(subject, thread_id=thread.id), cursor, limit)
        found = (runs.find(row["id"])[1] for row in page)
        return page_of([self._said(chat, row) for row in found if row is not None], further)

    # -- parts -------------------------------------------------------------------------------

    def _enter(self, slug: str) -> Chat:
        chat = self._door.find(slug)
        self._door.let_in(chat)
        return chat

    def _standing(self, chat: Chat, row: Mapping[str, t.Any]) -> dict[str, t.Any]:
        body: dict[str, t.Any] = {
            "runId": row["id"],
            "conversationId": row["conversation_id"],
            "status": row["status"],
            "createdAt": rfc3339(row["created_at"]),
            "endedAt": None if row["ended_at"] is None else rfc3339(row["ended_at"]),
            "error": _error(row["error"]),
        }
        if row["status"] == "paused":
            asked = self._services.store.decisions.open_of_run(row["id"])
            body["resume"] = resume_block(row, asked, sight_of(chat).runs_url)
            body["pauses"] = [_asked(decision) for decision in asked]
        return {name: value for name, value in body.items() if value is not None}

    def _said(self, chat: Chat, row: Mapping[str, t.Any]) -> dict[str, t.Any]:
        """One message, and what was answered."""
        body = self._standing(chat, row)
        given = row["input"] if isinstance(row["input"], Mapping) else {}
        body["input"] = given.get("message", "")
        if files := given.get("files"):
            body["files"] = [{"name": file.get("name"), "type": file.get("media_type")} for file in files]
        body["answers"] = list(_answers(chat, row["blocks"]))
        rest = [picked for picked in chat.selections if picked.path != ("content",)]
        if rest and row["status"] == "completed":
            outputs = {block["block"]: block["output"] or {} for block in row["blocks"]}
            body["output"] = selection_map(outputs, rest, _PUBLIC)
        return body


def _answers(chat: Chat, blocks: t.Iterable[Mapping[str, t.Any]]) -> Iterator[dict[str, t.Any]]:
    """The texts of a run that visitors get, in the order in which they were complete."""
    ended = [block for block in blocks if block["status"] == "executed"]
    texts = {block["block"]: block for block in ended}  # of one that ran several times, the last stands
    for block in sorted(texts.values(), key=lambda block: block["ended_at"] or 0):
        shown = any(p.path == ("content",) and selects(p.block, block["block"]) for p in chat.selections)
        text = (block["output"] or {}).get("content")
        if shown and isinstance(text, str) and text:
            yield {"blockId": block["block"], "text": text}


def _asked(decision: DecisionRow) -> dict[str, t.Any]:
    """One thing that is to be decided; of a call a visitor learns that it waits, and others decide."""
    body = {"pauseId": decision.id, "review": strip_review(decision.shown, _PUBLIC)}
    if decision.expires_at is not None:
        body["expiresAt"] = rfc3339(decision.expires_at)
    return {**body, "yours": decision.review.get("kind") != "tool"}


def _error(error: Mapping[str, t.Any] | None) -> dict[str, str] | None:
    if error is None:
        return None
    code = code_for(error["code"])
    return {"code": code, "message": text_for(code)}


@contextmanager
def for_visitor(run_id: str) -> Iterator[None]:
    """Inside, errors say to a visitor what he may know."""
    try:
        yield
    except ValidationFailed:
        raise
    except ApiError as error:
        if error.status == 404:
            raise unknown("run", run_id) from None
        if error.code in _WORDS:
            raise ApiError(error.status, error.code, _WORDS[error.code], headers=error.headers) from None
        raise


class _AnyPath(BaseConverter):
    """The rest of a path, whatever a visitor has in a name: slashes in front and line ends as well."""

    regex = "(?s:.+)"
    part_isolating = False


def install(app: Flask, services: Services) -> None:
    """Put the routes on ``app``."""
    blueprint = Blueprint("chat_runs", __name__)
    views = Visits(app, services)
    start = "/api/chat/<slug>/runs/<run_id>"
    add = blueprint.add_url_rule
    add(start, "show", views.show)
    add(f"{start}/events", "events", views.events)
    add(f"{start}/cancel", "cancel", views.cancel, methods=["POST"])
    add(f"{start}/resume", "resume", views.resume, methods=["POST"])
    app.url_map.converters["path"] = _AnyPath
    add("/api/chat/<slug>/conversations/<path:conversation>", "conversation", views.conversation)
    app.register_blueprint(blueprint)
