"""Lists of runs, newest first, page by page.

Law of this room: a list never reads what a run said or was asked, only what is known about it, and one page
looks at a bounded number of runs however rare what it asks for is. Run ids begin with their time, so their
order is the order of time and a page goes on after an id.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, fields

from sqlalchemy import ColumnElement, Executable, bindparam, select

from app.store.db import Backend, Statement, named, text
from app.store.tables import runs

#: What a list knows of a run: no input, output, text or tool call.
SUMMARY_COLUMNS = (
    "id",
    "workflow_id",
    "version",
    "key_id",
    "conversation_id",
    "thread_id",
    "status",
    "cause",
    "created_at",
    "started_at",
    "ended_at",
    "queued_ms",
    "active_ms",
    "human_wait_ms",
    "error",
    "usage",
)
_JSON = frozenset({"error", "usage"})

#: Most runs one page looks at: some milliseconds of the hub's time.
WINDOW = 2000

#: What an index leads to directly. Of several, the first is used and the rest is looked at run by run;
#: a key's own runs stay inside that key's part of the index whatever else is asked.
_INDEXED = (
    ("thread_id", "key_id"),
    ("thread_id",),
    ("conversation_id", "key_id"),
    ("conversation_id",),
    ("key_id",),
    ("workflow_id",),
    (),
)


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs; None means any.

    :ivar key_id: the key that started them.
    """

    key_id: str | None = None
    workflow_id: str | None = None
    conversation_id: str | None = None
    thread_id: str | None = None
    status: str | None = None

    def set_values(self) -> dict[str, str]:
        """The columns that are asked for, with their values."""
        return {f.name: value for f in fields(self) if (value := getattr(self, f.name)) is not None}


class RunList:
    """See the module."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._pages: dict[frozenset[str], Statement] = {}
        self._ends: dict[frozenset[str], Statement] = {}

    def page(
        self, wanted: RunFilter, before: str | None, limit: int
    ) -> tuple[list[dict[str, t.Any]], str | None]:
        """The next runs older than ``before``, by :data:`SUMMARY_COLUMNS`.

        :param before: a run's id, or None for the newest.
        :returns: at most ``limit`` rows, and the id after which the list goes on; None at its end. There may be
            fewer rows than ``limit``, even none, before the end.
        :raises StoreFailed: the database cannot be read.
        """
        asked = wanted.set_values()
        names = frozenset(asked)
        values = {name: text(value) for name, value in asked.items()}
        values["before"] = "z" if before is None else text(before)  # after every id, in any collation
        page = self._pages.get(names)
        if page is None:
            page = self._pages[names] = self._backend.prepare(_page(names))
        found = self._backend.rows(page, {**values, "limit": limit + 1})
        rows = [named(SUMMARY_COLUMNS, row, _JSON) for row in found[:limit]]
        if len(found) > limit:
            return rows, rows[-1]["id"]
        return rows, self._window_end(names, values)

    def _window_end(self, names: frozenset[str], values: dict[str, t.Any]) -> str | None:
        """The last run a page looked at, when there may be more behind it."""
        if not _rest(names):
            return None
        end = self._ends.get(names)
        if end is None:
            end = self._ends[names] = self._backend.prepare(
                _window(names, bindparam("window")).offset(WINDOW - 1)
            )
        found = self._backend.rows(end, {**values, "window": 1})
        return str(found[0][0]) if found else None


def _indexed(names: frozenset[str]) -> tuple[str, ...]:
    return next(columns for columns in _INDEXED if names.issuperset(columns))


def _rest(names: frozenset[str]) -> frozenset[str]:
    return names.difference(_indexed(names))


def _window(names: frozenset[str], limit: t.Any) -> t.Any:
    """Ids of the runs to look at, and what else is asked of them."""
    c = runs.c
    equal = [c[name] == bindparam(name) for name in _indexed(names)]
    columns = [c.id, *[c[name] for name in sorted(_rest(names))]]
    return select(*columns).where(*equal, c.id < bindparam("before")).order_by(c.id.desc()).limit(limit)


def _page(names: frozenset[str]) -> Executable:
    rest = _rest(names)
    seen = _window(names, WINDOW if rest else bindparam("limit")).subquery("seen")
    matches: list[ColumnElement[bool]] = [seen.c[name] == bindparam(name) for name in sorted(rest)]
    columns = [runs.c[name] for name in SUMMARY_COLUMNS]
    return (
        select(*columns)
        .join(seen, seen.c.id == runs.c.id)
        .where(*matches)
        .order_by(seen.c.id.desc())
        .limit(bindparam("limit"))
    )
