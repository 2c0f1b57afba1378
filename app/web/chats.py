"""``/api/chats``: deploy a workflow as a chat, change how, and take it away.

Law of this room: a chat is judged as a whole, everything that is wrong at once, also where only a part is changed. Its
password comes in and goes out nowhere. A write names the revision it has seen.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping

from flask import Blueprint, Flask, Response

from app.clock import rfc3339
from app.errors import ApiError, Problem, ValidationFailed
from app.schemas.chat_deployment import ChatDeploymentBody, load_deployment
from app.schemas.paths import in_document_order
from app.store.chats import ChatRow, SlugTaken
from app.store.errors import RevisionConflict, StoreConflict
from app.web import audit, chat_gates, etags, passwords
from app.web.chat_config import selections_of
from app.web.errors import not_found
from app.web.http import json_response, read_nothing, read_object, services
from app.web.lists import page_of, read_page
from app.web.starting import spent

if t.TYPE_CHECKING:
    from app.engine.services import Services

_CURSOR = re.compile(r"chat_[0-9A-Za-z_]{1,60}")
#: Times that a change is judged anew because others changed the chat meanwhile.
_TRIES = 5
#: Members of a body, by the names of a row.
_WIRE = {
    "workflow_id": "workflowId",
    "slug": "slug",
    "title": "title",
    "description": "description",
    "welcome_message": "welcomeMessage",
    "auth_type": "authType",
    "allowed_emails": "allowedEmails",
    "outputs": "outputs",
    "include_thinking": "includeThinking",
    "include_tool_calls": "includeToolCalls",
    "customization": "customization",
    "allowed_origins": "allowedOrigins",
    "rate_limit": "rateLimit",
    "budget": "budget",
    "redact": "redact",
    "active": "active",
}


class Chats:
    """The views, with what they need at hand."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._catalog = services.catalog

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
                states[row.workflow_id] = self._deployed(row.workflow_id)
        return page_of([_body(row, states[row.workflow_id]) for row in rows], further)

    def create(self) -> Response:
        """Deploy a chat: 201."""
        values = self._judged(read_object(), None)
        try:
            row = self._services.store.chats.create(values, audit.note(_told_create))
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
                judged, note = self._judged(sent, before), audit.note(_told_update(before))
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
        note = audit.note(audit.told("chat.delete", f"chat:{row.id}", _noted(row)))
        if not self._services.store.chats.delete(chat_id, etags.require_match(row.revision), note):
            raise not_found("chat", chat_id)
        return Response(status=204)

    # -- parts -------------------------------------------------------------------------------

    def _judged(self, sent: Mapping[str, t.Any], before: ChatRow | None) -> dict[str, t.Any]:
        """What to store, by the names of a row.

        :param before: the chat that is changed; None for a new one.
        :raises ValidationFailed: 400 with every problem. :raises ApiError: 409 ``not_deployed``.
        """
        whole = {**({} if before is None else _wire(before)), **sent}
        kept = before is not None and before.password is not None
        body, problems = load_deployment(whole, kept, self._services.plugins.detectors)
        if (
            before is not None and sent.get("authType", "") is None
        ):  # nobody opens a chat by leaving something out
            problems.append(Problem("authType", 'must not be null; "public" lets everybody in'))
        if body is not None:
            problems += self._known_problems(body, before)
            if before is None or before.auth_type != body.auth_type:
                problems += chat_gates.unready(body.auth_type)
        if body is None or problems:
            raise ValidationFailed(in_document_order(sent, problems))
        values = {name: getattr(body, name) for name in _WIRE}
        if body.password is not None:
            values["password"] = passwords.make_hash(body.password)
        elif body.auth_type != "password":
            values["password"] = None  # what nobody is asked for any more is not kept
        return values

    def _known_problems(self, body: ChatDeploymentBody, before: ChatRow | None) -> list[Problem]:
        """What is wrong with what it names: its workflow, the blocks of that, detectors."""
        if before is not None and (body.workflow_id, body.outputs) == (before.workflow_id, before.outputs):
            return []
        if self._services.store.workflows.get(body.workflow_id) is None:
            cure = "See: GET /api/workflows"
            return [Problem("workflowId", f"there is no workflow '{body.workflow_id[:100]}'. {cure}")]
        try:
            workflow = self._catalog.find(body.workflow_id).workflow
        except ValidationFailed as failed:
            return [Problem("workflowId", f"its live version cannot run ({failed.message})")]
        selections, problems = selections_of(body.outputs, workflow)
        if not selections and not problems and body.outputs is None:
            message = "is required: no agent answers in this workflow; name what visitors get, as block.path"
            problems.append(Problem("outputs", message))
        return problems

    def _deployed(self, workflow_id: str) -> dict[str, t.Any]:
        """The live version of a workflow, and whether its draft is another document."""
        workflows = self._services.store.workflows
        workflow, live = workflows.get(workflow_id), workflows.live(workflow_id)
        return {
            "version": None if live is None else live.version,
            "draftDiffers": live is None or workflow is None or workflow.document != live.document,
        }

    def _answer(self, row: ChatRow, status: int = 200) -> Response:
        body = _body(row, self._deployed(row.workflow_id))
        if used := spent(self._services, f"chat:{row.id}", row.budget):
            body["spent"] = used
        if problems := self._problems(row):
            body["problems"] = [{"path": p.path, "message": p.message} for p in problems]
        return etags.set_etag(json_response(body, status), row.revision)

    def _problems(self, row: ChatRow) -> list[Problem]:
        """What the live version lacks of what visitors are to get."""
        try:
            return selections_of(row.outputs, self._catalog.find(row.workflow_id).workflow)[1]
        except ApiError as error:
            return [Problem("workflowId", error.message)]


def _chat(chat_id: str) -> ChatRow:
    row = services().store.chats.get(chat_id)
    if row is None:
        raise not_found("chat", chat_id)
    return row


def _wire(row: ChatRow) -> dict[str, t.Any]:
    """A chat as it is sent; what is unset is left out."""
    found = {wire: getattr(row, name) for name, wire in _WIRE.items()}
    return {name: value for name, value in found.items() if value is not None and value != ()}


def _body(row: ChatRow, deployed: Mapping[str, t.Any]) -> dict[str, t.Any]:
    body = {
        "id": row.id,
        **_wire(row),
        "outputs": row.outputs,
        "hasPassword": row.password is not None,
        **deployed,
        "createdAt": rfc3339(row.created_at),
        "updatedAt": rfc3339(row.updated_at),
    }
    return {name: value for name, value in body.items() if value is not None}


def _noted(row: ChatRow) -> dict[str, t.Any]:
    """What the audit log keeps of a chat."""
    return {"slug": row.slug, "workflowId": row.workflow_id, "authType": row.auth_type}


def _told_create(row: ChatRow) -> audit.Entry:
    return audit.Entry("chat.create", f"chat:{row.id}", _noted(row))


def _told_update(before: ChatRow) -> audit.Tell:
    def tell(row: ChatRow | None) -> audit.Entry | None:
        if row is None:
            return None
        changed = [wire for name, wire in _WIRE.items() if getattr(row, name) != getattr(before, name)]
        changed += ["password"] if row.password != before.password else []
        return audit.Entry("chat.update", f"chat:{row.id}", {"slug": row.slug, "changed": changed})

    return tell


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
