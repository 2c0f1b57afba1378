"""Pages of a long table, newest first, filtered by some of its columns.

Law of this room: one page looks at a bounded number of rows however rare what it asks for is. Ids begin with their
time, so their order is the order of time and a page goes on after an id.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Mapping, Sequence

from sqlalchemy import BindParameter, ColumnElement, Executable, Select, Table, bindparam, select

from app.store.db import Backend, Row, Statement, text

#: Most rows one page looks at: some milliseconds of the hub's time.
WINDOW = 2000


class Pages:
    """The pages of one table.

    :param columns: what a page shows; ``id`` is first.
    :param indexed: sets of columns that an index leads to directly, and the empty one. Of several, the first is used
        and the rest is looked at row by row.
    :param kinds: filters that are no column, by name: their condition.
    :param beside: adds to a page's query what other tables say of its rows.
    """

    def __init__(
        self,
        backend: Backend,
        table: Table,
        columns: Sequence[str],
        indexed: Sequence[tuple[str, ...]],
        kinds: Mapping[str, ColumnElement[bool]] | None = None,
        beside: Callable[[Select[t.Any]], Select[t.Any]] = lambda page: page,
    ) -> None:
        assert columns[0] == "id"
        assert () in indexed
        self._backend, self._table, self._columns, self._indexed = backend, table, columns, indexed
        self._kinds = kinds or {}
        self._beside = beside
        self._pages: dict[frozenset[str], Statement] = {}
        self._ends: dict[frozenset[str], Statement] = {}

    def page(self, wanted: Mapping[str, str], before: str | None, limit: int) -> tuple[list[Row], str | None]:
        """The next rows older than ``before``.

        :param wanted: filters, by name. :param before: an id, or None for the newest.
        :returns: at most ``limit`` rows, and the id after which the list goes on; None at its end. There may be
            fewer rows than ``limit``, even none, before the end.
        :raises StoreFailed: the database cannot be read.
        """
        names = frozenset(wanted)
        values: dict[str, t.Any] = {name: text(value) for name, value in wanted.items()}
        values["before"] = "z" if before is None else text(before)  # after every id, in any collation
        page = self._pages.get(names)
        if page is None:
            page = self._pages[names] = self._backend.prepare(self._page(names))
        found = self._backend.rows(page, {**values, "limit": limit + 1, "window": WINDOW})
        if len(found) > limit:
            return found[:limit], str(found[limit - 1][0])
        return found, self._window_end(names, values)

    def _window_end(self, names: frozenset[str], values: dict[str, t.Any]) -> str | None:
        """The last row a page looked at, when there may be more behind it."""
        if not self._rest(names):
            return None
        end = self._ends.get(names)
        if end is None:
            last = self._window(names, bindparam("limit")).offset(bindparam("skipped"))
            end = self._ends[names] = self._backend.prepare(last)
        found = self._backend.rows(end, {**values, "limit": 1, "skipped": WINDOW - 1})
        return str(found[0][0]) if found else None

    def _chosen(self, names: frozenset[str]) -> tuple[str, ...]:
        return next(columns for columns in self._indexed if names.issuperset(columns))

    def _rest(self, names: frozenset[str]) -> frozenset[str]:
        return names.difference(self._chosen(names))

    def _equal(self, name: str) -> ColumnElement[bool]:
        kind = self._kinds.get(name)
        return self._table.c[name] == bindparam(name) if kind is None else kind

    def _window(self, names: frozenset[str], limit: BindParameter[int]) -> Select[t.Any]:
        """Ids of the rows to look at, and what else is asked of them."""
        c = self._table.c
        equal = [self._equal(name) for name in self._chosen(names)]
        columns = [c.id, *[c[name] for name in sorted(self._rest(names))]]
        return select(*columns).where(*equal, c.id < bindparam("before")).order_by(c.id.desc()).limit(limit)

    def _page(self, names: frozenset[str]) -> Executable:
        rest = self._rest(names)
        seen = self._window(names, bindparam("window" if rest else "limit")).subquery("seen")
        matches: list[ColumnElement[bool]] = [seen.c[name] == bindparam(name) for name in sorted(rest)]
        page = select(*[self._table.c[name] for name in self._columns]).join(
            seen, seen.c.id == self._table.c.id
        )
        return self._beside(page).where(*matches).order_by(seen.c.id.desc()).limit(bindparam("limit"))
