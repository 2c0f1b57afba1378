"""Lists of runs, newest first, page by page.

Law of this room: a list never reads what a run said or was asked, only what is known about it.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, fields

from app.store.db import Backend, named
from app.store.pages import Pages
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
    "paused_at",
    "error",
    "usage",
)
_JSON = frozenset({"error", "usage"})

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
        self._pages = Pages(backend, runs, SUMMARY_COLUMNS, _INDEXED)

    def page(
        self, wanted: RunFilter, before: str | None, limit: int
    ) -> tuple[list[dict[str, t.Any]], str | None]:
        """The next runs older than ``before``, by :data:`SUMMARY_COLUMNS`; see :meth:`app.store.pages.Pages.page`.

        :param before: a run's id, or None for the newest.
        :raises StoreFailed: the database cannot be read.
        """
        found, further = self._pages.page(wanted.set_values(), before, limit)
        return [named(SUMMARY_COLUMNS, row, _JSON) for row in found], further
