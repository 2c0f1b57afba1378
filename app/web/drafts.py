"""What the routes of workflows share: reading a document, and saying what a workflow or a version is.

Law of this room: a draft may be of any shape; only what would run can be deployed (:mod:`app.web.judging`).
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Callable

from flask import request

from app.clock import rfc3339
from app.engine.giving_way import giving_way
from app.errors import ApiError, Problem, ValidationFailed
from app.store.errors import RevisionConflict
from app.store.versions import VersionRow, VersionSummary, VersionUnknown
from app.store.workflows import WorkflowRow, WorkflowSummary
from app.web import etags
from app.web.accept import prefers
from app.web.errors import not_found
from app.web.http import object_of, read_bytes, services
from app.web.judging import Judged
from app.workflows.document import parse

YAML = "application/yaml"
#: Names under which YAML goes about (RFC 9512 and before).
YAML_TYPES = (YAML, "application/x-yaml", "text/yaml", "text/x-yaml")
#: Tries of a change while others change the same workflow.
_TRIES = 20
_T = t.TypeVar("_T")
#: A version, as addresses and queries name it.
NUMBER = re.compile(r"[1-9][0-9]{0,8}")


def read_document() -> dict[str, t.Any]:
    """The document in the request's body, as JSON or, with its content type, YAML.

    :raises ApiError: see :func:`app.web.http.read_object`.
    :raises ValidationFailed: it is no document by its form, too large or too deep.
    """
    data = read_bytes()
    if not data:
        raise ValidationFailed([Problem("", "the body is empty; send a workflow document")])
    if request.mimetype not in YAML_TYPES and not request.mimetype.endswith("+yaml"):
        return parse(object_of(data), giving_way())
    try:
        return parse(data.decode("utf-8-sig"), giving_way())
    except UnicodeDecodeError as error:
        raise ValidationFailed([Problem("", f"the YAML is not UTF-8 ({error.reason}); send UTF-8")]) from None


def wants_yaml() -> bool:
    """Whether the caller prefers a document in YAML."""
    return prefers(request.headers.get("Accept", ""), *YAML_TYPES)


def known(workflow_id: str) -> WorkflowRow:
    """A stored workflow.

    :raises ApiError: 404.
    """
    row = services().store.workflows.get(workflow_id)
    if row is None:
        raise not_found("workflow", workflow_id)
    return row


def settled(workflow_id: str, step: Callable[[WorkflowRow], _T]) -> _T:
    """What ``step`` makes of a workflow as it is; again, where somebody changed it meanwhile.

    :raises ApiError: 404. 412 it is not as the caller has seen it.
    """
    for _ in range(_TRIES):
        row = known(workflow_id)
        named = etags.match_if_sent(row.revision, row.created_at)
        try:
            return step(row)
        except RevisionConflict:
            if named is not None:
                raise
        except VersionUnknown:  # removed in the same moment
            raise not_found("workflow", workflow_id) from None
    raise etags.conflict("Others change it all the time")


def nothing_live(workflow_id: str) -> ApiError:
    """409, as for whoever wants to run it."""
    message = f"The workflow '{workflow_id}' has no live version. Deploy it, or name a version."
    return ApiError(409, "not_deployed", message)


def summary_of(row: WorkflowSummary) -> dict[str, t.Any]:
    """A workflow in a list."""
    return _without_none(
        {
            "id": row.id,
            "name": row.name,
            "liveVersion": row.live_version,
            "draftDiffers": row.draft_differs,
            "createdAt": rfc3339(row.created_at),
            "updatedAt": rfc3339(row.updated_at),
        }
    )


def short_of(row: WorkflowRow) -> dict[str, t.Any]:
    """A workflow without its draft."""
    differs = services().store.workflows.draft_differs(row.id, row.created_at, row.revision)
    return summary_of(
        WorkflowSummary(row.id, row.name, row.live_version, row.created_at, row.updated_at, differs)
    )


def workflow_of(row: WorkflowRow, judged: Judged) -> dict[str, t.Any]:
    """A workflow with its draft, and what there is to say about that."""
    return {
        **short_of(row),
        "document": row.document,
        "problems": problems_of(judged.problems),
        "warnings": problems_of(judged.warnings),
    }


def version_of(row: VersionSummary | VersionRow, live: int | None) -> dict[str, t.Any]:
    """A version.

    :param live: the version that is live.
    """
    body: dict[str, t.Any] = {
        "version": row.version,
        "name": row.name,
        "description": row.description,
        "live": row.version == live,
        "createdAt": rfc3339(row.created_at),
        "createdBy": row.created_by,
    }
    if isinstance(row, VersionRow):
        body["document"] = row.document
    return _without_none(body)


def problems_of(problems: t.Iterable[Problem]) -> list[dict[str, str]]:
    """Problems in a body that is no error."""
    return [{"path": problem.path, "message": problem.message} for problem in problems]


def _without_none(body: dict[str, t.Any]) -> dict[str, t.Any]:
    return {name: value for name, value in body.items() if value is not None}
