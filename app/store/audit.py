"""The audit log: who changed what.

Law of this room: a row is written once and never changed; it says what was changed and holds nothing of what is secret.
The row of a change is written in the transaction of the change (:meth:`Audit.note`): there is never one without the
other. What changes nothing here, such as a sign-in, is told by itself (:meth:`Audit.record`); such a row that cannot be
written is logged with everything it would have held.
"""

from __future__ import annotations

import logging
import typing as t
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields

from sqlalchemy import bindparam, delete, insert, select

from app.clock import Clock
from app.store.db import Backend, Link, Row, from_json, json_text, text
from app.store.deployment_tables import audit_log
from app.store.errors import StoreFailed
from app.store.pages import Pages
from app.store.writer import Note, Writer

_log = logging.getLogger("studio.audit")
#: Bytes of a row, for the writer; details are names and numbers.
_ROW_BYTES = 2048
#: Most rows that one sweep removes.
_SWEPT = 1000


@dataclass(frozen=True, slots=True)
class AuditRow:
    """A change.

    :ivar at: epoch ms. :ivar actor: a key's id, ``owner``, ``cli``, ``anonymous``.
    :ivar action: such as ``workflow.deploy``. :ivar subject: ``<kind>:<id>``.
    :ivar address: where the request came from. :ivar request_id: that of the request.
    """

    id: str
    at: int
    actor: str
    action: str
    subject: str
    details: dict[str, t.Any] | None = None
    address: str | None = None
    request_id: str | None = None


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which rows; None means any."""

    subject: str | None = None
    actor: str | None = None
    action: str | None = None

    def set_values(self) -> dict[str, str]:
        """The columns that are asked for, with their values."""
        return {f.name: value for f in fields(self) if (value := getattr(self, f.name)) is not None}


@dataclass(frozen=True, slots=True)
class Entry:
    """What a row says of a change.

    :ivar details: names and numbers, never a secret.
    """

    action: str
    subject: str
    details: Mapping[str, t.Any] | None = None


#: What to say of a change, by what its writer returns; None: nothing was changed. Runs in the writer's thread.
Tell = Callable[[t.Any], Entry | None]


def told(action: str, subject: str, details: Mapping[str, t.Any] | None = None) -> Tell:
    """Say this, unless the writer returns None or False: then nothing was changed."""
    entry = Entry(action, subject, details)
    return lambda outcome: None if outcome is None or outcome is False else entry


class Audit:
    """The log of this installation."""

    def __init__(self, backend: Backend, writer: Writer, clock: Clock) -> None:
        self._backend, self._writer, self._clock = backend, writer, clock
        names = tuple(column.name for column in audit_log.columns)
        self._pages = Pages(backend, audit_log, names, (("subject",), ()))
        self._insert = backend.prepare(insert(audit_log))
        c = audit_log.c
        old = select(c.id).where(c.id < bindparam("before")).order_by(c.id).limit(_SWEPT)
        self._sweep = backend.prepare(delete(audit_log).where(c.id.in_(old)))

    def note(self, actor: str, tell: Tell, address: str | None = None, request_id: str | None = None) -> Note:
        """The row of a change, for the method of the store that makes the change: both are kept, or neither.

        :param tell: see :data:`Tell`.
        """
        stamp = self._stamp()

        def note(link: Link, outcome: t.Any) -> None:
            entry = tell(outcome)
            if entry is not None:
                link.insert(self._insert, [_values(*stamp, actor, entry, address, request_id)])

        return note

    def _stamp(self) -> tuple[str, int]:
        return self._clock.new_id("aud"), self._clock.now_ms()

    def record(
        self,
        actor: str,
        action: str,
        subject: str,
        details: Mapping[str, t.Any] | None = None,
        address: str | None = None,
        request_id: str | None = None,
    ) -> None:
        """Write a row of what changes nothing here, and wait until it is there.

        :param details: names and numbers, never a secret.
        """
        row = _values(*self._stamp(), actor, Entry(action, subject, details), address, request_id)
        try:
            self._writer.submit(lambda link: link.insert(self._insert, [row]), _ROW_BYTES).wait()
        except StoreFailed as failure:
            _log.error("the audit log could not be written (%s); its row: %s", failure.message, row)

    def page(self, wanted: AuditFilter, before: str | None, limit: int) -> tuple[list[AuditRow], str | None]:
        """The next rows older than ``before``, newest first; see :meth:`app.store.pages.Pages.page`.

        :raises StoreFailed: the database cannot be read.
        """
        found, further = self._pages.page(wanted.set_values(), before, limit)
        return [_row(row) for row in found], further

    def forget_before(self, first: str) -> int:
        """Remove rows whose id is lower than ``first``, a bounded number of them.

        :returns: how many were removed.
        :raises StoreFailed: they were not.
        """

        def job(link: Link) -> int:
            return link.execute(self._sweep, {"before": first})

        return int(self._writer.submit(job).wait())


def _values(
    id_: str, at: int, actor: str, entry: Entry, address: str | None, request_id: str | None
) -> tuple[t.Any, ...]:
    return (
        *(id_, at, text(actor), text(entry.action), text(entry.subject)),
        *(json_text(entry.details or None), text(address), text(request_id)),
    )


def _row(row: Row) -> AuditRow:
    id_, at, actor, action, subject, details, address, request_id = row
    return AuditRow(id_, at, actor, action, subject, from_json(details), address, request_id)
