"""``/api/chats``: deploy a workflow as a chat, change how, and take it away.

Law of this room: a chat's password comes in and goes out nowhere. A write names the revision it has seen. How a chat is
judged is in :mod:`app.web.chat_deployments`.
"""

from __future__ import annotations

import re
import typing as t

from flask import Blueprint, Flask, Response

from app.errors import ApiError, Problem, ValidationFailed
from app.store.chats import ChatRow, SlugTaken
from app.store.errors import RevisionConflict, StoreConflict
from app.web import audit, etags, passwords
from app.web.chat_deployments import Deployments, body_of, told_create, told_delete, told_update
from app.web.errors import not_found
from app.web.http import json_response, read_nothing, read_object, services
from app.web.lists import page_of, read_page
from app.web.starting import spent

if t.TYPE_CHECKING:
    from app.engine.services import Services

_CURSOR = re.compile(r"chat_[0-9A-Za-z_]{1,60}")
#: Times that a change is judged anew because others changed the chat meanwhile.
_TRIES = 5


class Chats:
    """The views, with what they need at hand."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._deployments = Deployments(services, services.catalog, lambda: services.settings)

    # -- views -------------------------------------------------------------------------------

    def index(self) -> Response:
        """``{items, nextCursor?}``, newest first."""
        sent, problems, cursor, limit = read_page(_CURSOR, "workflowId")
        if sent.get("workflowId") == "":
            problems.append(Problem("workflowId", "is empty; leave it out"))
        if problems:
            raise ValidationFailed(problems)
        rows, further = self._services.store.chats.list(cursor, limit, sent.get("workflowId"))
        states: dict[str, dict[str, t.Any]] = {}
        for row in rows:
            if row.workflow_id not in states:
                states[row.workflow_id] = self._deployments.deployed(row.workflow_id)
        return page_of([body_of(row, states[row.workflow_id]) for row in rows], further)

    def create(self) -> Response:
        """Deploy a chat: 201."""
        values = self._deployments.judged(read_object(), None, passwords.make_hash)
        try:
            row = self._services.store.chats.create(values, audit.note(told_create))
        except SlugTaken as taken:
            raise ApiError(409, taken.code, taken.message) from None
        except StoreConflict as conflict:  # its workflow was removed in the same moment
            raise ValidationFailed([Problem("workflowId", conflict.message)]) from None
        response = self._answer(row, 201)
        response.headers["Location"] = f"/api/chats/{row.id}"
        return response

    def show(self, chat_id: str) -> Response:
        """A chat."""
        return self._answer(_chat(chat_id))

    def change(self, chat_id: str) -> Response:
        """Change what the body names; null takes something away."""
        before = _chat(chat_id)
        etags.require_match(before.revision)
        sent = read_object()
        for _ in range(_TRIES):
            try:
                judged = self._deployments.judged(sent, before, passwords.make_hash)
                note = audit.note(told_update(before))
                row = self._services.store.chats.update(chat_id, before.revision, judged, note)
                break
            except SlugTaken as taken:
                raise ApiError(409, taken.code, taken.message) from None
            except RevisionConflict:  # what was judged is not what is there
                before = _chat(chat_id)
                etags.require_match(before.revision)  # 412, unless any will do
        else:
            raise etags.conflict("Others change it all the time")
        if row is None:
            raise not_found("chat", chat_id)
        return self._answer(row)

    def remove(self, chat_id: str) -> Response:
        """Take a chat away: 204."""
        read_nothing()
        row = _chat(chat_id)
        note = audit.note(told_delete(row))
        if not self._services.store.chats.delete(chat_id, etags.require_match(row.revision), note):
            raise not_found("chat", chat_id)
        return Response(status=204)

    def _answer(self, row: ChatRow, status: int = 200) -> Response:
        body = body_of(row, self._deployments.deployed(row.workflow_id))
        if used := spent(self._services.store, self._services.clock.now_ms(), f"chat:{row.id}", row.budget):
            body["spent"] = used
        if problems := self._deployments.problems(row):
            body["problems"] = [{"path": p.path, "message": p.message} for p in problems]
        return etags.set_etag(json_response(body, status), row.revision)


def _chat(chat_id: str) -> ChatRow:
    row = services().store.chats.get(chat_id)
    if row is None:
        raise not_found("chat", chat_id)
    return row


def install(app: Flask, services: Services) -> None:
    """Put the routes on ``app``."""
    blueprint = Blueprint("chats", __name__)
    views = Chats(services)
    blueprint.add_url_rule("/api/chats", "index", views.index)
    blueprint.add_url_rule("/api/chats", "create", views.create, methods=["POST"])
    blueprint.add_url_rule("/api/chats/<chat_id>", "show", views.show)
    blueprint.add_url_rule("/api/chats/<chat_id>", "change", views.change, methods=["PATCH"])
    blueprint.add_url_rule("/api/chats/<chat_id>", "remove", views.remove, methods=["DELETE"])
    app.register_blueprint(blueprint)
