"""API keys: shown once, stored as a hash.

Law of this room: the text of a key exists in the answer of :meth:`Keys.create` and nowhere else. A key
is 256 random bits, so one fast hash is enough and finding a key is one indexed look-up.
"""

from __future__ import annotations

import hashlib
import secrets
import typing as t
from collections.abc import Iterable
from dataclasses import dataclass, replace

from sqlalchemy import BindParameter, bindparam, func, insert, or_, select, update

from app.clock import Clock
from app.store.catalog import Catalog
from app.store.db import Backend, Link, Row, from_json, text
from app.store.errors import StoreConflict
from app.store.tables import api_keys
from app.store.writer import Writer

KEY_START = "sk-studio-"
SCOPES = ("run", "read", "admin")
_SHOWN = 8  # characters of the random part that lists show


@dataclass(frozen=True, slots=True)
class KeyRow:
    """A key without its text.

    :ivar prefix: the first characters of the key, enough for people to tell keys apart.
    :ivar scopes: ``admin`` comes with the two it includes.
    :ivar revoked_at: epoch ms; None while the key is valid. :ivar expires_at: epoch ms from which on it is not.
    :ivar last_used_at: epoch ms, up to a minute late; None: never, as far as is known.
    :ivar created_by: who made it, for the record: a key's id, ``owner``, ``cli``.
    :ivar rate_limit: such as ``{"perMinute": 60}``. :ivar budget: such as ``{"tokens": 100000, "period": "day"}``.
    """

    id: str
    name: str
    prefix: str
    scopes: frozenset[str]
    created_at: int
    revoked_at: int | None
    last_used_at: int | None = None
    expires_at: int | None = None
    created_by: str | None = None
    rate_limit: dict[str, t.Any] | None = None
    budget: dict[str, t.Any] | None = None


class Keys:
    """The keys of this installation. Methods that write wait for the commit."""

    def __init__(self, backend: Backend, writer: Writer, catalog: Catalog, clock: Clock) -> None:
        self._backend, self._writer, self._catalog, self._clock = backend, writer, catalog, clock
        c = api_keys.c
        columns = (
            *(c.id, c.name, c.prefix, c.scopes, c.created_at, c.revoked_at, c.last_used_at, c.expires_at),
            *(c.created_by, c.rate_limit, c.budget),
        )
        given: BindParameter[str] = bindparam("given")
        # Not LIKE: a key may hold its wildcards.
        starts = (func.length(given) > 0) & (func.substr(c.prefix, 1, func.length(given)) == given)
        self._insert = backend.prepare(insert(api_keys))
        self._find = backend.prepare(
            select(*columns).where(c.hash == bindparam("hash"), c.revoked_at.is_(None))
        )
        self._list = backend.prepare(select(*columns).order_by(c.created_at, c.id))
        self._match = backend.prepare(
            select(*columns).where(or_(c.id == given, starts, c.hash == bindparam("hash")))
        )
        self._revoke = backend.prepare(
            update(api_keys).where(c.id == bindparam("key")).values(revoked_at=bindparam("at"))
        )

    def create(self, name: str, scopes: Iterable[str] = ("run",)) -> tuple[KeyRow, str]:
        """Make a key.

        :param scopes: some of :data:`SCOPES`; ``admin`` includes the others.
        :returns: the row, and the key's text, which cannot be had again.
        :raises StoreConflict: an unknown scope, or none.
        :raises StoreFailed: it was not stored.
        """
        granted = _granted(scopes)
        plaintext = KEY_START + secrets.token_urlsafe(32)
        row = KeyRow(
            id=self._clock.new_id("key"),
            name=t.cast(str, text(name)),
            prefix=plaintext[: len(KEY_START) + _SHOWN],
            scopes=granted,
            created_at=self._clock.now_ms(),
            revoked_at=None,
        )
        values = (
            *(row.id, row.name, row.prefix, digest(plaintext), _spelled(granted), row.created_at, None),
            *(None, row.expires_at, row.created_by, None, None),
        )

        def job(link: Link) -> None:
            link.insert(self._insert, [values])
            self._catalog.bump(link)

        self._writer.submit(job).wait()
        return row, plaintext

    def find(self, plaintext: str) -> KeyRow | None:
        """The key with this text; None for an unknown or revoked one.

        :raises StoreFailed: the database cannot be read.
        """
        rows = self._backend.rows(self._find, {"hash": digest(plaintext)})
        return _row(rows[0]) if rows else None

    def list(self) -> list[KeyRow]:
        """All keys, revoked ones too, oldest first.

        :raises StoreFailed: the database cannot be read.
        """
        return [_row(row) for row in self._backend.rows(self._list, {})]

    def revoke(self, key: str) -> KeyRow | None:
        """End a key's validity.

        :param key: its id, its text, or its prefix or the start of it.
        :returns: the key as it is now; None when there is none. A second time changes nothing.
        :raises StoreConflict: several keys begin like that.
        :raises StoreFailed: it was not stored.
        """
        return t.cast("KeyRow | None", self._writer.submit(lambda link: self._end(link, key)).wait())

    def _end(self, link: Link, key: str) -> KeyRow | None:
        found = [_row(row) for row in link.rows(self._match, {"given": text(key) or "", "hash": digest(key)})]
        if len(found) > 1:
            names = ", ".join(f"{row.prefix} ({row.name})" for row in found)
            raise StoreConflict(f"Several keys begin with {key!r}: {names}. Give the id of one.")
        if not found or found[0].revoked_at is not None:
            return found[0] if found else None
        now = self._clock.now_ms()
        link.execute(self._revoke, {"key": found[0].id, "at": now})
        self._catalog.bump(link)
        row = found[0]
        return replace(row, revoked_at=now)


def digest(plaintext: str) -> bytes:
    """What is stored of a key."""
    return hashlib.sha256(plaintext.encode("utf-8", "surrogatepass")).digest()


def _granted(scopes: Iterable[str]) -> frozenset[str]:
    asked = frozenset(scopes)
    unknown = sorted(asked.difference(SCOPES))
    if unknown or not asked:
        what = f"Unknown scope {', '.join(map(repr, unknown))}" if unknown else "A key needs a scope"
        raise StoreConflict(f"{what}; there are {', '.join(SCOPES)}.")
    return frozenset(SCOPES) if "admin" in asked else asked


def _spelled(scopes: frozenset[str]) -> str:
    return " ".join(scope for scope in SCOPES if scope in scopes)


def _row(row: Row) -> KeyRow:
    id_, name, prefix, scopes, created_at, revoked_at, used, expires, by, rate_limit, budget = row
    return KeyRow(
        *(id_, name, prefix, frozenset(scopes.split()), created_at, revoked_at, used, expires, by),
        rate_limit=None if rate_limit is None else from_json(rate_limit),
        budget=None if budget is None else from_json(budget),
    )
