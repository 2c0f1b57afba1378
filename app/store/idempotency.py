"""Claims: which run a start that may be repeated has begun, or is about to begin.

Law of this room: of many who claim a key one gets it, whichever process they ask; the claim is committed before its run
begins. A claim whose run is in the store stands for its whole time, whatever anybody wishes: to let go of it would
let the run happen twice. One whose run never came is let go of by the process that made it, or by whoever finds that
process gone. Nothing here is what a client sent, only hashes of it.
"""

from __future__ import annotations

import logging
import typing as t

from sqlalchemy import bindparam, delete, exists, select
from sqlalchemy import text as sql

from app.clock import Clock
from app.store.db import Backend, Link, text
from app.store.deployment_tables import idempotency
from app.store.errors import StoreFailed
from app.store.owners import Heartbeat, Lost
from app.store.tables import runs
from app.store.writer import Ticket, Writer

log = logging.getLogger("studio.store")

#: How long a claim stands (contract section 3.4).
KEPT_MS = 86_400_000
_SIZE = 512  # bytes of a row, for the writer
_SWEPT = 500  # rows in one transaction
#: Tries to read what was there a moment ago: it may go in between, and then this one gets the key.
_TRIES = 5

# A claim whose time is over is as good as none, whether or not it was swept.
_CLAIM = """
    INSERT INTO idempotency (key_hash, body_hash, run_id, owner_id, workflow_id, chat_id, expires_at)
    VALUES (
        :key, :body, :run, :owner,
        (SELECT id FROM workflows WHERE id = :workflow), (SELECT id FROM chats WHERE id = :chat), :expires
    )
    ON CONFLICT (key_hash) DO UPDATE SET
        body_hash = excluded.body_hash, run_id = excluded.run_id, owner_id = excluded.owner_id,
        workflow_id = excluded.workflow_id, chat_id = excluded.chat_id, expires_at = excluded.expires_at
        WHERE idempotency.expires_at <= :now
    RETURNING run_id
"""


class Claimed(t.NamedTuple):
    """A claim as it stands.

    :ivar body: hash of the body it was made with. :ivar owner_id: the process that made it.
    """

    run_id: str
    body: bytes
    owner_id: str


class Idempotency:
    """The claims of this installation. Methods raise :class:`StoreFailed` when the database fails, but for
    :meth:`release`.

    :param lost: which owners are gone. :param owner_id: this process.
    """

    def __init__(
        self, backend: Backend, writer: Writer, heartbeat: Heartbeat, lost: Lost, clock: Clock, owner_id: str
    ) -> None:
        self._backend, self._writer, self._clock = backend, writer, clock
        self._heartbeat, self._lost, self._owner_id = heartbeat, lost, owner_id
        c = idempotency.c
        this = (c.key_hash == bindparam("key"), c.expires_at > bindparam("now"))
        self._claim = backend.prepare(sql(_CLAIM))
        self._get = backend.prepare(select(c.run_id, c.body_hash, c.owner_id).where(*this))
        ran = exists().where(runs.c.id == c.run_id)
        self._release = backend.prepare(
            delete(idempotency).where(c.key_hash == bindparam("key"), c.run_id == bindparam("run"), ~ran)
        )
        over = c.expires_at <= bindparam("now")
        some = select(c.key_hash).where(over).limit(_SWEPT).scalar_subquery()
        # Asked again outside of the list: a row may have been claimed anew in between.
        self._sweep = backend.prepare(delete(idempotency).where(c.key_hash.in_(some), over))
        self._letting_go: list[tuple[bytes, str, Ticket]] = []

    def claim(
        self, key: bytes, body: bytes, run_id: str, workflow_id: str | None = None, chat_id: str | None = None
    ) -> Claimed:
        """Claim a key for a run that is about to begin; committed when this returns.

        :param key: its hash, with whose it is and for what. :param body: hash of what the run is started with.
        :param workflow_id: with which the claim goes, or ``chat_id``.
        :returns: the claim that stands: this one, if its run is ``run_id``, else an earlier one.
        """
        self._heartbeat.adopt(self._owner_id)
        now = self._clock.now_ms()
        values = {"key": key, "body": body, "run": run_id, "owner": self._owner_id, "now": now}
        values |= {"workflow": text(workflow_id), "chat": text(chat_id), "expires": now + KEPT_MS}

        def job(link: Link) -> Claimed:
            for _ in range(_TRIES):
                if link.rows(self._claim, values):
                    return Claimed(run_id, body, self._owner_id)
                if found := link.rows(self._get, values):
                    return _claimed(found[0])
            raise StoreFailed("The store could not tell whose the Idempotency-Key is.")

        return t.cast(Claimed, self._writer.submit(job, _SIZE).wait())

    def get(self, key: bytes) -> Claimed | None:
        """The claim of a key that stands; None: there is none."""
        found = self._backend.rows(self._get, {"key": key, "now": self._clock.now_ms()})
        return _claimed(found[0]) if found else None

    def release(self, key: bytes, run_id: str) -> None:
        """Let go of a claim whose run will not begin. Nothing happens where it has begun. Returns at once, never
        raises; what cannot be stored now is tried again by :meth:`settle`.
        """
        self._letting_go.append((key, run_id, self._submit(key, run_id)))
        if all(ticket.done for _, _, ticket in self._letting_go):
            self.settle()

    def settle(self) -> None:
        """See to it that every claim that was to go has gone."""
        left, self._letting_go = self._letting_go, []
        for key, run_id, ticket in left:
            if not ticket.done:
                self._letting_go.append((key, run_id, ticket))
                continue
            try:
                ticket.wait()
            except StoreFailed as error:
                log.warning("the claim of run %s, which never began, could not be let go: %s", run_id, error)
                self._letting_go.append((key, run_id, self._submit(key, run_id)))

    def give_up(self, key: bytes, claimed: Claimed, older_than_s: float) -> bool:
        """Let go of a claim of a process that is gone, if its run never came.

        :param older_than_s: how long the heartbeat of a process elsewhere must have stood still.
        :returns: whether it has gone.
        """
        if claimed.owner_id == self._owner_id or not self._lost.is_gone(claimed.owner_id, older_than_s):
            return False
        values = {"key": key, "run": claimed.run_id}
        return bool(self._writer.submit(lambda link: link.execute(self._release, values), _SIZE).wait())

    def sweep(self) -> int:
        """Delete claims whose time is over, a bounded number of them.

        :returns: how many were deleted.
        """
        now = {"now": self._clock.now_ms()}
        return int(self._writer.submit(lambda link: link.execute(self._sweep, now), _SIZE).wait())

    def _submit(self, key: bytes, run_id: str) -> Ticket:
        values = {"key": key, "run": run_id}
        try:
            return self._writer.submit(lambda link: link.execute(self._release, values), _SIZE)
        except StoreFailed as error:  # the store is closed, and with it this process an owner
            ticket = Ticket()
            ticket.settle(None, None)
            log.warning("the claim of run %s, which never began, is left: %s", run_id, error)
            return ticket


def _claimed(row: t.Sequence[t.Any]) -> Claimed:
    run_id, body, owner_id = row
    return Claimed(run_id, bytes(body), owner_id)
