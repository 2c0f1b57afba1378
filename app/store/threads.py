"""Threads: conversations that several runs of a workflow belong to, one run at a time.

Law of this room: a thread belongs to a workflow and to the key that opened it; whoever else asks is told what
is told of a thread that does not exist. It is busy while the run that entered it last has not ended, which the
run's own row says, so a process that dies leaves no thread taken. While that run is paused, nobody else gets in.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlalchemy import bindparam, func, insert, select, update

from app.clock import Clock
from app.store.db import Backend, Link, Row, text
from app.store.errors import StoreFailed
from app.store.pages import Pages
from app.store.tables import runs, threads
from app.store.writer import Writer

#: How long a run may take from its claim to its row. Its process may die in between; then nobody would let go.
LEASE_MS = 30_000

_ROW_BYTES = 512


@dataclass(frozen=True, slots=True)
class ThreadRow:
    """A thread.

    :ivar name: what the caller calls it (``conversationId``); None when it has only its id.
    :ivar run_id: the run that entered it last. :ivar run_status: that run's status; None before its row is stored.
    :ivar claimed_at: when it entered, epoch ms.
    :ivar pinned: the block at which the next run enters; None enters at the start.
    :ivar pins: counts how often somebody let go of the pin from outside.
    :ivar before: of one that a run has just entered, the run that was in it before.
    """

    id: str
    workflow_id: str
    key_id: str | None
    name: str | None
    run_id: str | None
    claimed_at: int
    pinned: str | None
    pins: int
    created_at: int
    run_status: str | None = None
    run_ended: int | None = None
    before: str | None = None

    @property
    def paused(self) -> bool:
        """Whether its last run waits for people."""
        return self.run_status == "paused"

    def busy(self, now_ms: int) -> bool:
        """Whether its last run goes on, or is paused."""
        if self.run_id is None or self.run_ended is not None:
            return False
        return self.run_status is not None or now_ms - self.claimed_at < LEASE_MS

    def belongs(self, workflow_id: str, key_id: str | None) -> bool:
        """Whether a run of this workflow with this key may enter it. Nobody's threads are nobody's to continue."""
        return key_id is not None and (self.workflow_id, self.key_id) == (workflow_id, key_id)


class Threads:
    """The threads of this installation. Methods that write wait for the commit; ``pin`` and ``leave`` do not."""

    def __init__(self, backend: Backend, writer: Writer, clock: Clock) -> None:
        self._backend, self._writer, self._clock = backend, writer, clock
        c = threads.c
        this = c.id == bindparam("thread")
        known = select(*threads.columns, runs.c.status, runs.c.ended_at).outerjoin(
            runs, runs.c.id == c.run_id
        )
        mine = (c.workflow_id == bindparam("workflow"), c.key_id == bindparam("key"))
        self._pages = Pages(
            backend,
            threads,
            _COLUMNS,
            (("key_id",), ()),
            beside=lambda page: page.add_columns(runs.c.status, runs.c.ended_at).outerjoin(
                runs, runs.c.id == c.run_id
            ),
        )
        self._insert = backend.prepare(insert(threads))
        self._get = backend.prepare(known.where(this))
        self._lock = backend.prepare(known.where(this).with_for_update(of=threads))
        self._named = backend.prepare(
            known.where(*mine, c.name == bindparam("called")).with_for_update(of=threads)
        )
        self._find = backend.prepare(known.where(*mine, c.name == bindparam("called")))
        self._claim = backend.prepare(
            update(threads).where(this).values(run_id=bindparam("run"), claimed_at=bindparam("at"))
        )
        self._leave = backend.prepare(
            update(threads)
            .where(this, c.run_id == bindparam("run"))
            .values(run_id=bindparam("before"), claimed_at=0)
        )
        self._pin = backend.prepare(
            update(threads)
            .where(this, c.run_id == bindparam("run"), c.pins == bindparam("seen"))
            .values(pinned=bindparam("block"))
        )
        self._turns = backend.prepare(
            select(func.count())
            .select_from(runs)
            .where(runs.c.thread_id == bindparam("thread"), runs.c.id < bindparam("run"))
        )
        self._release = backend.prepare(update(threads).where(this).values(pinned=None, pins=c.pins + 1))

    def open(
        self, workflow_id: str, key_id: str | None, run_id: str, thread_id: str | None = None
    ) -> ThreadRow:
        """A new thread that ``run_id`` has entered.

        :raises StoreFailed: it was not stored (so for every writer below).
        """
        row = self._new(workflow_id, key_id, None, run_id, thread_id)
        self._writer.submit(lambda link: link.insert(self._insert, [_values(row)]), _ROW_BYTES).wait()
        return row

    def enter(self, thread_id: str, workflow_id: str, key_id: str | None, run_id: str) -> ThreadRow | None:
        """Let ``run_id`` into a thread.

        :returns: the thread: with ``run_id`` as its run, or as it is when it is busy with another; None when it is
            unknown or belongs to others.
        """
        now = self._clock.now_ms()

        def job(link: Link) -> ThreadRow | None:
            found = link.rows(self._lock, {"thread": text(thread_id)})
            row = _row(found[0]) if found else None
            if row is None or not row.belongs(workflow_id, key_id):
                return None
            return row if row.busy(now) else self._take(link, row, run_id, now)

        return t.cast("ThreadRow | None", self._writer.submit(job, _ROW_BYTES).wait())

    def named(
        self, workflow_id: str, key_id: str, name: str, run_id: str, *, alone: bool = False
    ) -> ThreadRow:
        """The thread a caller calls ``name``, made when it is new. Its runs may overlap: the latest counts.

        :param alone: they may not.
        :returns: the thread, with ``run_id`` as its run; as it is while its run is paused, and ``alone`` while it goes
            on.
        """
        now = self._clock.now_ms()
        new = self._new(workflow_id, key_id, name, run_id)
        asked = {"workflow": text(workflow_id), "key": text(key_id), "called": new.name}

        def job(link: Link) -> ThreadRow:
            found = link.rows(self._named, asked)
            if found:
                row = _row(found[0])
                taken = row.paused or (alone and row.busy(now))
                return row if taken else self._take(link, row, run_id, now)
            link.insert(self._insert, [_values(new)])
            return new

        try:
            return t.cast(ThreadRow, self._writer.submit(job, _ROW_BYTES).wait())
        except StoreFailed:  # another process may have made it in the same moment
            return t.cast(ThreadRow, self._writer.submit(job, _ROW_BYTES).wait())

    def find(self, workflow_id: str, key_id: str, name: str) -> ThreadRow | None:
        """The thread a caller calls ``name``.

        :raises StoreFailed: the database cannot be read.
        """
        asked = {"workflow": text(workflow_id), "key": text(key_id), "called": text(name)}
        found = self._backend.rows(self._find, asked)
        return _row(found[0]) if found else None

    def leave(self, entered: ThreadRow) -> None:
        """Queue that the run that has entered will not run after all. Ignored when another has entered since.

        :param entered: what entering gave.
        """
        values = {"thread": entered.id, "run": entered.run_id, "before": entered.before}
        self._writer.post(
            lambda link: link.execute(self._leave, values), f"leaving thread {entered.id}", _ROW_BYTES
        )

    def get(self, thread_id: str) -> ThreadRow | None:
        """A thread, whoever's it is.

        :raises StoreFailed: the database cannot be read.
        """
        found = self._backend.rows(self._get, {"thread": text(thread_id)})
        return _row(found[0]) if found else None

    def page(
        self, wanted: Mapping[str, str], before: str | None, limit: int
    ) -> tuple[list[ThreadRow], str | None]:
        """The next threads older than ``before``, newest first; see :meth:`app.store.pages.Pages.page`.

        :param wanted: columns with their values: ``key_id``, ``workflow_id``, ``name``.
        :raises StoreFailed: the database cannot be read.
        """
        found, further = self._pages.page(wanted, before, limit)
        return [_row(row) for row in found], further

    def turns_before(self, thread_id: str, run_id: str) -> int:
        """How many runs of a thread came before this one: ids are in the order of time.

        :raises StoreFailed: the database cannot be read.
        """
        asked = {"thread": text(thread_id), "run": text(run_id)}
        return int(self._backend.rows(self._turns, asked)[0][0])

    def pin(self, thread_id: str, run_id: str, pins: int, block: str | None) -> None:
        """Queue where the next run enters. Ignored when somebody let go meanwhile, or another run has entered.

        :param pins: of the row the run entered by.
        """
        values = {"thread": thread_id, "run": run_id, "seen": pins, "block": block}
        self._writer.post(
            lambda link: link.execute(self._pin, values), f"the pin of thread {thread_id}", _ROW_BYTES
        )

    def release(self, thread_id: str) -> None:
        """Let go of the pin; a run that goes on cannot set it any more."""
        self._writer.submit(
            lambda link: link.execute(self._release, {"thread": text(thread_id)}), _ROW_BYTES
        ).wait()

    def _take(self, link: Link, row: ThreadRow, run_id: str, now: int) -> ThreadRow:
        link.execute(self._claim, {"thread": row.id, "run": run_id, "at": now})
        return replace(row, run_id=run_id, claimed_at=now, run_status=None, run_ended=None, before=row.run_id)

    def _new(
        self, workflow_id: str, key_id: str | None, name: str | None, run_id: str, id_: str | None = None
    ) -> ThreadRow:
        now = self._clock.now_ms()
        thread_id = id_ or self._clock.new_id("thr")
        return ThreadRow(thread_id, workflow_id, key_id, text(name), run_id, now, None, 0, now)


_COLUMNS = tuple(column.name for column in threads.columns)


def _values(row: ThreadRow) -> Row:
    return tuple(getattr(row, name) for name in _COLUMNS)


def _row(found: Row) -> ThreadRow:
    return ThreadRow(*found)
