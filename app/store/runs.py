"""Run records: a row when a run starts, the whole record when it ends.

Law of this room: a run costs two transactions, whatever it streamed; what a durable one costs beside that is in
:mod:`app.store.durable`. Every write carries the owner's epoch and is refused when the run has ended or changed hands,
so a process that was thought dead cannot overwrite what was recorded in its place.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence

from sqlalchemy import BindParameter, bindparam, delete, insert, select, update

from app.clock import Clock
from app.store import run_rows
from app.store.checkpoints import LogBatch
from app.store.db import Backend, Link, Row, json_text, named, text
from app.store.durable_tables import decisions, durable_runs, journal, run_logs
from app.store.errors import StaleOwner
from app.store.owners import Heartbeat, Lost
from app.store.run_rows import BLOCK_COLUMNS, COLUMNS, END, JSON, USAGE_COLUMNS
from app.store.tables import owners, run_blocks, run_usage, runs
from app.store.writer import Ticket, Writer

LOST_TEXT = "The server process that carried this run ended; the run could not go on."


class Runs:
    """The runs of this installation.

    :param lost: which owners are gone. :param owner_id: the owner of runs whose row names none.
    """

    def __init__(
        self, backend: Backend, writer: Writer, heartbeat: Heartbeat, lost: Lost, clock: Clock, owner_id: str
    ) -> None:
        self._backend, self._writer, self._heartbeat, self._clock = backend, writer, heartbeat, clock
        self._lost, self.owner_id = lost, owner_id
        self._prepare_runs(backend)
        self._prepare_owners(backend)
        self._prepare_durable(backend)

    def _prepare_runs(self, backend: Backend) -> None:
        r, b, u = runs.c, run_blocks.c, run_usage.c
        this = r.id == bindparam("run")
        self._insert = backend.prepare(insert(runs))
        self._finish = backend.prepare(
            update(runs)
            .where(
                this,
                r.owner_id == bindparam("owner"),
                r.owner_epoch == bindparam("epoch"),
                r.ended_at.is_(None),
            )
            .values({r[name]: bindparam(f"new_{name}") for name in END})
        )
        assert self._finish.names == (*[f"new_{name}" for name in END], "run", "owner", "epoch")
        self._exists = backend.prepare(select(r.id).where(this))
        self._status = backend.prepare(select(r.status).where(this))
        self._insert_block = backend.prepare(insert(run_blocks))
        self._insert_usage = backend.prepare(insert(run_usage))
        self._get = backend.prepare(select(runs).where(this))
        self._blocks = backend.prepare(
            select(*[b[name] for name in BLOCK_COLUMNS])
            .where(b.run_id == bindparam("run"))
            .order_by(b.position)
        )
        self._usages = backend.prepare(
            select(*[u[name] for name in USAGE_COLUMNS])
            .where(u.run_id == bindparam("run"))
            .order_by(u.position)
        )

        self._stop = backend.prepare(
            update(runs).where(this, r.ended_at.is_(None)).values(stop_requested=bindparam("at"))
        )
        self._stopping = backend.prepare(
            select(r.id).where(
                r.owner_id == bindparam("owner"), r.ended_at.is_(None), r.stop_requested.is_not(None)
            )
        )

    def _prepare_owners(self, backend: Backend) -> None:
        r = runs.c
        theirs = (
            r.ended_at.is_(None),
            r.status != "paused",
            r.durable == 0,
            r.owner_id == bindparam("owner"),
        )
        self._forget = backend.prepare(
            delete(owners).where(owners.c.id == bindparam("owner"), owners.c.beat == bindparam("beat"))
        )
        # The beat is compared once more inside the transaction: an owner that woke up keeps its runs.
        beating = select(owners.c.id).where(
            owners.c.id == bindparam("owner"), owners.c.beat != bindparam("beat")
        )
        self._fail = backend.prepare(
            update(runs)
            .where(*theirs, ~beating.exists())
            .values(
                status="failed",
                cause="worker_lost",
                error=bindparam("why"),
                ended_at=bindparam("at"),
                owner_epoch=r.owner_epoch + 1,
            )
        )

    def _prepare_durable(self, backend: Backend) -> None:
        d = decisions.c
        run: BindParameter[str] = bindparam("run")
        self._clear_blocks = [
            backend.prepare(delete(table).where(table.c.run_id == run)) for table in (run_blocks, run_usage)
        ]
        self._clear = [
            backend.prepare(delete(table).where(table.c.run_id == run)) for table in (journal, durable_runs)
        ]
        self._cancel = backend.prepare(
            update(decisions).where(d.run_id == run, d.state == "open").values(state="cancelled")
        )
        self._close = backend.prepare(
            update(decisions)
            .where(d.run_id == run, d.state != "cancelled", d.taken_at.is_(None))
            .values(taken_at=bindparam("at"))
        )
        self._insert_log = backend.prepare(insert(run_logs))

    def started(self, row: Mapping[str, t.Any]) -> None:
        """Queue the row of a run that starts. Returns at once; a failure is logged, and :meth:`finished` then
        stores the whole row.

        :param row: by column name; missing columns are NULL, ``owner_id`` is this store's own. Values of
            JSON columns as Python values.
        :raises StoreFailed: the store is closed.
        """
        owner = row.get("owner_id") or self.owner_id
        self._heartbeat.adopt(owner)
        stored = run_rows.whole(row, owner)
        what = f"the start of run {row['id']}"
        self._writer.post(lambda link: link.insert(self._insert, [stored]), what, run_rows.size(stored))

    def finished(
        self,
        row: Mapping[str, t.Any],
        blocks: Sequence[Mapping[str, t.Any]],
        usage: Sequence[Mapping[str, t.Any]] = (),
        log: LogBatch | None = None,
    ) -> Ticket:
        """Store the end of a run with its block log.

        Where ``row["durable"]`` says so, what the run would have gone on with is deleted and its open decisions are
        cancelled, in the same transaction.

        :param row: as for :meth:`started`, complete; not changed by the caller afterwards.
        :param blocks: rows of the block log, in order.
        :param usage: one row per model call: block, model, tokens, cost, currency, estimated.
        :param log: of a durable run, the last that it said.
        :returns: its ``wait()`` raises :class:`StaleOwner` when the run has ended or changed hands, else
            :class:`StoreFailed`.
        """
        run_id: str = row["id"]
        owner = row.get("owner_id") or self.owner_id
        end = (*run_rows.end(row), run_id, owner, row.get("owner_epoch", 1))
        block_rows, usage_rows = run_rows.blocks(run_id, blocks), run_rows.usages(run_id, usage)
        durable = bool(row.get("durable"))

        def job(link: Link) -> None:
            if not link.change(self._finish, end):
                if link.rows(self._exists, {"run": run_id}):
                    raise StaleOwner(run_id)
                link.insert(self._insert, [run_rows.whole(row, owner)])  # its start could not be stored
            if durable:
                self._end_durable(link, run_id, row["ended_at"], log)
            link.insert(self._insert_block, block_rows)
            link.insert(self._insert_usage, usage_rows)

        size = run_rows.size(end) + sum(map(run_rows.size, block_rows)) + (len(log.data) if log else 0)
        return self._writer.submit(job, size)

    def _end_durable(self, link: Link, run_id: str, ended_at: int, log: LogBatch | None) -> None:
        this = {"run": run_id, "at": ended_at}
        for statement in (*self._clear_blocks, *self._clear, self._cancel, self._close):
            link.execute(statement, this)
        if log is not None:
            link.insert(self._insert_log, [(run_id, *log)])

    def write_start(self, link: Link, stored: Row) -> None:
        """Insert a run's whole row (:func:`app.store.run_rows.whole`) as part of a job."""
        link.insert(self._insert, [stored])

    def write_blocks(self, link: Link, run_id: str, blocks: Sequence[Row], usages: Sequence[Row]) -> None:
        """Replace the block log and the model calls of a run that has not ended, as part of a job."""
        for statement in self._clear_blocks:
            link.execute(statement, {"run": run_id})
        link.insert(self._insert_block, blocks)
        link.insert(self._insert_usage, usages)

    def get(self, run_id: str) -> dict[str, t.Any] | None:
        """A run's columns, ``blocks`` (the block log) and ``usages`` (one entry per model call); None when
        unknown. Both lists are empty until the run has ended or pauses; while it goes on after a pause, they are empty
        again.

        :raises StoreFailed: the database cannot be read.
        """
        this = {"run": text(run_id)}
        found = self._backend.rows(self._get, this)
        if not found:
            return None
        run = named(COLUMNS, found[0], JSON)
        # They were committed with the end and never change, so the three statements show one moment. Those of a pause
        # change only when the run has gone on.
        shown = run["ended_at"] is not None or run["status"] == "paused"
        blocks = self._backend.rows(self._blocks, this) if shown else []
        usages = self._backend.rows(self._usages, this) if shown else []
        run["blocks"] = [named(BLOCK_COLUMNS, row, JSON) for row in blocks]
        run["usages"] = [named(USAGE_COLUMNS, row, JSON) for row in usages]
        for usage in run["usages"]:
            usage["estimated"] = bool(usage["estimated"])
        return run

    def status(self, run_id: str) -> str | None:
        """A run's status alone; None when unknown.

        :raises StoreFailed: the database cannot be read.
        """
        found = self._backend.rows(self._status, {"run": text(run_id)})
        return str(found[0][0]) if found else None

    def request_stop(self, run_id: str) -> bool:
        """Ask whichever process carries a run to end it; that process looks for such wishes all the time.

        :returns: False when the run is unknown or has ended.
        :raises StoreFailed: it was not stored.
        """
        values = {"run": text(run_id), "at": self._clock.now_ms()}
        return bool(self._writer.submit(lambda link: link.execute(self._stop, values), 64).wait())

    def stopping(self, owner_id: str) -> list[str]:
        """Ids of the open runs of an owner that should end.

        :raises StoreFailed: the database cannot be read.
        """
        return [row[0] for row in self._backend.rows(self._stopping, {"owner": owner_id})]

    def heartbeat(self, owner_id: str) -> None:
        """Make this process known as a living owner. Queued; the store repeats it by itself from then on.

        :raises StoreFailed: the store is closed.
        """
        self._heartbeat.adopt(owner_id)
        self._writer.post(_nothing, "the heartbeat")

    def fail_lost(self, older_than_s: float) -> int:
        """Fail the runs of owners that are gone (status ``failed``, cause ``worker_lost``). Durable ones go on instead:
        see :meth:`app.store.durable.Durable.claimable`.

        An owner on this host is gone when its process is, or when it closed its store; one elsewhere when
        its heartbeat stood still for ``older_than_s`` seconds of our own watching.

        :returns: how many runs.
        :raises StoreFailed: the database could not be read or written.
        """
        lost, gone = self._lost.look(older_than_s)
        if not lost and not gone:
            return 0
        end = {"why": json_text({"code": "worker_lost", "message": LOST_TEXT}), "at": self._clock.now_ms()}

        def job(link: Link) -> int:
            failed = sum(link.execute(self._fail, {**owner, **end}) for owner in lost)
            for owner in gone:
                link.execute(self._forget, owner)
            return failed

        return int(self._writer.submit(job).wait())


def _nothing(_link: Link) -> None:
    """The heartbeat itself is the housekeeper's; the job only wakes the writer."""
