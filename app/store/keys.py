"""API keys: shown once, stored as a hash.

Law of this room: the text of a key exists in the answer of :meth:`Keys.create` and nowhere else. A key
is 256 random bits, so one fast hash is enough and finding a key is one indexed look-up. When a key was last used is
written beside the requests that use it, once a minute and process at most.
"""

from __future__ import annotations

import hashlib
import secrets
import typing as t
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from sqlalchemy import BindParameter, bindparam, func, insert, or_, select, update

from app.clock import Clock
from app.store.catalog import Catalog
from app.store.db import Backend, Link, Row, from_json, json_text, text
from app.store.errors import RevisionConflict, StoreConflict
from app.store.inline import MOST_BYTES
from app.store.pages import Pages
from app.store.tables import api_keys
from app.store.writer import Note, Writer

KEY_START = "sk-studio-"
SCOPES = ("run", "read", "admin")
_SHOWN = 8  # characters of the random part that lists show
#: How far behind ``last_used_at`` may be.
USED_MS = 60_000
#: Keys whose last use a process remembers; beyond, it may write one more often.
_MOST_USED = 10_000
_NAMES = (
    *("id", "name", "prefix", "scopes", "created_at", "revoked_at", "last_used_at", "expires_at"),
    *("created_by", "rate_limit", "budget", "revision"),
)


@dataclass(frozen=True, slots=True)
class KeyRow:
    """A key without its text.

    :ivar prefix: the first characters of the key, enough for people to tell keys apart.
    :ivar scopes: ``admin`` comes with the two it includes.
    :ivar revoked_at: epoch ms; None while the key is valid. :ivar expires_at: epoch ms from which on it is not.
    :ivar last_used_at: epoch ms, up to a minute late; None: never, as far as is known.
    :ivar created_by: who made it, for the record: a key's id, ``owner``, ``cli``.
    :ivar rate_limit: such as ``{"perMinute": 60}``. :ivar budget: such as ``{"tokens": 100000, "period": "day"}``.
    :ivar revision: counts what people change of it, from 1.
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
    revision: int = 1

    def expired(self, now_ms: int) -> bool:
        """Whether its time is over."""
        return self.expires_at is not None and self.expires_at <= now_ms


class Revoked(t.NamedTuple):
    """A key that is not valid any more. ``is_new``: it was until now."""

    row: KeyRow
    is_new: bool


class Keys:
    """The keys of this installation. Methods that write wait for the commit."""

    def __init__(self, backend: Backend, writer: Writer, catalog: Catalog, clock: Clock) -> None:
        self._backend, self._writer, self._catalog, self._clock = backend, writer, catalog, clock
        c = api_keys.c
        columns = [c[name] for name in _NAMES]
        this = c.id == bindparam("key")
        given: BindParameter[str] = bindparam("given")
        # Not LIKE: a key may hold its wildcards.
        starts = (func.length(given) > 0) & (func.substr(c.prefix, 1, func.length(given)) == given)
        self._insert = backend.prepare(insert(api_keys))
        self._find = backend.prepare(
            select(*columns).where(c.hash == bindparam("hash"), c.revoked_at.is_(None))
        )
        self._get = backend.prepare(select(*columns).where(this))
        self._lock = backend.prepare(select(*columns).where(this).with_for_update())
        self._list = backend.prepare(select(*columns).order_by(c.created_at, c.id))
        self._pages = Pages(backend, api_keys, _NAMES, ((),))
        self._match = backend.prepare(
            select(*columns).where(or_(c.id == given, starts, c.hash == bindparam("hash")))
        )
        self._revoke = backend.prepare(
            update(api_keys)
            .where(this, c.revoked_at.is_(None))
            .values(revoked_at=bindparam("at"), revision=c.revision + 1)
        )
        changed: dict[str, t.Any] = {
            name: bindparam(f"new_{name}") for name in ("name", "expires_at", "rate_limit", "budget")
        }
        self._update = backend.prepare(
            update(api_keys).where(this).values(**changed, revision=c.revision + 1)
        )
        earlier = or_(c.last_used_at.is_(None), c.last_used_at < bindparam("at"))
        self._touch = backend.prepare(
            update(api_keys).where(this, earlier).values(last_used_at=bindparam("at"))
        )
        self._used: dict[str, int] = {}

    def create(
        self,
        name: str,
        scopes: Iterable[str] = ("run",),
        created_by: str | None = None,
        expires_at: int | None = None,
        rate_limit: Mapping[str, t.Any] | None = None,
        budget: Mapping[str, t.Any] | None = None,
        note: Note | None = None,
    ) -> tuple[KeyRow, str]:
        """Make a key.

        :param scopes: some of :data:`SCOPES`; ``admin`` includes the others. :param created_by: who, for the record.
        :param note: of the change, given the row (:class:`app.store.audit.Audit`; so for every writer below).
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
            expires_at=expires_at,
            created_by=text(created_by),
            rate_limit=None if rate_limit is None else dict(rate_limit),
            budget=None if budget is None else dict(budget),
        )
        values = (
            *(row.id, row.name, row.prefix, digest(plaintext), _spelled(granted), row.created_at, None),
            *(None, row.expires_at, row.created_by, json_text(row.rate_limit), json_text(row.budget), 1),
        )

        def job(link: Link) -> KeyRow:
            link.insert(self._insert, [values])
            self._catalog.bump(link)
            return row

        self._writer.submit(job, note=note).wait()
        return row, plaintext

    def use(self, key_id: str, expires_at: int | None) -> bool:
        """Note that a key is used, without a wait; nothing is written on the way.

        :param expires_at: its own. :returns: False when its time is over.
        """
        now = self._clock.now_ms()
        if expires_at is not None and expires_at <= now:
            return False
        if now - self._used.get(key_id, -USED_MS) >= USED_MS:
            if len(self._used) >= _MOST_USED:
                self._used.clear()
            self._used[key_id] = now
            values = {"key": key_id, "at": now}
            # Said to be large, so that the writer's thread does it, with whatever else it has to write.
            self._writer.post(
                lambda link: link.execute(self._touch, values), f"the last use of {key_id}", MOST_BYTES + 1
            )
        return True

    def change(
        self, key_id: str, seen: int | None, changes: Mapping[str, t.Any], note: Note | None = None
    ) -> KeyRow | None:
        """Change a key's name, end or limits.

        :param seen: the revision it must have; None: any. :param changes: of :class:`KeyRow`, by name.
        :returns: the key as it is now; None when there is none.
        :raises RevisionConflict: it has another revision. :raises StoreFailed: it was not stored.
        """

        def job(link: Link) -> KeyRow | None:
            found = link.rows(self._lock, {"key": text(key_id)})
            if not found:
                return None
            before = _row(found[0])
            if seen not in (None, before.revision):
                raise RevisionConflict(before.revision)
            row = replace(before, **changes)
            if row == before:
                return before
            values = {
                "new_name": text(row.name),
                "new_expires_at": row.expires_at,
                "new_rate_limit": json_text(row.rate_limit),
                "new_budget": json_text(row.budget),
            }
            link.execute(self._update, {**values, "key": row.id})
            self._catalog.bump(link)
            changed = replace(row, revision=before.revision + 1)
            if note is not None:
                note(link, changed)
            return changed

        return t.cast("KeyRow | None", self._writer.submit(job).wait())

    def get(self, key_id: str) -> KeyRow | None:
        """A key by its id, revoked or not.

        :raises StoreFailed: the database cannot be read (so for every reader below).
        """
        rows = self._backend.rows(self._get, {"key": text(key_id)})
        return _row(rows[0]) if rows else None

    def page(self, before: str | None, limit: int) -> tuple[list[KeyRow], str | None]:
        """The next keys older than ``before``, newest first; see :meth:`app.store.pages.Pages.page`."""
        found, further = self._pages.page({}, before, limit)
        return [_row(row) for row in found], further

    def find(self, plaintext: str) -> KeyRow | None:
        """The key with this text; None for an unknown or revoked one."""
        rows = self._backend.rows(self._find, {"hash": digest(plaintext)})
        return _row(rows[0]) if rows else None

    def list(self) -> list[KeyRow]:
        """All keys, revoked ones too, oldest first."""
        return [_row(row) for row in self._backend.rows(self._list, {})]

    def revoke(self, key: str, note: Note | None = None) -> Revoked | None:
        """End a key's validity.

        :param key: its id, its text, or its prefix or the start of it.
        :returns: the key as it is now, and whether this call has ended it; None when there is none. A second time
            changes nothing, and of several calls at once one has ended it.
        :raises StoreConflict: several keys begin like that.
        :raises StoreFailed: it was not stored.
        """
        job = self._writer.submit(lambda link: self._end(link, key), note=note)
        return t.cast("Revoked | None", job.wait())

    def _end(self, link: Link, key: str) -> Revoked | None:
        found = [_row(row) for row in link.rows(self._match, {"given": text(key) or "", "hash": digest(key)})]
        if len(found) > 1:
            names = ", ".join(f"{row.prefix} ({row.name})" for row in found)
            raise StoreConflict(f"Several keys begin with {key!r}: {names}. Give the id of one.")
        if not found:
            return None
        # Whoever comes second waits for the first and changes no row.
        if not link.execute(self._revoke, {"key": found[0].id, "at": self._clock.now_ms()}):
            return Revoked(_row(link.rows(self._get, {"key": found[0].id})[0]), False)
        self._catalog.bump(link)
        return Revoked(_row(link.rows(self._get, {"key": found[0].id})[0]), True)


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
    values = dict(zip(_NAMES, row, strict=True))
    values["scopes"] = frozenset(values["scopes"].split())
    for name in ("rate_limit", "budget"):
        values[name] = from_json(values[name])
    return KeyRow(**values)
