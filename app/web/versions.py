"""``/api/workflows/{id}/deploy``, ``/versions``, ``/diff``, ``/rollback``: what is live, and what was.

Law of this room: what becomes live was judged in the very revision that becomes live; where somebody changes the
workflow in between, it is judged again, or the caller who named a revision is told. A run that goes on keeps its
version.
"""

from __future__ import annotations

import typing as t

from flask import Blueprint, Flask, Response

from app.errors import ApiError, Problem, ValidationFailed
from app.schemas.management import DeployBody, RollbackBody, load
from app.store.workflows import WorkflowRow
from app.web import audit, chat_fit, diffs, drafts, etags
from app.web.auth import caller
from app.web.drafts import NUMBER
from app.web.errors import not_found
from app.web.http import json_response, read_nothing, read_object, services
from app.web.judging import Judge, Judged
from app.web.lists import page_of, read_page
from app.workflows.document import export

if t.TYPE_CHECKING:
    from app.engine.services import Services
    from app.store.versions import Versions


def index(workflow_id: str) -> Response:
    """``{items, nextCursor?}``: versions without their documents, newest first."""
    _, problems, cursor, limit = read_page(NUMBER)
    if problems:
        raise ValidationFailed(problems)
    row = drafts.known(workflow_id)
    rows, last = _versions().page(row.id, None if cursor is None else int(cursor), limit)
    return page_of([drafts.version_of(version, row.live_version) for version in rows], last)


def show(workflow_id: str, version: str) -> Response:
    """One version with its document; the document alone for who wants YAML."""
    row = drafts.known(workflow_id)
    found = _versions().get(row.id, int(version)) if NUMBER.fullmatch(version) else None
    if found is None:
        raise not_found("version", version)
    if drafts.wants_yaml():
        response = Response(export(found.document), content_type=drafts.YAML)
    else:
        response = json_response(drafts.version_of(found, row.live_version))
    response.vary.add("Accept")
    return response


class Deploying:
    """The views that make something live."""

    def __init__(self, services: Services, judge: Judge) -> None:
        self._store = services.store
        self._judge = judge
        self._catalog = services.catalog

    def deploy(self, workflow_id: str) -> Response:
        """Make the draft live: 201 with a new version, 200 where the live one says the same."""
        body = load(DeployBody, read_object())

        def step(row: WorkflowRow) -> tuple[Judged, tuple[int, bool]]:
            judged = _fit(self._judge.draft(row, anew=True))
            by = caller().key_id
            note = audit.note(_told_deploy(row.id))
            done = _versions().deploy(row.id, body.name, body.description, by, row.revision, note)
            return judged, done

        judged, (number, is_new) = drafts.settled(workflow_id, step)
        response = _state(workflow_id, number, self._warnings(workflow_id, judged), 201 if is_new else 200)
        if is_new:
            response.headers["Location"] = f"/api/workflows/{workflow_id}/versions/{number}"
        return response

    def rollback(self, workflow_id: str) -> Response:
        """Make an earlier version live again."""
        body = load(RollbackBody, read_object())

        def step(row: WorkflowRow) -> tuple[Judged, int]:
            if body.draft:
                etags.require_match(row.revision, row.created_at)
            number = _earlier(row) if body.version is None else body.version
            version = _versions().get(row.id, number)
            if version is None:
                raise not_found("version", str(number))
            judged = _fit(self._judge.version(row, version))
            details = {"version": number, "draft": body.draft}
            note = audit.note(audit.told("workflow.rollback", f"workflow:{row.id}", details))
            _versions().rollback(row.id, number, row.revision, body.draft, note)
            return judged, number

        judged, number = drafts.settled(workflow_id, step)
        return _state(workflow_id, number, self._warnings(workflow_id, judged))

    def _warnings(self, workflow_id: str, judged: Judged) -> tuple[Problem, ...]:
        """What may be a mistake in what is live now, and what its chats lack in it."""
        return (*judged.warnings, *chat_fit.lacking(self._store, self._catalog, workflow_id))


def undeploy(workflow_id: str) -> Response:
    """Let nothing be live; runs that go on are left alone."""
    read_nothing()
    note = audit.note(_told_undeploy(workflow_id))
    drafts.settled(workflow_id, lambda row: _versions().undeploy(row.id, row.revision, note))
    return _state(workflow_id, None, ())


def _fit(judged: Judged) -> Judged:
    """What may be a mistake in what is to run.

    :raises ValidationFailed: it would not run; nothing is changed.
    """
    if judged.problems:
        raise ValidationFailed(judged.problems, warnings=judged.warnings)
    return judged


def _earlier(row: WorkflowRow) -> int:
    """The version before the live one."""
    if row.live_version is None:
        raise drafts.nothing_live(row.id)
    number = _versions().before(row.id, row.live_version)
    if number is None:
        message = f"There is no version before {row.live_version}, which is live. Name one that is there."
        raise ApiError(409, "no_earlier_version", message)
    return number


def _state(
    workflow_id: str, number: int | None, warnings: tuple[Problem, ...], status: int = 200
) -> Response:
    """The workflow as it is now, without its draft, and the version that was made live."""
    row = drafts.known(workflow_id)
    body = drafts.short_of(row)
    version = None if number is None else _versions().told(row.id, number)
    if version is not None:
        body["version"] = drafts.version_of(version, row.live_version)
        body["warnings"] = drafts.problems_of(warnings)
    return etags.set_etag(json_response(body, status), row.revision, row.created_at)


def _told_deploy(workflow_id: str) -> audit.Tell:
    def tell(live: tuple[int, bool]) -> audit.Entry | None:
        number, is_new = live
        return (
            audit.Entry("workflow.deploy", f"workflow:{workflow_id}", {"version": number}) if is_new else None
        )

    return tell


def _told_undeploy(workflow_id: str) -> audit.Tell:
    def tell(was: int | None) -> audit.Entry | None:
        subject = f"workflow:{workflow_id}"
        return None if was is None else audit.Entry("workflow.undeploy", subject, {"version": was})

    return tell


def _versions() -> Versions:
    return services().store.workflows.versions


def install(app: Flask, services: Services, judge: Judge) -> None:
    """Put the routes on ``app``."""
    views = Deploying(services, judge)
    blueprint = Blueprint("versions", __name__)
    one = "/api/workflows/<workflow_id>"
    blueprint.add_url_rule(f"{one}/deploy", "deploy", views.deploy, methods=["POST"])
    blueprint.add_url_rule(f"{one}/deploy", "undeploy", undeploy, methods=["DELETE"])
    blueprint.add_url_rule(f"{one}/rollback", "rollback", views.rollback, methods=["POST"])
    blueprint.add_url_rule(f"{one}/versions", "index", index)
    blueprint.add_url_rule(f"{one}/versions/<version>", "show", show)
    blueprint.add_url_rule(f"{one}/diff", "diff", diffs.show)
    app.register_blueprint(blueprint)
