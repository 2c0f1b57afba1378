"""``/api/secrets``: store, list and remove credentials that workflows use by name.

Law of this room: a value comes in and goes out nowhere: not in an answer, an error or a log line. Nothing that is
read back is written, so there are no versions to compare (no ETag): a second ``PUT`` replaces the first.
"""

from __future__ import annotations

import typing as t

from flask import Blueprint, Flask, Response

from app.clock import rfc3339
from app.errors import ApiError, Problem, ValidationFailed
from app.store.errors import StoreConflict
from app.store.sealing import SecretsLocked
from app.store.secrets import SecretRow
from app.store.writer import Note
from app.web import audit
from app.web.errors import not_found
from app.web.http import json_response, read_nothing, read_object, services
from app.workflows import secret_use


def list_() -> Response:
    """Names and times of all secrets, by name."""
    return json_response({"items": [_body(row) for row in services().store.secrets.list()]})


def put(secret_name: str) -> Response:
    """Store a value: 201 when the name is new, else 200."""
    body = read_object()
    problems = [Problem(key[:100], "unknown key; send {value}") for key in body if key != "value"]
    if "value" not in body:
        problems.append(Problem("value", "is missing; send {value}"))
    else:
        problems += secret_use.problems(secret_name, body["value"])
    if problems:
        raise ValidationFailed(problems)
    store = services().store.secrets
    try:
        is_new = store.set(secret_name, body["value"], _set_note(secret_name))
    except SecretsLocked as locked:
        raise ApiError(503, locked.code, locked.message) from None
    except StoreConflict as conflict:
        raise ApiError(409, conflict.code, conflict.message) from None
    row = next((row for row in store.list() if row.name == secret_name), None)
    if row is None:  # removed in the same moment
        raise not_found("secret", secret_name)
    return json_response(_body(row), 201 if is_new else 200)


def _set_note(name: str) -> Note:
    return audit.note(lambda is_new: audit.Entry("secret.set", f"secret:{name}", {"new": is_new}))


def remove(secret_name: str) -> Response:
    """Remove a secret: 204."""
    read_nothing()
    note = audit.note(audit.told("secret.remove", f"secret:{secret_name}"))
    if not services().store.secrets.remove(secret_name, note):
        raise not_found("secret", secret_name)
    return Response(status=204)


def _body(row: SecretRow) -> dict[str, t.Any]:
    return {
        "name": row.name,
        "createdAt": rfc3339(row.created_at),
        "updatedAt": rfc3339(row.updated_at),
    }


def install(app: Flask) -> None:
    """Put the routes on ``app``."""
    blueprint = Blueprint("secrets", __name__)
    blueprint.add_url_rule("/api/secrets", "list", list_)
    blueprint.add_url_rule("/api/secrets/<secret_name>", "put", put, methods=["PUT"])
    blueprint.add_url_rule("/api/secrets/<secret_name>", "remove", remove, methods=["DELETE"])
    app.register_blueprint(blueprint)
