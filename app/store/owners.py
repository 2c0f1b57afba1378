"""Who runs a run, and whether that process still lives.

Law of this room: a live owner never loses a run to a guess. Processes of one host are looked up in
``/proc``, which is exact, also after the machine was suspended. For all others a heartbeat counts that
we have seen standing still for long enough on our own monotonic clock; clocks of two machines are
never compared.
"""

from __future__ import annotations

import os
import time
import typing as t

from sqlalchemy import bindparam, delete, insert, select, update

from app.store.db import Backend, Link, Row
from app.store.tables import owners, runs

HEARTBEAT_S = 5.0
_FORGET_S = 3600.0  # an owner elsewhere that has no open runs and stood still for this long is cleared away


class Identity(t.NamedTuple):
    """A process: ``place`` is its kernel and process namespace ("" where that cannot be told), ``born``
    tells it from a later process with the same ``pid``.
    """

    place: str
    pid: int
    born: int


def identity() -> Identity:
    """This process."""
    pid = os.getpid()
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            boot = file.read().strip()
        place = f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:  # no /proc: the heartbeat alone tells
        return Identity("", pid, 0)
    born = _born(pid)
    return Identity(place, pid, born) if born else Identity("", pid, 0)


def alive(owner: Identity) -> bool:
    """Whether a process of our own place still lives. A zombie does not."""
    return _born(owner.pid) == owner.born


def _born(pid: int) -> int:
    """When a process started, in ticks since boot; 0 when there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name stands in parentheses and may hold anything; after it: state is field 3, starttime 22.
            values = file.read().rpartition(b")")[2].split()
    except OSError:
        return 0
    return 0 if values[0] in (b"Z", b"X") else int(values[19])


class Heartbeat:
    """The writer's housekeeper: registers the owners of this process and beats for them.

    It beats in the writer's thread, so a hub that is busy for long does not look dead.
    """

    def __init__(self, backend: Backend) -> None:
        self._beat = backend.prepare(
            update(owners).where(owners.c.id == bindparam("owner")).values(beat=owners.c.beat + 1)
        )
        self._insert = backend.prepare(insert(owners))
        self._delete = backend.prepare(delete(owners).where(owners.c.id == bindparam("owner")))
        self._mine: tuple[str, ...] = ()
        self._next: float | None = None

    def adopt(self, owner_id: str) -> None:
        """This process acts for an owner from now on; the next transaction registers it first."""
        if owner_id not in self._mine:
            self._mine += (owner_id,)
            self._next = 0.0

    def due(self) -> float | None:
        """See :class:`app.store.writer.Housekeeper`."""
        return None if self._next is None else self._next - time.monotonic()

    def work(self, link: Link) -> None:
        """See :class:`app.store.writer.Housekeeper`."""
        self._next = time.monotonic() + HEARTBEAT_S  # also when it fails: no storm on a locked database
        for owner_id in self._mine:
            if not link.execute(self._beat, {"owner": owner_id}):
                me = identity()
                link.insert(self._insert, [(owner_id, me.place, me.pid, me.born, 0)])

    def leave(self, link: Link) -> None:
        """See :class:`app.store.writer.Housekeeper`. Runs that are still open are nobody's from now on."""
        self._next = None
        for owner_id in self._mine:
            link.execute(self._delete, {"owner": owner_id})


class Watch:
    """Which owners are lost, as seen from this process."""

    def __init__(self) -> None:
        self._place = identity().place
        self._seen: dict[str, tuple[int, float]] = {}

    def lost(self, owner_id: str, owner: Identity | None, beat: int | None, still_s: float) -> bool:
        """Whether an owner that has open runs is gone.

        :param owner: None: it has no row, so it left or was cleared away; its runs are nobody's.
        :param still_s: how long the heartbeat of a process elsewhere must have stood still.
        """
        if owner is None or beat is None:
            return True
        if self._place and owner.place == self._place:
            return not alive(owner)
        now = time.monotonic()
        last, since = self._seen.get(owner_id, (None, now))
        if last != beat:
            since = now
        self._seen[owner_id] = (beat, since)
        return now - since >= still_s

    def keep_only(self, owner_ids: set[str]) -> None:
        """Forget owners that have no open runs any more."""
        for owner_id in self._seen.keys() - owner_ids:
            del self._seen[owner_id]


class Lost:
    """Which owners of open runs are gone. One per process: what a heartbeat elsewhere did takes time to see."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._watch: Watch | None = None
        self._beats: dict[str, int] = {}
        r = runs.c
        self._carrying = backend.prepare(
            select(r.owner_id, owners.c.place, owners.c.pid, owners.c.born, owners.c.beat)
            .outerjoin(owners, owners.c.id == r.owner_id)
            .where(r.ended_at.is_(None), r.owner_id.is_not(None))
            .distinct()
        )
        told = (owners.c.id, owners.c.place, owners.c.pid, owners.c.born, owners.c.beat)
        self._owners = backend.prepare(select(*told))
        self._owner = backend.prepare(select(*told).where(owners.c.id == bindparam("owner")))

    def look(self, older_than_s: float) -> tuple[list[Ref], list[Ref]]:
        """The owners that are gone: first those that have open runs, then those that have none.

        :param older_than_s: how long the heartbeat of a process elsewhere must have stood still.
        :raises StoreFailed: the database cannot be read.
        """
        watch = self._watch = self._watch or Watch()
        carrying = self._backend.rows(self._carrying, {})
        busy = {row[0] for row in carrying}
        idle = [row for row in self._backend.rows(self._owners, {}) if row[0] not in busy]
        watch.keep_only(busy.union(row[0] for row in idle))
        lost = [_ref(row) for row in carrying if watch.lost(*_owner(row), older_than_s)]
        gone = [_ref(row) for row in idle if watch.lost(*_owner(row), max(older_than_s, _FORGET_S))]
        self._beats = {ref["owner"]: ref["beat"] for ref in lost}
        return lost, gone

    def is_gone(self, owner_id: str, older_than_s: float) -> bool:
        """Whether one owner is gone; see :meth:`look`, which also keeps an eye on those elsewhere.

        :raises StoreFailed: the database cannot be read.
        """
        watch = self._watch = self._watch or Watch()
        found = self._backend.rows(self._owner, {"owner": owner_id})
        return watch.lost(*(_owner(found[0]) if found else (owner_id, None, None)), older_than_s)

    def beat(self, owner_id: str) -> int | None:
        """The heartbeat with which the last look found an owner lost; None when it did not."""
        return self._beats.get(owner_id)


class Ref(t.TypedDict):
    """An owner that was found lost, with the heartbeat it had then (-1: it has no row)."""

    owner: str
    beat: int


def _owner(row: Row) -> tuple[str, Identity | None, int | None]:
    owner_id, place, pid, born, beat = row
    return owner_id, None if place is None else Identity(place, pid, born), beat


def _ref(row: Row) -> Ref:
    return {"owner": row[0], "beat": -1 if row[4] is None else row[4]}
