"""Secrets: values that documents use by name and nobody can read back.

Law of this room: a value leaves the store for the engine (:meth:`Secrets.values`) and for nobody else; no list, log
or error holds one. Values are opened one by one, when they are asked for.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from sqlalchemy import bindparam, delete, insert, select, update

from app.clock import Clock
from app.errors import BlockError
from app.store.catalog import Catalog
from app.store.db import Backend, Link
from app.store.errors import StoreConflict
from app.store.sealing import Box, Sealer, SecretsLocked
from app.store.tables import secrets
from app.store.writer import Note, Writer

log = logging.getLogger("studio.store")

#: Most secrets of an installation: all of them are read at once.
MOST = 1000
#: Most values that are kept out of logs; beyond, those that were used longest ago are forgotten.
MOST_USED = 2 * MOST


@dataclass(frozen=True, slots=True)
class SecretRow:
    """A secret without its value. Times are epoch ms."""

    name: str
    created_at: int
    updated_at: int


class SecretValues(Mapping[str, str]):
    """Secrets by name, as of one moment; each is opened when it is first asked for."""

    __slots__ = ("_opened", "_sealed", "_sealer", "_used")

    def __init__(self, sealer: Sealer, sealed: Mapping[str, bytes], used: Callable[[str], None]) -> None:
        self._sealer = sealer
        self._sealed = sealed
        self._used = used
        self._opened: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        """The value.

        :raises BlockError: ``secret_unknown``, naming the cure.
        :raises SecretsLocked: the key that opens it is not here.
        """
        if name not in self._sealed:
            raise unknown(name)
        value = self._opened.get(name)
        if value is None:
            value = self._opened[name] = self._sealer.open(name, self._sealed[name])
            self._used(value)
        return value

    def __contains__(self, name: object) -> bool:
        return name in self._sealed

    def __iter__(self) -> Iterator[str]:
        return iter(self._sealed)

    def __len__(self) -> int:
        return len(self._sealed)

    def holds(self, sealed: Mapping[str, bytes]) -> bool:
        """Whether these are exactly ``sealed``."""
        return self._sealed == sealed


def unknown(name: str) -> BlockError:
    """The failure of what uses a secret that is not stored."""
    cure = f"store it: studio secret set {name}"
    return BlockError("secret_unknown", f"There is no secret {name}; {cure}")


class Secrets:
    """The secrets of this installation. Methods that write wait for the commit."""

    def __init__(
        self, backend: Backend, writer: Writer, catalog: Catalog, clock: Clock, sealer: Sealer
    ) -> None:
        self._backend, self._writer, self._catalog, self._clock = backend, writer, catalog, clock
        self._sealer = sealer
        self._generation = -1
        self._used: dict[str, None] = {}
        self._opened: tuple[str, ...] | None = ()
        self._looked: int | None = None
        self._told_locked = False
        self._values = SecretValues(sealer, {}, self._use)
        c = secrets.c
        this = c.name == bindparam("called")
        self._all = backend.prepare(select(*secrets.columns).order_by(c.name).with_for_update())
        self._list = backend.prepare(select(*secrets.columns).order_by(c.name))
        self._insert = backend.prepare(insert(secrets))
        self._update = backend.prepare(
            update(secrets).where(this).values(sealed=bindparam("new"), updated_at=bindparam("at"))
        )
        self._remove = backend.prepare(delete(secrets).where(this))

    def set(self, name: str, value: str, note: Note | None = None) -> bool:
        """Store a secret under ``name``, in place of the one that is there.

        :param note: of the change, given what is returned (:class:`app.store.audit.Audit`; so for every writer below).
        :returns: whether it is new.
        :raises SecretsLocked: the secrets that are there were sealed with another key.
        :raises StoreConflict: there are too many.
        :raises StoreFailed: it was not stored (so for every writer below).
        """
        known = self._backend.rows(self._list, {})
        if known:
            self._sealer.open(known[0][0], known[0][1])  # never two keys that do not know of each other
        sealed = self._sealer.seal(value, make_key=not known)
        now = self._clock.now_ms()

        def job(link: Link) -> bool:
            is_new = not link.execute(self._update, {"called": name, "new": sealed, "at": now})
            if is_new:
                if len(link.rows(self._all, {})) >= MOST:
                    raise StoreConflict(f"There are {MOST} secrets already; remove some that nothing uses.")
                link.insert(self._insert, [(name, sealed, now, now)])
            self._catalog.bump(link)
            return is_new

        return bool(self._writer.submit(job, note=note).wait())

    def remove(self, name: str, note: Note | None = None) -> bool:
        """Remove a secret; needs no key. False when there is none."""

        def job(link: Link) -> bool:
            found = bool(link.execute(self._remove, {"called": name}))
            if found:
                self._catalog.bump(link)
            return found

        return bool(self._writer.submit(job, note=note).wait())

    def rotate(self, note: Note | None = None) -> int:
        """Seal every secret anew with the first key, so that the others can be dropped.

        :returns: how many there are.
        :raises SecretsLocked: one of them was sealed with none of the keys; nothing was changed.
        """
        now = self._clock.now_ms()

        def job(link: Link) -> int:
            rows = link.rows(self._all, {})
            for name, sealed, *_ in rows:
                link.execute(
                    self._update, {"called": name, "new": self._sealer.renew(name, bytes(sealed)), "at": now}
                )
            self._catalog.bump(link)
            return len(rows)

        return int(self._writer.submit(job, note=note).wait())

    def list(self) -> list[SecretRow]:
        """All secrets by name, without their values.

        :raises StoreFailed: the database cannot be read (so for the readers below).
        """
        return [
            SecretRow(name, created, updated)
            for name, _, created, updated in self._backend.rows(self._list, {})
        ]

    def values(self) -> SecretValues:
        """All secrets as of now. One query, of all tables' change counter, while nothing has changed."""
        generation = self._catalog.generation()
        if generation != self._generation:
            sealed: dict[str, bytes] = {row[0]: bytes(row[1]) for row in self._backend.rows(self._list, {})}
            if not self._values.holds(sealed):
                self._values = SecretValues(self._sealer, sealed, self._use)
            self._generation = generation
        return self._values

    def derived(self, purpose: str) -> tuple[bytes, ...]:
        """Keys of 32 bytes that belong to this installation, for signing and the like; the newest first.

        Hosts share them when they share ``STUDIO_SECRETS_KEY``. Without it a key file is made where nothing is stored.

        :raises SecretsLocked: secrets are stored and their key is not here.
        """
        return self._sealer.derived(purpose, make_key=not self._backend.rows(self._list, {}))

    def opened(self) -> tuple[str, ...]:
        """The values this process has used, replaced and removed ones too; touches no database. While there is no other
        one, the very same tuple.
        """
        if self._opened is None:
            self._opened = tuple(self._used)
        return self._opened

    def known(self) -> tuple[str, ...]:
        """Every value that is stored, or was used by this process: what no run may say; see :meth:`opened`. While
        nothing has changed, there is no query beside those that requests make anyway.

        :raises StoreFailed: the database cannot be read.
        """
        if self._catalog.seen is None or self._catalog.seen != self._looked:
            self._open_all()
            self._looked = self._generation
        return self.opened()

    def _open_all(self) -> None:
        """Open what can be opened."""
        values = self.values()
        locked = 0
        for name in values:
            try:
                values[name]
            except SecretsLocked:
                locked += 1
        if locked and not self._told_locked:
            log.warning(
                "%d stored secret(s) cannot be opened here, so what runs say is not searched for them", locked
            )
        self._told_locked = bool(locked)

    def box(self, *, to_open: bool = False) -> Box:
        """Seals what is stored for a while, with the keys of the secrets.

        :param to_open: it is to open what was sealed, so that no key is made.
        :raises SecretsLocked: there is no key, or secrets are stored whose key is not here.
        """
        return self._sealer.box(make_key=not to_open and not self._backend.rows(self._list, {}))

    def _use(self, value: str) -> None:
        if value not in self._used:
            self._opened = None
        self._used.pop(value, None)
        self._used[value] = None
        if len(self._used) > MOST_USED:
            del self._used[next(iter(self._used))]
