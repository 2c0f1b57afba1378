"""Durable runs: what they write down while they run, and who carries one on.

Law of this room: a checkpoint is one transaction and one consistent cut, refused when the run has ended or changed
hands. A run is taken by raising its epoch in one statement, so of several processes one gets it; and only from nobody
(it is paused or was handed over) or from an owner that is gone, never from one that lives (:mod:`app.store.owners`).
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence
from functools import partial

from app.clock import Clock
from app.store import run_rows
from app.store.checkpoints import Checkpoint, Claim, DecisionRow, Forgotten, LogBatch, Pause, StepRow
from app.store.db import Backend, Link, Row, from_json, json_text, named, text
from app.store.decision_rows import MARK, decision, decision_values, plain, restored
from app.store.durable_statements import prepare
from app.store.errors import StaleOwner
from app.store.inline import MOST_BYTES
from app.store.owners import Heartbeat, Lost
from app.store.runs import Runs
from app.store.writer import Ticket, Writer

_ROW_BYTES = 128  # what a row takes beside its value
_SWEPT = 100  # runs whose logs are deleted in one transaction


class Durable:
    """The durable runs of this installation."""

    def __init__(
        self, backend: Backend, writer: Writer, heartbeat: Heartbeat, lost: Lost, clock: Clock, runs: Runs
    ) -> None:
        self._backend, self._writer, self._heartbeat, self._clock = backend, writer, heartbeat, clock
        self._lost, self._runs = lost, runs
        self._do = prepare(backend)

    def begin(
        self, row: Mapping[str, t.Any], started: Mapping[str, t.Any], documents: Mapping[str, t.Any]
    ) -> Ticket:
        """Store the row of a durable run that starts, and what it can be started again with.

        :param row: as for :meth:`Runs.started`; ``durable`` is set here.
        :param started, documents: for :class:`Claim`; JSON.
        :returns: its ``wait()`` raises :class:`StoreFailed` when nothing was kept.
        :raises StoreFailed: the store is closed.
        """
        owner = row.get("owner_id") or self._runs.owner_id
        self._heartbeat.adopt(owner)
        stored = run_rows.whole({**row, "durable": 1}, owner)
        kept = (row["id"], json_text(started), json_text(documents))

        def job(link: Link) -> None:
            self._runs.write_start(link, stored)
            link.insert(self._do["begin"], [kept])

        return self._writer.submit(job, run_rows.size(stored) + run_rows.size(kept))

    def save(self, run_id: str, owner: str, epoch: int, checkpoint: Checkpoint) -> Ticket:
        """Store a checkpoint. Those of one run are committed in the order they were given.

        :returns: its ``wait()`` gives the decisions that now stand for ``asks``, in their order (of one that was there
            already, that one); it raises :class:`StaleOwner` when the run has ended or changed hands, else
            :class:`StoreFailed`; then nothing of it was kept.
        :raises StoreFailed: the store is closed.
        """
        now = self._clock.now_ms()
        steps = [
            (run_id, step.path, step.execution, step.turn, plain(step.key), *step[4:], epoch, now)
            for step in checkpoint.steps
        ]
        asks = [decision_values(row) for row in checkpoint.asks]
        pause = None if checkpoint.pause is None else _Paused.of(run_id, checkpoint.pause)
        guard = {"run": run_id, "owner": owner, "epoch": epoch}

        def job(link: Link) -> list[DecisionRow]:
            if not link.rows(self._do["guard"], guard):
                raise StaleOwner(run_id)
            for gone in checkpoint.forgotten:
                self._forget(link, run_id, gone)
            link.insert(self._do["write"], steps)
            if checkpoint.log is not None:
                link.insert(self._do["log"], [(run_id, *checkpoint.log)])
            stand = [self._ask(link, values) for values in asks]
            for taken in checkpoint.taken:
                link.execute(self._do["take"], {"run": run_id, "decision": taken, "at": now})
            for withdrawn in checkpoint.withdrawn:
                link.execute(self._do["withdraw"], {"run": run_id, "decision": withdrawn, "at": now})
            self._mark(link, run_id, checkpoint)
            if pause is not None:
                link.execute(self._do["pause"], pause.run)
                self._runs.write_blocks(link, run_id, pause.blocks, pause.usages)
            elif checkpoint.release:
                link.execute(self._do["release"], guard)
            return stand

        return self._writer.submit(job, _size(checkpoint) + (pause.size() if pause else 0))

    def claim(self, run_id: str, owner: str, *, asked: bool = False) -> Claim | None:
        """Take a run over, under a new epoch; it is ``running`` then, and this process carries it.

        Taken is a durable run that is paused with an answer (or a wish to stop it) nobody took up, that was handed
        over, or whose owner the last :meth:`claimable` of this process found gone.

        :param asked: take a paused run though nobody has answered, such as to end it.
        :returns: None when the run is unknown, has ended, is carried by somebody or has nothing to go on for.
        :raises StoreFailed: nothing was taken.
        """
        self._heartbeat.adopt(owner)
        job = partial(self._claim, run_id=run_id, owner=owner, asked=asked)
        # What a run goes on with may be large: never on the hub.
        return t.cast("Claim | None", self._writer.submit(job, MOST_BYTES + 1).wait())

    def claimable(self, limit: int, older_than_s: float) -> list[str]:
        """Runs that :meth:`claim` would take, oldest first: their turn comes when somebody looks for them.

        :param limit: how many at most. :param older_than_s: as for :meth:`Runs.fail_lost`.
        :raises StoreFailed: the database cannot be read.
        """
        lost, _ = self._lost.look(older_than_s)
        rows = self._backend.rows
        asked = {"limit": limit}
        found = {row[0] for row in rows(self._do["answered"], asked)}
        found.update(row[0] for row in rows(self._do["released"], asked))
        found.update(row[0] for row in rows(self._do["stopping"], asked))
        for owner in lost:
            found.update(row[0] for row in rows(self._do["carried"], {**owner, **asked}))
        return sorted(found)[:limit]

    def log(self, run_id: str, after: int = -1) -> list[LogBatch]:
        """What a durable run has said, in order, as far as it is stored.

        :param after: leave out batches that end at this number or before.
        :raises StoreFailed: the database cannot be read.
        """
        asked = {"run": text(run_id), "after": after}
        return [LogBatch(*row) for row in self._backend.rows(self._do["logs"], asked)]

    def documents(self, run_id: str) -> dict[str, t.Any] | None:
        """The documents that a durable run goes on with; None when there are none of it any more.

        :raises StoreFailed: the database cannot be read.
        """
        kept = self._backend.rows(self._do["kept"], {"run": text(run_id)})
        return from_json(kept[0][1]) if kept else None

    def last(self, run_id: str) -> int:
        """The number of the last event of a durable run that is stored; 0 when none is.

        :raises StoreFailed: the database cannot be read.
        """
        return int(self._backend.rows(self._do["last"], {"run": text(run_id)})[0][0] or 0)

    def due(self, run_id: str) -> bool:
        """Whether a run that has paused has something to go on for: an answer, or a wish to stop it.

        :raises StoreFailed: the database cannot be read.
        """
        return bool(self._backend.rows(self._do["due"], {"run": text(run_id)}))

    def sweep_logs(self, older_than_ms: int) -> int:
        """Delete the logs of durable runs that ended longer ago than this; what they said is then told from their
        record.

        :returns: of how many runs; at most 100, so that no transaction is long: more may be left.
        :raises StoreFailed: nothing was deleted.
        """
        asked = {"before": self._clock.now_ms() - older_than_ms, "limit": _SWEPT}
        old = [row[0] for row in self._backend.rows(self._do["old_logs"], asked)]
        if not old:
            return 0

        def job(link: Link) -> None:
            for run_id in old:
                link.execute(self._do["drop_logs"], {"run": run_id})

        self._writer.submit(job, MOST_BYTES + 1).wait()
        return len(old)

    # -- Parts of the jobs ---------------------------------------------------------------------------

    def _forget(self, link: Link, run_id: str, gone: Forgotten) -> None:
        prefix = f"{gone.path}/"
        values = {"run": run_id, **gone._asdict(), "prefix": prefix, "length": len(prefix)}
        link.execute(self._do["forget_all" if gone.parts else "forget"], values)

    def _ask(self, link: Link, values: tuple[t.Any, ...]) -> DecisionRow:
        link.change(self._do["ask"], values)
        key = dict(zip(self._do["ask"].names, values, strict=True))
        return decision(link.rows(self._do["asked"], key)[0])

    def _mark(self, link: Link, run_id: str, checkpoint: Checkpoint) -> None:
        if checkpoint.seq_reserved is not None:
            link.execute(self._do["reserve"], {"run": run_id, "upto": checkpoint.seq_reserved})
        if checkpoint.human_wait_ms is not None:
            link.execute(self._do["waited"], {"run": run_id, "waited": checkpoint.human_wait_ms})

    def _claim(self, link: Link, run_id: str, owner: str, asked: bool) -> Claim | None:
        this: dict[str, t.Any] = {"run": text(run_id)}
        found = link.rows(self._do["lock"], this)
        if not found:
            return None
        row = named(run_rows.COLUMNS, found[0], run_rows.JSON)
        if not self._may_claim(link, row, asked):
            return None
        taken = {**this, "mine": owner, "epoch": row["owner_epoch"], "theirs": row["owner_id"]}
        taken["beat"] = None if row["owner_id"] is None else self._lost.beat(row["owner_id"])
        if not link.execute(self._do["claim"], taken):
            return None
        kept = link.rows(self._do["kept"], this)
        epoch = row["owner_epoch"] + 1
        return Claim(
            owner=owner,
            epoch=epoch,
            started=from_json(kept[0][0]) if kept else None,
            documents=from_json(kept[0][1]) if kept else None,
            steps=[_step(step) for step in link.rows(self._do["steps"], this)],
            logs=[LogBatch(*batch) for batch in link.rows(self._do["logs"], {**this, "after": -1})],
            decisions=[decision(each) for each in link.rows(self._do["decisions"], this)],
            row={**row, "status": "running", "owner_id": owner, "owner_epoch": epoch},
            paused_at=row["paused_at"],
            seq_reserved=row["seq_reserved"],
            clean=row["owner_id"] is None,
        )

    def _may_claim(self, link: Link, row: Mapping[str, t.Any], asked: bool) -> bool:
        if not row["durable"] or row["ended_at"] is not None:
            return False
        if row["owner_id"] is not None:
            return row["status"] != "paused" and self._lost.beat(row["owner_id"]) is not None
        if row["status"] != "paused" or asked or row["stop_requested"] is not None:
            return True
        return bool(link.rows(self._do["left"], {"run": row["id"]}))


class _Paused(t.NamedTuple):
    """The rows of a pause."""

    run: dict[str, t.Any]
    blocks: list[Row]
    usages: list[Row]

    @classmethod
    def of(cls, run_id: str, pause: Pause) -> t.Self:
        """Made where they are asked for, so that nothing changes before they are written."""
        return cls(
            {"run": run_id, "new_paused_at": pause.paused_at, **run_rows.pause(pause.row)},
            run_rows.blocks(run_id, pause.blocks),
            run_rows.usages(run_id, pause.usages),
        )

    def size(self) -> int:
        """About how many bytes they take."""
        return run_rows.size(self.run.values()) + sum(map(run_rows.size, self.blocks))


def _step(row: Sequence[t.Any]) -> StepRow:
    step = StepRow(*row)
    return step._replace(key=restored(step.key)) if step.key[:1] == MARK else step


def _size(checkpoint: Checkpoint) -> int:
    """About how many bytes a checkpoint takes."""
    size = sum(_ROW_BYTES + len(step.value or b"") for step in checkpoint.steps)
    if checkpoint.log is not None:
        size += len(checkpoint.log.data)
    return size + 1024 * len(checkpoint.asks)
