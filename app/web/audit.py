"""``GET /api/audit``, and the row that every change of the management API leaves.

Law of this room: whoever changes something calls :func:`record` once the change is made, with names and numbers and
nothing of what is secret. Only ``admin`` reads the log; nobody changes it.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Iterator, Mapping

from flask import Blueprint, Flask, Response, g, request

from app.clock import rfc3339
from app.errors import Problem, ValidationFailed
from app.store.audit import AuditFilter, AuditRow
from app.web.auth import caller
from app.web.http import client_address, request_id, services
from app.web.lists import page_of, read_page

_FILTERS = ("subject", "actor", "action")
_CURSOR = re.compile(r"aud_[0-9A-Za-z_]{1,60}")


def record(
    action: str, subject: str, details: Mapping[str, t.Any] | None = None, actor: str | None = None
) -> None:
    """Say in the audit log what this request has changed.

    :param action: such as ``workflow.deploy``. :param subject: ``<kind>:<id>``.
    :param details: names and numbers, never a secret. :param actor: who, where the caller does not say it.
    """
    g.recorded = True
    services().store.audit.record(
        actor or caller().key_id or "anonymous",
        action,
        subject,
        details,
        client_address(request.environ, services().settings.trusted_proxies),
        request_id(),
    )


def unchanged() -> None:
    """Say that this request, though it could have, has changed nothing: there is no row."""
    g.recorded = True


def index() -> Response:
    """``{items, nextCursor?}``, newest first."""
    sent, problems, cursor, limit = read_page(_CURSOR, *_FILTERS, judge=_empty)
    if problems:
        raise ValidationFailed(problems)
    wanted = AuditFilter(**{name: sent.get(name) for name in _FILTERS})
    rows, further = services().store.audit.page(wanted, cursor, limit)
    return page_of([_body(row) for row in rows], further)


def _empty(sent: Mapping[str, str]) -> Iterator[Problem]:
    yield from (Problem(name, "is empty; leave it out") for name in _FILTERS if sent.get(name) == "")


def _body(row: AuditRow) -> dict[str, t.Any]:
    body: dict[str, t.Any] = {
        "id": row.id,
        "at": rfc3339(row.at),
        "actor": row.actor,
        "action": row.action,
        "subject": row.subject,
        "details": row.details,
        "address": row.address,
        "requestId": row.request_id,
    }
    return {name: value for name, value in body.items() if value is not None}


def install(app: Flask) -> None:
    """Put the route on ``app``."""
    blueprint = Blueprint("audit", __name__)
    blueprint.add_url_rule("/api/audit", view_func=index)
    app.register_blueprint(blueprint)
