"""Runs are deleted: one that somebody names, and those whose time is over.

Law of this room: a run goes whole, in one transaction, with all that is kept of it and that nobody else uses: its
blocks, model calls, journal, stored log and decisions (by their foreign keys), what agents remember of it, the files of
its message, and its thread when nothing is left of that. One that has not ended stays, and so do those of a thread in
which one goes on or waits for people.
"""

from __future__ import annotations

import typing as t

from sqlalchemy import bindparam, delete, exists, func, or_, select, update

from app.clock import Clock, first_id
from app.store.db import Backend, Link, from_json, text
from app.store.deployment_tables import files, idempotency
from app.store.errors import StoreConflict
from app.store.tables import memories, runs, threads
from app.store.writer import Note, Writer

#: Most runs that one transaction deletes.
SWEPT = 50
#: Of the advisory lock that one process at a time sweeps under.
_LOCK = 0x53745265746E
#: How the ``key_id`` of visitors begins; their files are one run's.
_VISITOR = "chat:"


class RunStays(StoreConflict):
    """The run cannot be deleted yet."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.code = "run_not_ended"


class _Run(t.NamedTuple):
    """What has to be known of a run to delete it."""

    id: str
    thread_id: str | None
    key_id: str | None
    input: str | None
    ended_at: int | None
    waits: bool = False


class Retention:
    """See the module. Methods wait for the commit."""

    def __init__(self, backend: Backend, writer: Writer, clock: Clock) -> None:
        self._writer, self._clock = writer, clock
        r, other = runs.c, runs.alias("other").c
        waits = exists().where(other.thread_id == r.thread_id, other.ended_at.is_(None))
        shown = (r.id, r.thread_id, r.key_id, r.input, r.ended_at)
        self._one = backend.prepare(select(*shown, waits.label("waits")).where(r.id == bindparam("run")))
        # By the id, which begins with the time of the start: what is before it is what stays, and that is little.
        self._old = backend.prepare(
            select(*shown)
            .where(r.id < bindparam("first"), r.ended_at < bindparam("before"), ~waits)
            .order_by(r.id)
            .limit(SWEPT)
        )
        # SQLite lets one in at a time by itself.
        self._alone = (
            backend.prepare(select(func.pg_try_advisory_xact_lock(_LOCK)))
            if backend.name == "postgresql"
            else None
        )
        self._claims = backend.prepare(delete(idempotency).where(idempotency.c.run_id == bindparam("run")))
        self._prepare_parts(backend)

    def _prepare_parts(self, backend: Backend) -> None:
        c, m, f = threads.c, memories.c, files.c
        this, run = c.id == bindparam("thread"), bindparam("run", type_=runs.c.id.type)
        of_thread = (memories.c.thread_id == bindparam("thread"), runs.c.thread_id == bindparam("thread"))
        self._remembered = backend.prepare(
            delete(memories).where(m.thread_id == bindparam("thread"), m.run_id == run)
        )
        self._file = backend.prepare(
            delete(files).where(f.id == bindparam("file"), f.key_id == bindparam("key"))
        )
        self._run = backend.prepare(delete(runs).where(runs.c.id == run))
        self._thread = backend.prepare(
            delete(threads).where(
                this,
                or_(c.run_id == run, c.run_id.is_(None)),
                *[~exists().where(condition) for condition in of_thread],
            )
        )
        self._leave = backend.prepare(
            update(threads).where(this, c.run_id == run).values(run_id=None, claimed_at=0)
        )

    def forget(self, run_id: str, note: Note | None = None) -> bool:
        """Delete a run; False when there is none.

        A start with the ``Idempotency-Key`` it was begun with begins another one from then on.

        :param note: of the change (:class:`app.store.audit.Audit`).
        :raises RunStays: it has not ended, or another of its thread has not.
        :raises StoreFailed: nothing was deleted (so for the method below).
        """

        def job(link: Link) -> bool:
            found = link.rows(self._one, {"run": text(run_id)})
            if not found:
                return False
            run = _Run(*found[0])
            if run.ended_at is None:
                raise RunStays(f"Run {run.id} has not ended. Stop it first: POST /api/runs/{run.id}/cancel")
            if run.waits:
                raise RunStays(
                    f"Another run of thread {run.thread_id} goes on or waits for people. Delete this one once that has "
                    f"ended, or stop it: POST /api/threads/{run.thread_id}/stop"
                )
            self._drop(link, run)
            link.execute(self._claims, {"run": run.id})
            return True

        return bool(self._writer.submit(job, note=note).wait())

    def sweep(self, days: int) -> int:
        """Delete runs that ended more than ``days`` ago, a bounded number of them, unless another process is at it.

        :returns: how many were deleted; with :data:`SWEPT` there may be more.
        """
        before = self._clock.now_ms() - days * 86_400_000
        asked = {"first": first_id("run", before), "before": before}

        def job(link: Link) -> int:
            if self._alone is not None and not link.rows(self._alone, {})[0][0]:
                return 0
            old = [_Run(*row) for row in link.rows(self._old, asked)]
            for run in old:
                self._drop(link, run)
            return len(old)

        return int(self._writer.submit(job).wait())

    def _drop(self, link: Link, run: _Run) -> None:
        this = {"run": run.id, "thread": run.thread_id, "key": run.key_id}
        for file in _files_of(run):
            link.execute(self._file, {**this, "file": file})
        if run.thread_id is not None:
            link.execute(self._remembered, this)
        link.execute(self._run, this)
        if run.thread_id is not None and not link.execute(self._thread, this):
            link.execute(self._leave, this)


def _files_of(run: _Run) -> list[str]:
    """The files that came with the message of a visitor. Those that a key has uploaded are its own to delete."""
    if run.key_id is None or not run.key_id.startswith(_VISITOR):
        return []
    given = from_json(run.input)
    listed = given.get("files") if isinstance(given, dict) else None
    entries = [entry for entry in (listed if isinstance(listed, list) else ()) if isinstance(entry, dict)]
    return [entry["file"] for entry in entries if isinstance(entry.get("file"), str)]
