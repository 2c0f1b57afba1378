"""Files that were uploaded, for the inputs of runs.

Law of this room: a file never changes. Whoever asks says whose it must be, and one whose time is over is as good as
none. Who keeps a file under a quota is alone with that quota until it is committed, so that no two pass it together.
The bytes are read beside the hub; nothing but :meth:`Files.read` touches them.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from sqlalchemy import BindParameter, bindparam, delete, func, insert, or_, select

from app.clock import Clock
from app.store.aside import Aside
from app.store.db import Backend, Link, Row, text
from app.store.deployment_tables import files
from app.store.errors import StoreConflict
from app.store.pages import Pages
from app.store.writer import Note, Writer

#: Most files that one sweep removes.
_SWEPT = 100
_NAMES = ("id", "name", "media_type", "size", "key_id", "created_at", "expires_at")


@dataclass(frozen=True, slots=True)
class FileRow:
    """A file without its bytes.

    :ivar size: in bytes. :ivar key_id: whose it is. :ivar expires_at: epoch ms from which on it is gone; None: never.
    """

    id: str
    name: str
    media_type: str
    size: int
    key_id: str | None
    created_at: int
    expires_at: int | None

    def gone(self, now_ms: int) -> bool:
        """Whether its time is over."""
        return self.expires_at is not None and self.expires_at <= now_ms


class FilesFull(StoreConflict):
    """Who uploads keeps as much as it may already."""


class Files:
    """The files of this installation. Methods that write wait for the commit."""

    def __init__(self, backend: Backend, writer: Writer, aside: Aside, clock: Clock) -> None:
        self._backend, self._writer, self._aside, self._clock = backend, writer, aside, clock
        c = files.c
        this = c.id == bindparam("file")
        lives = or_(c.expires_at.is_(None), c.expires_at > bindparam("now"))
        self._insert = backend.prepare(insert(files))
        self._get = backend.prepare(select(*[c[name] for name in _NAMES]).where(this))
        self._data = backend.prepare(select(c.data).where(this))
        self._kept = backend.prepare(
            select(func.coalesce(func.sum(c.size), 0)).where(c.key_id == bindparam("start"), lives)
        )
        # SQLite lets one in at a time by itself.
        self._alone = (
            backend.prepare(select(func.pg_advisory_xact_lock(bindparam("quota"))))
            if backend.name == "postgresql"
            else None
        )
        start: BindParameter[str] = bindparam("start")
        begins = func.substr(c.key_id, 1, func.length(start)) == start
        self._kept_by = backend.prepare(select(func.coalesce(func.sum(c.size), 0)).where(begins, lives))
        self._remove = backend.prepare(delete(files).where(this))
        old = select(c.id).where(c.expires_at <= bindparam("now")).limit(_SWEPT)
        self._sweep = backend.prepare(delete(files).where(c.id.in_(old)))
        self._pages = Pages(backend, files, _NAMES, (("key_id",), ()))

    def put(
        self,
        key_id: str,
        name: str,
        media_type: str,
        data: bytes,
        expires_at: int | None,
        most: int,
        note: Note | None = None,
        together: str | None = None,
    ) -> FileRow:
        """Keep a file.

        :param note: of the change, given what is returned (:class:`app.store.audit.Audit`; so for every writer below).
        :param key_id: whose it is. :param most: bytes that one may keep together.
        :param together: how the ``key_id`` of all begins who may keep ``most`` together; None: nobody shares it.
        :raises FilesFull: it would be more. :raises StoreFailed: it was not stored (so for every writer below).
        """
        now = self._clock.now_ms()
        id_ = self._clock.new_id("file")
        row = FileRow(id_, str(text(name)), str(text(media_type)), len(data), key_id, now, expires_at)

        def job(link: Link) -> FileRow:
            owner = key_id if together is None else together
            if self._alone is not None:
                link.rows(self._alone, {"quota": _lock_of(owner)})
            asked = self._kept if together is None else self._kept_by
            kept = int(link.rows(asked, {"start": owner, "now": now})[0][0])
            if kept + row.size > most:
                raise FilesFull(
                    f"You keep {kept} bytes in files already, and may keep {most}. Delete some first."
                )
            values = [getattr(row, name) for name in _NAMES]
            link.insert(self._insert, [(*values, data)])
            return row

        self._writer.submit(job, note=note).wait()
        return row

    def get(self, file_id: str) -> FileRow | None:
        """A file that is there, whoever's it is.

        :raises StoreFailed: the database cannot be read (so for every reader below).
        """
        rows = self._backend.rows(self._get, {"file": text(file_id)})
        row = _row(rows[0]) if rows else None
        return None if row is None or row.gone(self._clock.now_ms()) else row

    def read(self, file_id: str) -> bytes | None:
        """The bytes of a file. May stand inside a guarded wait."""
        rows = self._aside.rows(self._data, {"file": text(file_id)})
        return bytes(rows[0][0]) if rows else None

    def kept(self, start: str) -> int:
        """Bytes of the files there are of all whose ``key_id`` begins with ``start``."""
        values = {"start": start, "now": self._clock.now_ms()}
        return int(self._backend.rows(self._kept_by, values)[0][0])

    def page(self, key_id: str | None, before: str | None, limit: int) -> tuple[list[FileRow], str | None]:
        """The next files older than ``before``, newest first; see :meth:`app.store.pages.Pages.page`.

        :param key_id: whose; None: everybody's.
        """
        found, further = self._pages.page({} if key_id is None else {"key_id": key_id}, before, limit)
        now = self._clock.now_ms()
        return [row for row in map(_row, found) if not row.gone(now)], further

    def remove(self, file_id: str, note: Note | None = None) -> bool:
        """Delete a file; False when there is none."""
        values = {"file": text(file_id)}
        job = self._writer.submit(lambda link: bool(link.execute(self._remove, values)), note=note)
        return bool(job.wait())

    def sweep(self) -> int:
        """Delete files whose time is over, a bounded number of them.

        :returns: how many were deleted.
        """
        now = self._clock.now_ms()
        return int(self._writer.submit(lambda link: link.execute(self._sweep, {"now": now})).wait())


def _lock_of(owner: str) -> int:
    """The number of a quota's advisory lock. Of two quotas with one number, one waits for the other for nothing."""
    digest = hashlib.sha256(b"studio files " + owner.encode("utf-8", "replace")).digest()
    return int.from_bytes(digest[:8], signed=True)


def _row(row: Row) -> FileRow:
    return FileRow(*row)
