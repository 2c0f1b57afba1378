"""What runs have used of what is budgeted, by whose budget it is and by day or month.

Law of this room: an addition is one statement that gives the total back, so that runs of many processes share one
budget and each knows what all have used together.
"""

from __future__ import annotations

import typing as t

from sqlalchemy import bindparam, delete, select
from sqlalchemy import text as sql

from app.clock import Clock
from app.store.db import Backend, Link
from app.store.deployment_tables import spending
from app.store.writer import Ticket, Writer

_SIZE = 256  # bytes of an addition, for the writer
_DAY_MS = 86_400_000
_KEPT_MS = 400 * _DAY_MS  # a year can be looked back upon
_SWEPT = 500  # rows in one transaction

_ADD = """
    INSERT INTO spending (subject, period, tokens, cost, updated_at)
    VALUES (:subject, :period, :tokens, :cost, :now)
    ON CONFLICT (subject, period) DO UPDATE SET
        tokens = spending.tokens + :tokens, cost = spending.cost + :cost, updated_at = :now
    RETURNING tokens, cost
"""


class Spent(t.NamedTuple):
    """What was used. ``cost``: US dollars."""

    tokens: int = 0
    cost: float = 0.0


class Spending:
    """The totals of this installation. All methods raise :class:`StoreFailed` when the database fails."""

    def __init__(self, backend: Backend, writer: Writer, clock: Clock) -> None:
        self._backend, self._writer, self._clock = backend, writer, clock
        c = spending.c
        old = c.updated_at < bindparam("before")
        this = (c.subject == bindparam("this_subject"), c.period == bindparam("this_period"))
        some = select(c.subject).where(old).limit(_SWEPT).scalar_subquery()
        self._add = backend.prepare(sql(_ADD))
        self._read = backend.prepare(select(c.tokens, c.cost).where(*this))
        self._sweep = backend.prepare(delete(spending).where(c.subject.in_(some), old))
        self._swept = clock.now_ms()

    def add(self, subject: str, period: str, tokens: int, cost: float) -> Ticket:
        """Add to a total. Never switches greenlets; ``wait()`` of what it returns gives the total, a :class:`Spent`.

        :param subject: whose, ``<kind>:<id>``. :param period: which, such as ``2026-11-30`` or ``2026-11``.
        """
        now = self._clock.now_ms()
        values = {"subject": subject, "period": period, "tokens": tokens, "cost": cost, "now": now}

        def job(link: Link) -> Spent:
            total, money = link.rows(self._add, values)[0]
            return Spent(int(total), float(money))

        ticket = self._writer.submit(job, _SIZE)
        if now - self._swept >= _DAY_MS:
            self._swept = now
            before = {"before": now - _KEPT_MS}
            self._writer.post(
                lambda link: link.execute(self._sweep, before), "that old totals are gone", _SIZE
            )
        return ticket

    def read(self, subject: str, period: str) -> Spent:
        """A total as it is; nothing used is zero."""
        found = self._backend.rows(self._read, {"this_subject": subject, "this_period": period})
        return Spent(int(found[0][0]), float(found[0][1])) if found else Spent()
