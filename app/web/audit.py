"""``GET /api/audit``, and the row that every change of the management API leaves.

Law of this room: whoever changes something gives the store a :func:`note` with the change, of names and numbers and
nothing of what is secret; the row is there when the change is, and not otherwise. Only ``admin`` reads the log; nobody
changes it.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Iterator, Mapping

from flask import Blueprint, Flask, Response, g, request

from app.clock import rfc3339
from app.errors import Problem, ValidationFailed
from app.store.audit import AuditFilter, AuditRow, Entry, Tell, told
from app.store.writer import Note
from app.web.auth import caller
from app.web.http import client_address, request_id, services
from app.web.lists import page_of, read_page

_FILTERS = ("subject", "actor", "action")
_CURSOR = re.compile(r"aud_[0-9A-Za-z_]{1,60}")


def note(tell: Tell, actor: str | None = None) -> Note:
    """What this request changes, for the method of the store that changes it.

    :param tell: what to say, by what that method returns; :func:`app.store.audit.told` says the same of all.
    :param actor: who, where the caller does not say it.
    """
    seen = g._get_current_object()  # the writer's thread has none

    def tell_and_mark(outcome: t.Any) -> Entry | None:
        seen.recorded = True
        return tell(outcome)

    return services().store.audit.note(actor or _actor(), tell_and_mark, *_origin())


def record(
    action: str, subject: str, details: Mapping[str, t.Any] | None = None, actor: str | None = None
) -> None:
    """Say in the audit log what happened and changed nothing that is stored.

    :param action: such as ``owner.sign_in``. :param subject: ``<kind>:<id>``.
    :param details: names and numbers, never a secret. :param actor: who, where the caller does not say it.
    """
    g.recorded = True
    services().store.audit.record(actor or _actor(), action, subject, details, *_origin())


def _actor() -> str:
    return caller().key_id or "anonymous"


def _origin() -> tuple[str, str]:
    """Where the request comes from, and its id."""
    return client_address(request.environ, services().settings.trusted_proxies), request_id()


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


__all__ = ["Entry", "Tell", "index", "install", "note", "record", "told", "unchanged"]
