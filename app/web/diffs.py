"""``GET /api/workflows/{id}/diff``: what has changed from one version to another, or to the draft.

Law of this room: documents are compared by their structure (:mod:`app.workflows.diff`); every change has the JSON path
by which validation would name the place.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Mapping

from flask import Response

from app.errors import Problem, ValidationFailed
from app.schemas.paths import join
from app.store.workflows import WorkflowRow
from app.web import drafts
from app.web.drafts import NUMBER
from app.web.errors import not_found
from app.web.http import json_response, read_query, services
from app.workflows.diff import BlockChange, Change, EdgeChange, diff

DRAFT = "draft"


def show(workflow_id: str) -> Response:
    """``?from=&to=``: each a version's number or ``draft``; without them, from the live version to the draft."""
    sent, problems = read_query("from", "to")
    problems += [
        Problem(name, "must be the number of a version, or draft")
        for name, value in sent.items()
        if name in ("from", "to") and value != DRAFT and not NUMBER.fullmatch(value)
    ]
    if problems:
        raise ValidationFailed(problems)
    row = drafts.known(workflow_id)
    if "from" not in sent and row.live_version is None:
        raise drafts.nothing_live(row.id)
    earlier, later = sent.get("from", str(row.live_version)), sent.get("to", DRAFT)
    return json_response(
        {
            "from": _named(earlier),
            "to": _named(later),
            **_body(_document(row, earlier), _document(row, later)),
        }
    )


def _named(name: str) -> str | int:
    return name if name == DRAFT else int(name)


def _document(row: WorkflowRow, name: str) -> dict[str, t.Any]:
    if name == DRAFT:
        return row.document
    version = services().store.workflows.version(row.id, int(name))
    if version is None:
        raise not_found("version", name)
    return version.document


def _body(before: Mapping[str, t.Any], after: Mapping[str, t.Any]) -> dict[str, t.Any]:
    found = diff(before, after)
    return {
        "same": found.empty,
        "blocks": {
            **{
                kind: [_block(block) for block in found.blocks if block.kind == kind]
                for kind in ("added", "removed", "changed")
            },
            "reordered": found.blocks_reordered,
        },
        "edges": {
            **{
                kind: [_edge(edge) for edge in found.edges if edge.kind == kind]
                for kind in ("added", "removed")
            },
            "reordered": found.edges_reordered,
        },
        "variables": _changes(found.variables),
        "settings": _changes(found.settings),
        "document": _changes(found.document),
    }


def _block(found: BlockChange) -> dict[str, t.Any]:
    """One of both sides is told by what has changed in it, the others whole."""
    known = found.block if isinstance(found.block, Mapping) else {}
    told = {key: known[key] for key in ("id", "type", "name") if isinstance(known.get(key), str)}
    body = {**told, "path": join("blocks", found.at)}
    if found.kind == "changed":
        return {**body, "changes": _changes(found.changes)}
    return {**body, "block": found.block}


def _edge(found: EdgeChange) -> dict[str, t.Any]:
    return {"path": join("edges", found.at), "edge": found.edge}


def _changes(found: Iterable[Change]) -> list[dict[str, t.Any]]:
    return [_change(change) for change in found]


def _change(change: Change) -> dict[str, t.Any]:
    body: dict[str, t.Any] = {"path": join("", *change.at), "change": change.kind}
    if change.kind != "added":
        body["from"] = change.before
    if change.kind != "removed":
        body["to"] = change.after
    return body
