"""The workspace owner: the one account of the web pages, and the links that set its password.

Law of this room: a password is given and kept as a salted hash, a link's token as its digest. Every change of the
password raises ``password_version``, which every session carries, so that sessions made before are worth nothing.
"""

from __future__ import annotations

import hashlib
import secrets
import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy import bindparam, insert, select, update

from app.clock import Clock
from app.store.catalog import Catalog
from app.store.db import Backend, Link, from_json, json_text
from app.store.deployment_tables import owner_account
from app.store.writer import Note, Writer

#: How long a link to set the password works.
LINK_S = 24 * 3600
#: Most sessions that were signed out before their time and are remembered; of more, those that end first are forgotten.
_MOST_ENDED = 1000
_ID = 1


@dataclass(frozen=True, slots=True)
class OwnerRow:
    """The account as it is at one moment. Times are epoch ms.

    :ivar password: salted hash; None: none was set yet. It is for the sign-in and never part of an answer.
    :ivar setup_expires_at: until when the newest link works; None: it was used, or there was none.
    :ivar ended: ids of sessions that were signed out, with the time they would have ended at.
    """

    password: str | None = field(repr=False)
    password_version: int
    setup_expires_at: int | None
    ended: Mapping[str, int] = field(repr=False)


class Owner:
    """The account of this installation. Methods that write wait for the commit."""

    def __init__(self, backend: Backend, writer: Writer, catalog: Catalog, clock: Clock) -> None:
        self._backend, self._writer, self._catalog, self._clock = backend, writer, catalog, clock
        c = owner_account.c
        columns = (c.password, c.password_version, c.setup_expires_at, c.ended)
        linked = (c.setup_hash == bindparam("token")) & (c.setup_expires_at > bindparam("now"))
        new: dict[str, t.Any] = {
            "password": bindparam("new"),
            "password_version": c.password_version + 1,
            "ended": None,
        }
        new |= {"setup_hash": None, "setup_expires_at": None, "updated_at": bindparam("now")}
        link: dict[str, t.Any] = {"setup_hash": bindparam("token"), "setup_expires_at": bindparam("until")}
        self._get = backend.prepare(select(*columns))
        self._linked = backend.prepare(select(c.id).where(linked))
        self._insert = backend.prepare(insert(owner_account))
        self._link = backend.prepare(update(owner_account).values(**link, updated_at=bindparam("now")))
        self._set = backend.prepare(update(owner_account).values(**new))
        self._set_by_link = backend.prepare(update(owner_account).where(linked).values(**new))
        self._end = backend.prepare(update(owner_account).values(ended=bindparam("all")))
        self._generation = -1
        self._known: OwnerRow | None = None

    def get(self, generation: int | None = None) -> OwnerRow | None:
        """The account; None before the first link was made. No query of it while nothing has changed.

        :param generation: the catalog's, when it was read already.
        :raises StoreFailed: the database cannot be read.
        """
        if generation is None:
            generation = self._catalog.generation()
        if generation != self._generation:
            rows = self._backend.rows(self._get, {})
            if rows:
                password, version, until, ended = rows[0]
                known = {} if ended is None else from_json(ended)
                self._known = OwnerRow(password, int(version), until, known)
            else:
                self._known = None
            self._generation = generation
        return self._known

    def new_link(self, note: Note | None = None) -> tuple[str, int]:
        """The token of a link that sets the password once, within :data:`LINK_S`; those made before end.

        :param note: of the change (:class:`app.store.audit.Audit`; so for every writer below).
        :returns: the token, which cannot be had again, and when it ends (epoch ms).
        :raises StoreFailed: it was not stored (so for every writer below).
        """
        token = secrets.token_urlsafe(32)
        now = self._clock.now_ms()
        until = now + LINK_S * 1000
        values = {"token": _digest(token), "until": until, "now": now}

        def job(link: Link) -> bool:
            self._catalog.bump(link)  # first: it lets one writer in at a time, whatever the database
            self._be_there(link, now)
            return bool(link.execute(self._link, values))

        self._writer.submit(job, note=note).wait()
        return token, until

    def link_works(self, token: str) -> bool:
        """Whether this is the newest link's token, and its time is not over.

        :raises StoreFailed: the database cannot be read.
        """
        values = {"token": _digest(token), "now": self._clock.now_ms()}
        return bool(self._backend.rows(self._linked, values))

    def set_password(self, hashed: str, token: str | None = None, note: Note | None = None) -> int | None:
        """Set the password: links and sessions made before end.

        :param hashed: salted hash. :param token: set it only while this link works.
        :returns: the new ``password_version``; None: the link does not work any more, nothing was changed.
        """
        now = self._clock.now_ms()

        def job(link: Link) -> int | None:
            self._catalog.bump(link)
            if token is None:
                self._be_there(link, now)
                link.execute(self._set, {"new": hashed, "now": now})
            elif not link.execute(self._set_by_link, {"new": hashed, "now": now, "token": _digest(token)}):
                return None
            return int(link.rows(self._get, {})[0][1])

        return t.cast("int | None", self._writer.submit(job, note=note).wait())

    def end_session(self, session_id: str, until_ms: int, note: Note | None = None) -> None:
        """Sign a session out, for every process and every copy of its cookie.

        :param until_ms: when it would have ended by itself; it is remembered until then.
        """
        now = self._clock.now_ms()

        def job(link: Link) -> bool:
            self._catalog.bump(link)
            rows = link.rows(self._get, {})
            if not rows:
                return False
            ended: dict[str, int] = {} if rows[0][3] is None else from_json(rows[0][3])
            ended[session_id] = until_ms
            kept = sorted(((key, until) for key, until in ended.items() if until > now), key=lambda e: -e[1])
            return bool(link.execute(self._end, {"all": json_text(dict(kept[:_MOST_ENDED]))}))

        self._writer.submit(job, note=note).wait()

    def _be_there(self, link: Link, now: int) -> None:
        if not link.rows(self._get, {}):
            values = {"id": _ID, "password_version": 0, "created_at": now, "updated_at": now}
            link.insert(self._insert, [self._insert.bind(values)])


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
