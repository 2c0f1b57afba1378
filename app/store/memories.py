"""What agents remember of their threads: whole exchanges, appended and never changed.

Law of this room: one row is one exchange, so that no reader ever sees a message without the answer that belongs to it.
A read is bounded by a number of exchanges and by bytes, however long the thread is. Only what was final is kept here,
and what was asked; nobody's half answer is.
"""

from __future__ import annotations

import typing as t
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, bindparam, delete, func, insert, select
from sqlalchemy.sql import Select, Subquery

from app.clock import Clock
from app.store.db import Backend, Link, text
from app.store.tables import memories, threads
from app.store.writer import Note, Ticket, Writer
from plugins.spec.memory import Exchange

#: Bytes of text that a page goes on to; the last row may go beyond.
PAGE_BYTES = 4 * 1024 * 1024
_ROW_BYTES = 256
#: Behind every position.
_NO_END = 2**62


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """An exchange as a thread keeps it.

    :ivar position: from 0, in the thread. :ivar key: the memory it is part of.
    :ivar block: instance path of the agent that answered. :ivar created_at: epoch ms.
    """

    position: int
    key: str
    block: str
    run_id: str
    asked: str
    answer: str | None
    created_at: int


_SHOWN = ("position", "key", "block", "run_id", "asked", "answer", "created_at")


class Memories:
    """The memories of this installation's threads."""

    def __init__(self, backend: Backend, writer: Writer, clock: Clock) -> None:
        self._backend, self._writer, self._clock = backend, writer, clock
        c = memories.c
        here = c.thread_id == bindparam("thread")
        own = c.key == bindparam("key")
        # Runs that overlap write one after the other.
        self._lock = backend.prepare(
            select(threads.c.id).where(threads.c.id == bindparam("thread")).with_for_update()
        )
        self._last = backend.prepare(select(func.max(c.position)).where(here))
        self._insert = backend.prepare(insert(memories))
        said = (c.run_id == bindparam("run"), c.block == bindparam("block"))
        self._count = backend.prepare(select(func.count()).where(here, *said))
        self._read = backend.prepare(_newest())
        self._page = backend.prepare(_shown())
        self._page_of_key = backend.prepare(_shown(own))
        self._forget = backend.prepare(delete(memories).where(here))
        self._forget_key = backend.prepare(delete(memories).where(here, own))

    def append(
        self, thread_id: str, key: str, block: str, run_id: str, asked: str, answer: str | None
    ) -> Ticket:
        """Keep an exchange, after all that the thread keeps already.

        :returns: its ``wait()`` raises :class:`StoreFailed` when nothing was kept.
        :raises StoreFailed: the store is closed.
        """
        asked, answer = t.cast(str, text(asked)), text(answer)
        size = len(asked.encode()) + len((answer or "").encode())
        now = self._clock.now_ms()
        values = (text(key), text(block), run_id, asked, answer, size, now)

        def job(link: Link) -> None:
            link.rows(self._lock, {"thread": thread_id})
            last = link.rows(self._last, {"thread": thread_id})[0][0]
            link.insert(self._insert, [(thread_id, 0 if last is None else last + 1, *values)])

        return self._writer.submit(job, _ROW_BYTES + size)

    def count(self, thread_id: str, run_id: str, block: str) -> int:
        """How many exchanges of one agent in one run the thread keeps.

        :param block: instance path of the agent. :raises StoreFailed: the database cannot be read.
        """
        asked = {"thread": thread_id, "run": run_id, "block": text(block)}
        return t.cast(int, self._backend.rows(self._count, asked)[0][0])

    def read(self, thread_id: str, key: str, most: int, most_bytes: int) -> list[Exchange]:
        """The newest exchanges of one memory, oldest first.

        :param most: how many are looked at. :param most_bytes: of these, as many as fit into it, from the newest on.
        :raises StoreFailed: the database cannot be read.
        """
        asked = {"thread": text(thread_id), "key": text(key), "most": most, "bytes": most_bytes}
        return [Exchange(*row) for row in self._backend.rows(self._read, asked)]

    def page(
        self, thread_id: str, before: int | None, limit: int, key: str | None = None
    ) -> tuple[Sequence[MemoryRow], int | None]:
        """The exchanges of a thread, newest first.

        :param before: the position after which the page goes on; None begins with the newest.
        :param key: of one memory only.
        :returns: at most ``limit`` rows, and about :data:`PAGE_BYTES` (one row whatever its size); and where the next
            page goes on, None at the end.
        :raises StoreFailed: the database cannot be read.
        """
        asked: dict[str, t.Any] = {
            "thread": text(thread_id),
            "before": _NO_END if before is None else before,
            "limit": limit + 1,
            "bytes": PAGE_BYTES,
        }
        statement = self._page
        if key is not None:
            statement, asked["key"] = self._page_of_key, text(key)
        found = self._backend.rows(statement, asked)
        rows = [MemoryRow(*row[1:]) for row in found[:limit]]
        return rows, rows[-1].position if rows and len(rows) < found[0][0] else None

    def forget(self, thread_id: str, key: str | None = None, note: Note | None = None) -> int:
        """Delete what a thread keeps, or one memory of it; how many exchanges that were.

        :param note: of the change, given what is returned (:class:`app.store.audit.Audit`).
        :raises StoreFailed: nothing was deleted.
        """
        asked = {"thread": text(thread_id)}
        statement = self._forget
        if key is not None:
            statement, asked["key"] = self._forget_key, text(key)
        return int(self._writer.submit(lambda link: link.execute(statement, asked), 64, note).wait())


def _newest() -> Select[t.Any]:
    """What an agent is told. Reads no text but what it gives: sizes are added up along the index first."""
    c = memories.c
    here = c.thread_id == bindparam("thread")
    newest = _sizes(here, c.key == bindparam("key")).limit(bindparam("most")).subquery("newest")
    counted = select(newest.c.position, _total(newest).label("total")).subquery("counted")
    return (
        select(c.asked, c.answer)
        .join(counted, counted.c.position == c.position)
        .where(here, counted.c.total <= bindparam("bytes"))
        .order_by(c.position)
    )


def _shown(*which: ColumnElement[bool]) -> Select[t.Any]:
    """A page: how many rows there were to show, and of these as many as begin within so many bytes."""
    c = memories.c
    here = c.thread_id == bindparam("thread")
    wanted = _sizes(here, c.position < bindparam("before"), *which)
    newest = wanted.limit(bindparam("limit")).subquery("newest")
    counted = select(
        newest.c.position,
        (_total(newest) - newest.c.size).label("ahead"),
        func.count().over().label("found"),
    ).subquery("counted")
    return (
        select(counted.c.found, *[c[name] for name in _SHOWN])
        .join(counted, counted.c.position == c.position)
        .where(here, counted.c.ahead < bindparam("bytes"))
        .order_by(c.position.desc())
    )


def _sizes(*which: ColumnElement[bool]) -> Select[t.Any]:
    """Positions and sizes, from the newest on."""
    c = memories.c
    return select(c.position, c.size).where(*which).order_by(c.position.desc())


def _total(newest: Subquery) -> ColumnElement[t.Any]:
    """The bytes of a row and all that are newer."""
    return func.sum(newest.c.size).over(order_by=newest.c.position.desc())
