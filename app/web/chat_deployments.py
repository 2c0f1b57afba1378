"""What is deployed as a chat: judged, told, and noted, whoever asks.

Law of this room: the API and the commands come this way, so that both refuse the same. A chat is judged as a whole,
everything that is wrong at once, also where only a part is changed. No request is looked at here.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Mapping

from app.clock import rfc3339
from app.config import Settings
from app.engine.catalog import Catalog, Parts
from app.errors import ApiError, Problem, ValidationFailed
from app.schemas.chat_deployment import ChatDeploymentBody, load_deployment
from app.schemas.paths import in_document_order
from app.store.audit import Entry, Tell, told
from app.store.chats import ChatRow
from app.web import chat_gates
from app.web.chat_config import selections_of

#: Members of a body, by the names of a row.
WIRE = {
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


class Deployments:
    """Judges chats.

    :param catalog: of the same store and plugins. :param settings: gives those that hold now.
    """

    def __init__(self, parts: Parts, catalog: Catalog, settings: Callable[[], Settings]) -> None:
        self._parts, self._catalog, self._settings = parts, catalog, settings

    def judged(
        self, sent: Mapping[str, t.Any], before: ChatRow | None, make_hash: Callable[[str], str]
    ) -> dict[str, t.Any]:
        """What to store, by the names of a row.

        :param before: the chat that is changed; None for a new one. :param make_hash: of a password.
        :raises ValidationFailed: 400 with every problem. :raises ApiError: 409 ``not_deployed``.
        """
        whole = {**({} if before is None else wire(before)), **sent}
        kept = before is not None and before.password is not None
        body, problems = load_deployment(whole, kept, self._parts.plugins.detectors)
        if (
            before is not None and sent.get("authType", "") is None
        ):  # nobody opens a chat by leaving something out
            problems.append(Problem("authType", 'must not be null; "public" lets everybody in'))
        if body is not None:
            problems += self._known_problems(body, before)
            if before is None or before.auth_type != body.auth_type:
                problems += chat_gates.unready(body.auth_type, self._settings())
        if body is None or problems:
            raise ValidationFailed(in_document_order(sent, problems))
        values = {name: getattr(body, name) for name in WIRE}
        if body.password is not None:
            values["password"] = make_hash(body.password)
        elif body.auth_type != "password":
            values["password"] = None  # what nobody is asked for any more is not kept
        return values

    def _known_problems(self, body: ChatDeploymentBody, before: ChatRow | None) -> list[Problem]:
        """What is wrong with what it names: its workflow, the blocks of that, detectors."""
        if before is not None and (body.workflow_id, body.outputs) == (before.workflow_id, before.outputs):
            return []
        if self._parts.store.workflows.get(body.workflow_id) is None:
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

    def deployed(self, workflow_id: str) -> dict[str, t.Any]:
        """The live version of a workflow, and whether its draft is another document."""
        workflows = self._parts.store.workflows
        workflow, live = workflows.get(workflow_id), workflows.live(workflow_id)
        return {
            "version": None if live is None else live.version,
            "draftDiffers": live is None or workflow is None or workflow.document != live.document,
        }

    def problems(self, row: ChatRow) -> list[Problem]:
        """What the live version lacks of what visitors are to get."""
        try:
            return selections_of(row.outputs, self._catalog.find(row.workflow_id).workflow)[1]
        except ApiError as error:
            return [Problem("workflowId", error.message)]


def wire(row: ChatRow) -> dict[str, t.Any]:
    """A chat as it is sent; what is unset is left out."""
    found = {wire: getattr(row, name) for name, wire in WIRE.items()}
    return {name: value for name, value in found.items() if value is not None and value != ()}


def body_of(row: ChatRow, deployed: Mapping[str, t.Any]) -> dict[str, t.Any]:
    """A chat as it is told, without what is secret.

    :param deployed: see :meth:`Deployments.deployed`.
    """
    body = {
        "id": row.id,
        **wire(row),
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


def told_create(row: ChatRow) -> Entry:
    """What the audit log says of a new chat."""
    return Entry("chat.create", f"chat:{row.id}", _noted(row))


def told_update(before: ChatRow) -> Tell:
    """What it says of a change.

    :param before: what the writer has seen.
    """

    def tell(row: ChatRow | None) -> Entry | None:
        if row is None:
            return None
        changed = [wire for name, wire in WIRE.items() if getattr(row, name) != getattr(before, name)]
        changed += ["password"] if row.password != before.password else []
        return Entry("chat.update", f"chat:{row.id}", {"slug": row.slug, "changed": changed})

    return tell


def told_delete(row: ChatRow) -> Tell:
    """What it says of a chat that was taken away."""
    return told("chat.delete", f"chat:{row.id}", _noted(row))
