"""``/api/workflows``: drafts are made, read, changed, judged and removed.

Law of this room: a draft may be saved while it could not run; what is wrong with it is said in the same answer. Who
replaces or removes one names what it has seen (``If-Match``), so that nobody undoes what he does not know. What runs is
not touched: see :mod:`app.web.versions`.
"""

from __future__ import annotations

import re
import typing as t

from flask import Blueprint, Flask, Response

from app.errors import ApiError, Problem, ValidationFailed
from app.store.workflows import HasChats, WorkflowExists, WorkflowRow
from app.web import audit, drafts, etags
from app.web.errors import not_found
from app.web.http import json_response, read_object, read_query, services
from app.web.judging import Judge
from app.web.lists import page_of, read_page
from app.workflows.document import export, name_of, parse
from app.workflows.ids import id_problem

if t.TYPE_CHECKING:
    from app.engine.services import Services
    from app.store.writer import Note

_CURSOR = re.compile(r"([0-9]{1,15})-([A-Za-z0-9_-]{1,64})")


def index() -> Response:
    """``{items, nextCursor?}``, newest first; ``?name=``: those that have this in their name."""
    sent, problems, cursor, limit = read_page(_CURSOR, "name", judge=_empty_name)
    if problems:
        raise ValidationFailed(problems)
    found = None if cursor is None else _CURSOR.fullmatch(cursor)
    before = None if found is None else (int(found[1]), found[2])
    rows, last = services().store.workflows.page(sent.get("name"), before, limit)
    return page_of(list(map(drafts.summary_of, rows)), None if last is None else f"{last[0]}-{last[1]}")


def _empty_name(sent: t.Mapping[str, str]) -> list[Problem]:
    return [Problem("name", "is empty; leave it out")] if sent.get("name") == "" else []


class Drafts:
    """The views that judge documents."""

    def __init__(self, parts: Services, judge: Judge) -> None:
        self._judge = judge
        self._runners = parts.plugins.runners

    def create(self) -> Response:
        """Save a new draft under an id of its own: 201."""
        document = drafts.read_document()
        return self._made(services().store.workflows.create(document, name_of(document), note=_create_note()))

    def show(self, workflow_id: str) -> Response:
        """A workflow with its draft; the draft alone for who wants YAML."""
        row = drafts.known(workflow_id)
        if drafts.wants_yaml():
            response = Response(export(row.document), content_type=drafts.YAML)
            etags.set_etag(response, row.revision, row.created_at, weak=True)
        else:
            response = self._answer(row)
        response.vary.add("Accept")
        return response

    def replace(self, workflow_id: str) -> Response:
        """Replace the draft by what is sent; with ``If-None-Match: *`` make the workflow, under this id."""
        document = drafts.read_document()
        if etags.must_be_new():
            return self._made(self._create(workflow_id, document))
        row = drafts.known(workflow_id)
        seen = etags.require_match(row.revision, row.created_at)
        return self._changed(row, seen, document)

    def change(self, workflow_id: str) -> Response:
        """Change members of the draft: a merge patch (RFC 7396), in which null takes a member away."""
        patch = read_object()

        def step(row: WorkflowRow) -> Response:
            etags.require_match(row.revision, row.created_at)
            return self._changed(row, row.revision, parse(_merged(row.document, patch)))

        return drafts.settled(workflow_id, step)

    def validate(self) -> Response:
        """What is wrong with a document, without saving it; ``?workflowId=``: as the draft of that one."""
        sent, problems = read_query("workflowId")
        if problems:
            raise ValidationFailed(problems)
        judged = self._judge.document(sent.get("workflowId", ""), drafts.read_document())
        return json_response(
            {
                "valid": not judged.problems,
                "problems": drafts.problems_of(judged.problems),
                "warnings": drafts.problems_of(judged.warnings),
            }
        )

    def _create(self, workflow_id: str, document: dict[str, t.Any]) -> WorkflowRow:
        if problem := id_problem(workflow_id):
            raise ValidationFailed([Problem("workflow_id", problem)])
        if workflow_id in self._runners:
            raise etags.conflict(f"A plugin brings the workflow '{workflow_id}'")
        try:
            return services().store.workflows.create(document, name_of(document), workflow_id, _create_note())
        except WorkflowExists as there:
            raise etags.conflict(there.message) from None

    def _made(self, row: WorkflowRow) -> Response:
        response = self._answer(row, 201)
        response.headers["Location"] = f"/api/workflows/{row.id}"
        return response

    def _changed(self, row: WorkflowRow, seen: int | None, document: dict[str, t.Any]) -> Response:
        audit.unchanged()  # unless the note is asked
        changed = services().store.workflows.change(
            row.id, seen, document, name_of(document, row.name), audit.note(_told_update)
        )
        if changed is None:
            raise not_found("workflow", row.id)
        return self._answer(changed)

    def _answer(self, row: WorkflowRow, status: int = 200) -> Response:
        response = json_response(drafts.workflow_of(row, self._judge.draft(row)), status)
        return etags.set_etag(response, row.revision, row.created_at)


def remove(workflow_id: str) -> Response:
    """Remove a workflow and its versions: 204. What its runs have left stays, and runs that go on do."""
    sent, problems = read_query("chats")
    if sent.get("chats", "delete") != "delete":
        problems.append(Problem("chats", "must be delete; leave it out to keep a workflow that has chats"))
    problems += [Problem(name, "unknown key; this call takes no body") for name in read_object()]
    if problems:
        raise ValidationFailed(problems)
    row = drafts.known(workflow_id)
    seen = etags.require_match(row.revision, row.created_at)
    note = audit.note(audit.told("workflow.delete", f"workflow:{workflow_id}", {"name": row.name}))
    try:
        removed = services().store.workflows.remove(workflow_id, seen, "chats" in sent, note)
    except HasChats as kept:
        message = f"{kept.message} Delete them first, or all at once with ?chats=delete."
        details = [Problem("chats", slug) for slug in kept.slugs]
        raise ApiError(409, "has_chats", message, details) from None
    if not removed:
        raise not_found("workflow", workflow_id)
    return Response(status=204)


def _create_note() -> Note:
    return audit.note(lambda row: audit.Entry("workflow.create", f"workflow:{row.id}", {"name": row.name}))


def _told_update(row: WorkflowRow) -> audit.Entry:
    return audit.Entry("workflow.update", f"workflow:{row.id}", {"revision": row.revision})


def _merged(target: t.Any, patch: t.Any) -> t.Any:
    """RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merged(merged.get(name), value)
    return merged


def install(app: Flask, parts: Services, judge: Judge) -> None:
    """Put the routes on ``app``."""
    views = Drafts(parts, judge)
    blueprint = Blueprint("workflows", __name__)
    one = "/api/workflows/<workflow_id>"
    blueprint.add_url_rule("/api/workflows", "index", index)
    blueprint.add_url_rule("/api/workflows", "create", views.create, methods=["POST"])
    blueprint.add_url_rule("/api/workflows/validate", "validate", views.validate, methods=["POST"])
    blueprint.add_url_rule(one, "show", views.show)
    blueprint.add_url_rule(one, "replace", views.replace, methods=["PUT"])
    blueprint.add_url_rule(one, "change", views.change, methods=["PATCH"])
    blueprint.add_url_rule(one, "remove", remove, methods=["DELETE"])
    app.register_blueprint(blueprint)
