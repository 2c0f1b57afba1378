"""``GET /api/chat/{slug}``, and the door to every route of a chat: which chat, whether it answers, who comes in.

Law of this room: the checks have one order, the same on every route: is there a chat, does it answer, may this page use
it, is this visitor let in. A visitor learns which of them failed and nothing of what is behind the door.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping
from dataclasses import dataclass

from flask import Blueprint, Flask, Response, g

from app.engine.catalog import Runnable
from app.errors import ApiError, Problem, ValidationFailed
from app.schemas.paths import join
from app.streams.rights import Rights
from app.web import chat_gates, chat_origins
from app.web.auth import Caller
from app.web.catalog import check_ready
from app.web.chat_gates import Visitor
from app.web.http import json_response, read_query
from app.web.sight import Sight
from app.workflows import selectors
from app.workflows.compiled import AGENT, CompiledWorkflow
from app.workflows.public_selections import public_problems
from app.workflows.selectors import Selection

if t.TYPE_CHECKING:
    from app.engine.services import Services
    from app.store.chats import ChatRow

_USES_FILES = re.compile(r"input\s*(?:\.\s*files|\[\s*['\"]files['\"]\s*\])")


@dataclass(frozen=True, slots=True)
class Chat:
    """A chat that answers.

    :ivar found: the live version of its workflow.
    :ivar selections: what of a run its visitors get. :ivar keeps_files: this server keeps files at all.
    """

    row: ChatRow
    found: Runnable
    selections: tuple[Selection, ...]
    keeps_files: bool

    @property
    def rights(self) -> Rights:
        """What its visitors may see."""
        return Rights(self.row.include_thinking, self.row.include_tool_calls, public=True)

    @property
    def takes_files(self) -> bool:
        """Whether something in its workflow looks at files that come with a message."""
        return self.keeps_files and takes_files(self.found.workflow)


class Door:
    """What every route of chats asks first."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._catalog = services.catalog

    def find(self, slug: str) -> Chat:
        """The chat, if it answers and the page that asks may use it.

        :raises ApiError: 404 there is none. 403 ``chat_inactive`` it is switched off, or nothing is deployed; 403
            ``origin_not_allowed``. 503 ``chat_not_ready`` it cannot answer as things are.
        """
        generation = self._services.store.generation()
        row = self._services.store.chats.by_slug(slug, generation)
        g.chat = row
        if row is None:
            raise ApiError(404, "not_found", "There is no chat at this address. Check it.")
        if not row.active:
            raise _inactive()
        chat_origins.check(row)
        found = self._runnable(row, generation)
        selections, problems = selections_of(row.outputs, found.workflow)
        if not selections and problems:
            raise _not_ready()
        return Chat(row, found, selections, self._services.settings.files_mb > 0)

    def let_in(self, chat: Chat, body: Mapping[str, t.Any] | None = None) -> Visitor:
        """Who comes in; from then on the request is his.

        :param body: what was sent to get in with.
        :raises ApiError: see :func:`app.web.chat_gates.enter`.
        """
        visitor = chat_gates.enter(chat.row, body)
        # Runs, threads and questions are found by whose they are, as for keys. A visitor has no scopes.
        g.caller = Caller(visitor.subject, frozenset())
        return visitor

    def check_ready(self, chat: Chat) -> None:
        """:raises ApiError: 503 ``chat_not_ready``: a run would fail, as things are."""
        try:
            check_ready(chat.found, self._services, public=True)
        except ApiError:
            raise _not_ready() from None

    def show(self, slug: str) -> Response:
        """What everybody who is let in may know of the chat."""
        chat = self.find(slug)
        self.let_in(chat)
        _, problems = read_query()
        if problems:
            raise ValidationFailed(problems)
        row = chat.row
        body = {
            "title": row.title,
            "description": row.description,
            "welcomeMessage": row.welcome_message,
            "authType": row.auth_type,
            "includeThinking": row.include_thinking,
            "includeToolCalls": row.include_tool_calls,
            "files": chat.takes_files,
            "customization": row.customization,
        }
        return json_response({name: value for name, value in body.items() if value is not None})

    def _runnable(self, row: ChatRow, generation: int) -> Runnable:
        try:
            return self._catalog.find(row.workflow_id, None, generation)
        except ApiError as error:
            # What is wrong with a workflow is its owner's business.
            raise (_inactive() if error.code in ("not_deployed", "not_found") else _not_ready()) from None


def sight_of(chat: Chat) -> Sight:
    """How its visitors see runs."""
    row = chat.row
    url = f"/api/chat/{row.slug}/runs"
    return Sight(url, True, row.include_thinking, row.include_tool_calls, chat.selections)


def selections_of(
    outputs: tuple[str, ...] | None, workflow: CompiledWorkflow
) -> tuple[tuple[Selection, ...], list[Problem]]:
    """What of a run visitors get, and what is wrong with ``outputs``: a version that was deployed later may lack some.

    :param outputs: as of a chat; None: the text of those that answer, else what a response block says.
    """
    if outputs is None:
        texts = tuple(Selection(block, ("content",)) for block in workflow.answer_agents())
        said = (block.id for block in workflow.blocks.values() if block.type.type_name == "response")
        return texts or tuple(Selection(block, ("body",)) for block in said), []
    found: list[Selection] = []
    problems: list[Problem] = []
    for place, output in enumerate(outputs):
        field = join("outputs", place)
        try:
            picked = _resolve(output, workflow, field)
        except ValidationFailed as failed:
            problems += failed.details
            continue
        hidden = public_problems(picked, workflow, field)
        problems += hidden
        found += () if hidden else picked
    return tuple(dict.fromkeys(found)), problems


def _resolve(output: str, workflow: CompiledWorkflow, field: str) -> tuple[Selection, ...]:
    try:
        return selectors.resolve([output], workflow)
    except ValidationFailed as failed:
        raise ValidationFailed([Problem(field, problem.message) for problem in failed.details]) from None


def takes_files(workflow: CompiledWorkflow) -> bool:
    """Whether a block reads the files that come with a message: an agent that answers it, or whatever names them."""
    for block in workflow.blocks.values():
        if block.type.type_name == AGENT and block.config.files is None:
            prompt = block.config.prompt
            if prompt is None or "input.message" in prompt:
                return True
    return _names_files(workflow.document)


def _names_files(value: t.Any) -> bool:
    if isinstance(value, str):
        return _USES_FILES.search(value) is not None
    if isinstance(value, Mapping):
        return any(map(_names_files, value.values()))
    return isinstance(value, (list, tuple)) and any(map(_names_files, value))


def _inactive() -> ApiError:
    return ApiError(403, "chat_inactive", "This chat is not open at the moment.")


def _not_ready() -> ApiError:
    message = "This chat cannot answer at the moment. Tell whoever runs it."
    return ApiError(503, "chat_not_ready", message, headers={"Retry-After": "60"})


def unknown(what: str, name: str) -> ApiError:
    """404 of a chat's route, the same for what does not exist and for what is another visitor's."""
    return ApiError(404, "not_found", f"There is no {what} '{name[:100]}' of yours in this chat.")


def door(app: Flask) -> Door:
    """The door of ``app``."""
    found: Door | None = app.extensions.get("studio.chats")
    if found is None:
        found = app.extensions["studio.chats"] = Door(app.extensions["studio"])
    return found


def install(app: Flask) -> None:
    """Put the route on ``app``."""
    blueprint = Blueprint("chat_config", __name__)
    blueprint.add_url_rule("/api/chat/<slug>", "show", door(app).show)
    app.register_blueprint(blueprint)
