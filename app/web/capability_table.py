"""The capability table of a running server, made once for every state of its plugins.

Law of this room: the table is open to all, so a request for it costs next to nothing: rows, encoded bytes and
drawn rows are kept until a model list or a script comes or goes. While a table is made, streams go on.
"""

from __future__ import annotations

import hashlib
import threading
import typing as t
import zlib

from flask import Flask, current_app

from app import encoding
from app.engine import model_lists
from app.engine.giving_way import give_way
from app.web.capability_query import Query, Row, searched, select
from plugins import capabilities as facts
from plugins.registry import Registry

if t.TYPE_CHECKING:
    from app.engine.services import Services

#: Rows made, or kilobytes packed, before others get their turn.
_AT_ONCE = 50


class Snapshot:
    """The table in one state.

    :ivar rows: as of :func:`plugins.capabilities.rows`. :ivar families: as of ``family_rows``.
    :ivar body: the whole answer of ``GET /api/capabilities``; ``packed`` the same by gzip.
    :ivar drawn: the page's HTML of a row by its id, filled as rows are drawn.
    """

    def __init__(self, rows: list[dict[str, t.Any]], families: list[dict[str, t.Any]]) -> None:
        self.rows = rows
        self.families = families
        self.body = answer(rows, families)
        self.packed = _packed(self.body)
        self.tag = hashlib.sha256(self.body).hexdigest()[:16]
        self.drawn: dict[str, str] = {}
        self._texts = {row["id"]: searched(row) for row in rows}

    def select(self, query: Query) -> list[Row]:
        """The rows that ``query`` asks for, in its order."""
        return select(self.rows, query, lambda row: self._texts[row["id"]])


class CapabilityTable:
    """Keeps the latest :class:`Snapshot`.

    :param lists: whether servers are asked for their models (``STUDIO_LIST_MODELS``).
    """

    def __init__(self, plugins: Registry, lists: bool) -> None:
        self._plugins = plugins
        self._lists = lists
        self._making = threading.Lock()
        self._made: tuple[t.Any, Snapshot] | None = None

    def current(self) -> Snapshot:
        """The table as of now; lists that are due are asked for in the background and show up in a later one."""
        if self._lists:
            model_lists.refresh(self._plugins)
        state = self._state()
        if self._made is None or self._made[0] != state:
            with self._making:
                if self._made is None or self._made[0] != state:
                    self._made = (state, self._make())
        return self._made[1]

    def _state(self) -> t.Any:
        """What a table depends on: model lists, and lists of models that are asked for anew every time."""
        plugins = self._plugins
        changing = [family for family in plugins.families.values() if callable(family.models)]
        return plugins.listings.generation, [plugins.models(family)[0] for family in changing]

    def _make(self) -> Snapshot:
        rows: list[dict[str, t.Any]] = []
        for family in self._plugins.families:
            for count, row in enumerate(facts.each_row(self._plugins, family)):
                rows.append(row)
                if count % _AT_ONCE == 0:
                    give_way()
        return Snapshot(rows, facts.family_rows(self._plugins))


def answer(rows: list[dict[str, t.Any]], families: list[dict[str, t.Any]]) -> bytes:
    """The body of ``GET /api/capabilities``; members that are not known are left out."""
    return encoding.dumps({"items": [stated(row) for row in rows], "families": families})


def stated(row: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """``row`` without what is not known."""
    return {name: value for name, value in row.items() if value is not None}


def _packed(body: bytes) -> bytes:
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    parts = []
    for start in range(0, len(body), _AT_ONCE * 1024):
        parts.append(packer.compress(body[start : start + _AT_ONCE * 1024]))
        give_way()
    return b"".join((*parts, packer.flush()))


def table() -> CapabilityTable:
    """That of the running application."""
    return t.cast(CapabilityTable, current_app.extensions["studio.capabilities"])


def install(app: Flask, services: Services) -> None:
    """Make the table of ``app`` known to its views."""
    lists = services.settings.list_models == "on"
    app.extensions["studio.capabilities"] = CapabilityTable(services.plugins, lists)
