"""``GET`` and ``DELETE /api/threads/{id}/memory``: what the agents of a thread remember.

Law of this room: as for threads, what does not exist and what is not the caller's give the same answer. Read by whoever
may read the thread, deleted by whoever may stop it.
"""

from __future__ import annotations

import re
import typing as t

from flask import Blueprint, Flask, Response

from app.clock import rfc3339
from app.errors import Problem, ValidationFailed
from app.store.memories import MemoryRow
from app.web import audit, threads
from app.web.http import json_response, read_query, services
from app.web.lists import page_of, read_page

_CURSOR = re.compile(r"[0-9]{1,18}")


def show(thread_id: str) -> Response:
    """``{items, nextCursor?}``: exchanges, newest first."""
    row = threads.readable(thread_id)
    key, before, limit = _read()
    rows, after = services().store.memories.page(row.id, before, limit, key)
    return page_of([_item(found) for found in rows], after)


def forget(thread_id: str) -> Response:
    """Delete what is remembered, or one memory of it. A run that goes on still adds what it comes to."""
    row = threads.mine(thread_id)
    query, problems = read_query("key")
    problems += _empty(query)
    if problems:
        raise ValidationFailed(problems)
    subject = f"thread:{row.id}"
    note = audit.note(lambda deleted: audit.Entry("memory.forget", subject, {"deleted": deleted}))
    deleted = services().store.memories.forget(row.id, query.get("key"), note)
    return json_response({"deleted": deleted})


def _read() -> tuple[str | None, int | None, int]:
    """The query: of which memory, after which exchange, how many.

    :raises ValidationFailed: with everything that is wrong with it.
    """
    query, problems, before, limit = read_page(_CURSOR, "key", judge=_empty)
    if problems:
        raise ValidationFailed(problems)
    return query.get("key"), None if before is None else int(before), limit


def _empty(query: t.Mapping[str, str]) -> list[Problem]:
    return [Problem("key", "is empty; leave it out")] if query.get("key") == "" else []


def _item(row: MemoryRow) -> dict[str, t.Any]:
    """One exchange; without ``answer`` when it was stopped before it had one."""
    item: dict[str, t.Any] = {
        "key": row.key,
        "message": row.asked,
        "answer": row.answer,
        "blockId": row.block,
        "runId": row.run_id,
        "createdAt": rfc3339(row.created_at),
    }
    return {name: value for name, value in item.items() if value is not None}


def install(app: Flask) -> None:
    """Put the routes on ``app``."""
    blueprint = Blueprint("memory", __name__)
    blueprint.add_url_rule("/api/threads/<thread_id>/memory", view_func=show)
    blueprint.add_url_rule("/api/threads/<thread_id>/memory", view_func=forget, methods=["DELETE"])
    app.register_blueprint(blueprint)
