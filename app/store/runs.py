"""Run records: a row when a run starts, the whole record when it ends.

Law of this room: a run costs two transactions, whatever it streamed. Every write carries the owner's
epoch and is refused when the run has ended or changed hands, so a process that was thought dead
cannot overwrite what was recorded in its place.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterable, Mapping, Sequence

from sqlalchemy import bindparam, delete, insert, select, update

from app.clock import Clock
from app.store.db import Backend, Link, Row, json_text, named, text
from app.store.errors import StaleOwner
from app.store.owners import Heartbeat, Identity, Watch
from app.store.tables import owners, run_blocks, run_usage, runs
from app.store.writer import Ticket, Writer

COLUMNS = tuple(column.name for column in runs.columns)
BLOCK_COLUMNS = tuple(
    column.name for column in run_blocks.columns if column.name not in ("run_id", "position")
)
USAGE_COLUMNS = tuple(
    column.name for column in run_usage.columns if column.name not in ("run_id", "position")
)
_JSON = frozenset(
    {"input", "output", "partial_text", "error", "usage", "tool_calls", "tokens", "model_failures"}
)
_TEXTS = frozenset({"workflow_id", "key_id", "conversation_id", "thread_id", "block", "name", "model"})
#: What the end of a run sets; the rest stays as it was when the run started.
_END = (
    "status",
    "cause",
    "output",
    "partial_text",
    "error",
    "usage",
    "tool_calls",
    "started_at",
    "ended_at",
    "queued_ms",
    "active_ms",
    "human_wait_ms",
    "seq_reserved",
    "model_failures",
)
_DEFAULTS: Mapping[str, t.Any] = {"owner_epoch": 1, "seq_reserved": 0, "status": "running", "durable": 0}

_FORGET_S = 3600.0  # an owner elsewhere that has no open runs and stood still for this long is cleared away
LOST_TEXT = "The server process that carried this run ended; the run could not go on."


class Runs:
    """The runs of this installation.

    :param owner_id: the owner of runs whose row names none.
    """

    def __init__(
        self, backend: Backend, writer: Writer, heartbeat: Heartbeat, clock: Clock, owner_id: str
    ) -> None:
        self._backend, self._writer, self._heartbeat, self._clock = backend, writer, heartbeat, clock
        self._owner_id = owner_id
        self._watch: Watch | None = None
        self._prepare_runs(backend)
        self._prepare_owners(backend)

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
            .values({r[name]: bindparam(f"new_{name}") for name in _END})
        )
        assert self._finish.names == (*[f"new_{name}" for name in _END], "run", "owner", "epoch")
        self._exists = backend.prepare(select(r.id).where(this))
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
        open_ = (r.ended_at.is_(None), r.status != "paused")
        self._open = backend.prepare(
            select(r.owner_id, owners.c.place, owners.c.pid, owners.c.born, owners.c.beat)
            .outerjoin(owners, owners.c.id == r.owner_id)
            .where(*open_)
            .distinct()
        )
        self._owners = backend.prepare(
            select(owners.c.id, owners.c.place, owners.c.pid, owners.c.born, owners.c.beat)
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
            .where(*open_, r.owner_id == bindparam("owner"), ~beating.exists())
            .values(
                status="failed",
                cause="worker_lost",
                error=bindparam("why"),
                ended_at=bindparam("at"),
                owner_epoch=r.owner_epoch + 1,
            )
        )

    def started(self, row: Mapping[str, t.Any]) -> None:
        """Queue the row of a run that starts. Returns at once; a failure is logged, and :meth:`finished` then
        stores the whole row.

        :param row: by column name; missing columns are NULL, ``owner_id`` is this store's own. Values of
            JSON columns as Python values.
        :raises StoreFailed: the store is closed.
        """
        owner = row.get("owner_id") or self._owner_id
        self._heartbeat.adopt(owner)
        stored = self._whole(row, owner)
        what = f"the start of run {row['id']}"
        self._writer.post(lambda link: link.insert(self._insert, [stored]), what, _size(stored))

    def finished(
        self,
        row: Mapping[str, t.Any],
        blocks: Sequence[Mapping[str, t.Any]],
        usage: Sequence[Mapping[str, t.Any]] = (),
    ) -> Ticket:
        """Store the end of a run with its block log.

        :param row: as for :meth:`started`, complete; not changed by the caller afterwards.
        :param blocks: rows of the block log, in order.
        :param usage: one row per model call: block, model, tokens, cost, currency, estimated.
        :returns: its ``wait()`` raises :class:`StaleOwner` when the run has ended or changed hands, else
            :class:`StoreFailed`.
        """
        run_id: str = row["id"]
        owner = row.get("owner_id") or self._owner_id
        end = (*_encode(_END_FIELDS, {**_DEFAULTS, **row}), run_id, owner, row.get("owner_epoch", 1))
        block_rows = [(run_id, place, *_encode(_BLOCK_FIELDS, item)) for place, item in enumerate(blocks)]
        usage_rows = [(run_id, place, *_encode(_USAGE_FIELDS, item)) for place, item in enumerate(usage)]

        def job(link: Link) -> None:
            if not link.change(self._finish, end):
                if link.rows(self._exists, {"run": run_id}):
                    raise StaleOwner(run_id)
                link.insert(self._insert, [self._whole(row, owner)])  # its start could not be stored
            link.insert(self._insert_block, block_rows)
            link.insert(self._insert_usage, usage_rows)

        size = _size(end) + sum(map(_size, block_rows))
        return self._writer.submit(job, size)

    def get(self, run_id: str) -> dict[str, t.Any] | None:
        """A run's columns, ``blocks`` (the block log) and ``usages`` (one entry per model call); None when
        unknown. Both lists are empty until the run has ended.

        :raises StoreFailed: the database cannot be read.
        """
        this = {"run": text(run_id)}
        found = self._backend.rows(self._get, this)
        if not found:
            return None
        run = named(COLUMNS, found[0], _JSON)
        # They were committed with the end and never change, so the three statements show one moment.
        ended = run["ended_at"] is not None
        blocks = self._backend.rows(self._blocks, this) if ended else []
        usages = self._backend.rows(self._usages, this) if ended else []
        run["blocks"] = [named(BLOCK_COLUMNS, row, _JSON) for row in blocks]
        run["usages"] = [named(USAGE_COLUMNS, row, _JSON) for row in usages]
        for usage in run["usages"]:
            usage["estimated"] = bool(usage["estimated"])
        return run

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
        """Fail the runs of owners that are gone (status ``failed``, cause ``worker_lost``).

        An owner on this host is gone when its process is, or when it closed its store; one elsewhere when
        its heartbeat stood still for ``older_than_s`` seconds of our own watching.

        :returns: how many runs.
        :raises StoreFailed: the database could not be read or written.
        """
        watch = self._watch = self._watch or Watch()
        carrying = self._backend.rows(self._open, {})
        busy = {row[0] for row in carrying}
        idle = [row for row in self._backend.rows(self._owners, {}) if row[0] not in busy]
        watch.keep_only(busy.union(row[0] for row in idle))
        lost = [_ref(row) for row in carrying if watch.lost(*_owner(row), older_than_s)]
        gone = [_ref(row) for row in idle if watch.lost(*_owner(row), max(older_than_s, _FORGET_S))]
        if not lost and not gone:
            return 0
        end = {"why": json_text({"code": "worker_lost", "message": LOST_TEXT}), "at": self._clock.now_ms()}

        def job(link: Link) -> int:
            failed = sum(link.execute(self._fail, {**owner, **end}) for owner in lost)
            for owner in gone:
                link.execute(self._forget, owner)
            return failed

        return int(self._writer.submit(job).wait())

    def _whole(self, row: Mapping[str, t.Any], owner: str) -> Row:
        return tuple(_encode(_RUN_FIELDS, {**_DEFAULTS, **row, "owner_id": owner}))


def _owner(row: Row) -> tuple[str, Identity | None, int | None]:
    owner_id, place, pid, born, beat = row
    return owner_id, None if place is None else Identity(place, pid, born), beat


def _ref(row: Row) -> dict[str, t.Any]:
    return {"owner": row[0], "beat": -1 if row[4] is None else row[4]}


_Fields = Sequence[tuple[str, Callable[[t.Any], t.Any] | None]]


def _fields(names: Sequence[str]) -> _Fields:
    """Names with what makes a stored value of a Python one (None: it is stored as it is)."""

    def converter(name: str) -> Callable[[t.Any], t.Any] | None:
        if name in _JSON:
            return json_text
        return text if name in _TEXTS else int if name == "estimated" else None

    return tuple((name, converter(name)) for name in names)


_RUN_FIELDS = _fields(COLUMNS)
_END_FIELDS = _fields(_END)
_BLOCK_FIELDS = _fields(BLOCK_COLUMNS)
_USAGE_FIELDS = _fields(USAGE_COLUMNS)


def _encode(fields: _Fields, item: Mapping[str, t.Any]) -> list[t.Any]:
    get = item.get
    return [
        value if (value := get(name)) is None or convert is None else convert(value)
        for name, convert in fields
    ]


def _nothing(_link: Link) -> None:
    """The heartbeat itself is the housekeeper's; the job only wakes the writer."""


def _size(row: Iterable[t.Any]) -> int:
    """About how many bytes the values of a row take."""
    return sum(len(value) if isinstance(value, str) else 8 for value in row)
