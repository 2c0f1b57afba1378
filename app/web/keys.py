"""``/api/keys``: API keys are made, listed, limited and revoked.

Law of this room: the text of a key is in the answer that makes it and nowhere else. A key that one uses may be revoked
with it: the answer says so, since nothing that follows can.
"""

from __future__ import annotations

import datetime as dt
import re
import typing as t
from collections.abc import Iterator, Mapping

from flask import Blueprint, Flask, Response

from app.clock import rfc3339
from app.errors import Problem, ValidationFailed
from app.schemas.management import KeyBody, KeyChanges, load
from app.store.keys import KeyRow, Revoked
from app.web import audit, etags, starting
from app.web.auth import caller
from app.web.errors import not_found
from app.web.http import json_response, read_nothing, read_object, services
from app.web.lists import page_of, read_page

_CURSOR = re.compile(r"key_[0-9A-Za-z_]{1,60}")
_INSTANT = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_OWN = "This request was made with this key: from now on it is answered 401."
_LAST = "No other key with the scope admin is left; make one with: studio key create --name N --scopes admin"


def index() -> Response:
    """``{items, nextCursor?}``, newest first, revoked ones too."""
    _, problems, cursor, limit = read_page(_CURSOR)
    if problems:
        raise ValidationFailed(problems)
    rows, further = services().store.keys.page(cursor, limit)
    return page_of(list(map(_body, rows)), further)


def create() -> Response:
    """Make a key: 201, with its text, once."""
    sent = read_object()
    body = load(KeyBody, sent, _problems)
    row, plaintext = services().store.keys.create(
        body.name,
        body.scopes,
        caller().key_id,
        _end(body.expires_at),
        _limit(sent.get("rateLimit")),
        _limit(sent.get("budget")),
        audit.note(_told_create),
    )
    response = etags.set_etag(json_response({**_body(row), "key": plaintext}, 201), row.revision)
    response.headers["Location"] = f"/api/keys/{row.id}"
    response.headers["Cache-Control"] = "no-store"
    return response


def show(key_id: str) -> Response:
    """One key, without its text."""
    row = _known(key_id)
    body = _body(row)
    held = services()
    if used := starting.spent(held.store, held.clock.now_ms(), f"key:{row.id}", row.budget):
        body["spent"] = used
    response = json_response(body)
    # Its last use changes without a revision, so a reader that has seen this one has not seen everything.
    response.set_etag(etags.etag(row.revision))
    return response


def change(key_id: str) -> Response:
    """Change a key's name, end and limits; what is left out stays."""
    sent = read_object()
    body = load(KeyChanges, sent, _problems)
    row = _known(key_id)
    seen = etags.require_match(row.revision)
    changes: dict[str, t.Any] = {}
    if body.name is not None:
        changes["name"] = body.name
    if "expiresAt" in sent:
        changes["expires_at"] = _end(body.expires_at)
    for name, column in (("rateLimit", "rate_limit"), ("budget", "budget")):
        if name in sent:
            changes[column] = _limit(sent[name])
    audit.unchanged()  # unless the note is asked
    note = audit.note(audit.told("key.update", f"key:{row.id}", {"changed": sorted(sent)}))
    changed = services().store.keys.change(row.id, seen, changes, note)
    if changed is None:
        raise not_found("key", key_id)
    return etags.set_etag(json_response(_body(changed)), changed.revision)


def revoke(key_id: str) -> Response:
    """Make a key useless, at once and for good; a second time changes nothing."""
    read_nothing()
    row = _known(key_id)
    etags.match_if_sent(row.revision)
    revoked = services().store.keys.revoke(row.id, audit.note(_told_revoke))
    if revoked is None:
        raise not_found("key", key_id)
    return json_response({**_body(revoked.row), "warnings": [{"path": "", "message": m} for m in _lost(row)]})


def _told_create(row: KeyRow) -> audit.Entry:
    return audit.Entry("key.create", f"key:{row.id}", {"name": row.name, "scopes": _scopes(row)})


def _told_revoke(revoked: Revoked | None) -> audit.Entry | None:
    if revoked is None or not revoked.is_new:
        return None
    return audit.Entry("key.revoke", f"key:{revoked.row.id}", {"name": revoked.row.name})


def _lost(row: KeyRow) -> Iterator[str]:
    """What whoever has revoked a key should know."""
    if caller().key_id == row.id:
        yield _OWN
    now = services().clock.now_ms()
    others = (key for key in services().store.keys.list() if key.id != row.id)
    if "admin" in row.scopes and not any(
        "admin" in key.scopes and key.revoked_at is None and not key.expired(now) for key in others
    ):
        yield _LAST


def _known(key_id: str) -> KeyRow:
    row = services().store.keys.get(key_id)
    if row is None:
        raise not_found("key", key_id)
    return row


def _problems(body: KeyBody | KeyChanges) -> Iterator[Problem]:
    if isinstance(body, KeyBody) and not body.scopes:
        yield Problem("scopes", "is empty; there are run, read, admin")
    if body.expires_at is None:
        return
    end = _instant(body.expires_at)
    if end is None:
        yield Problem("expiresAt", "must be an instant (RFC 3339), such as 2030-01-31T12:00:00Z")
    elif end <= services().clock.now_ms():
        yield Problem("expiresAt", "is over already; to end a key, DELETE it")


def _end(text: str | None) -> int | None:
    return None if text is None else _instant(text)


def _instant(text: str) -> int | None:
    """RFC 3339 as epoch ms; None when it is none."""
    if not _INSTANT.fullmatch(text):
        return None
    try:
        # In UTC: there it may be of a year that no answer can name, such as 10000.
        return int(dt.datetime.fromisoformat(text.upper()).astimezone(dt.UTC).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


def _limit(raw: Mapping[str, t.Any] | None) -> dict[str, t.Any] | None:
    """A limit that was checked, without what it leaves out."""
    return None if raw is None else {name: value for name, value in raw.items() if value is not None}


def _scopes(row: KeyRow) -> list[str]:
    return ["admin"] if "admin" in row.scopes else [scope for scope in ("run", "read") if scope in row.scopes]


def _body(row: KeyRow) -> dict[str, t.Any]:
    def at(ms: int | None) -> str | None:
        return None if ms is None else rfc3339(ms)

    body: Mapping[str, t.Any] = {
        "id": row.id,
        "name": row.name,
        "prefix": row.prefix,
        "scopes": _scopes(row),
        "createdAt": rfc3339(row.created_at),
        "createdBy": row.created_by,
        "lastUsedAt": at(row.last_used_at),
        "expiresAt": at(row.expires_at),
        "revokedAt": at(row.revoked_at),
        "rateLimit": row.rate_limit,
        "budget": row.budget,
    }
    return {name: value for name, value in body.items() if value is not None}


def install(app: Flask) -> None:
    """Put the routes on ``app``."""
    blueprint = Blueprint("keys", __name__)
    blueprint.add_url_rule("/api/keys", "index", index)
    blueprint.add_url_rule("/api/keys", "create", create, methods=["POST"])
    blueprint.add_url_rule("/api/keys/<key_id>", "show", show)
    blueprint.add_url_rule("/api/keys/<key_id>", "change", change, methods=["PATCH"])
    blueprint.add_url_rule("/api/keys/<key_id>", "revoke", revoke, methods=["DELETE"])
    app.register_blueprint(blueprint)
