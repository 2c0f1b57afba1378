"""What runs have used of what is budgeted, by whose budget it is and by day or month.

Law of this room: an addition is one statement that gives the total back, so that runs of many processes share one
budget and each knows what all have used together. What calls hold meanwhile are rows beside it; whoever sets something
aside has the row of the total for himself, so that no two see the same rest. What a process held that is gone is let go
of where others wait for it.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable

from sqlalchemy import bindparam, delete, insert, select
from sqlalchemy import text as sql

from app.clock import Clock
from app.store.db import Backend, Link
from app.store.deployment_tables import spending
from app.store.owners import Heartbeat, Lost
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


#: A process that hangs gives nothing back: what is held for longer than this is held no more.
_HELD_MS = 15 * 60_000
#: Between the process that holds something and the call it is held for.
_BY = " "

# Also locks the row of the total where several may write at the same time.
_LOCK = """
    INSERT INTO spending (subject, period, tokens, cost, updated_at) VALUES (:subject, :period, 0, 0, :now)
    ON CONFLICT (subject, period) DO UPDATE SET updated_at = :now
    RETURNING tokens, cost
"""
_OTHERS = """
    SELECT count(*), sum(CASE WHEN updated_at > :lapsed THEN 1 ELSE 0 END),
        sum(CASE WHEN updated_at > :lapsed THEN tokens ELSE 0 END),
        sum(CASE WHEN updated_at > :lapsed THEN cost ELSE 0 END)
    FROM spending WHERE subject = :held
"""


class Spent(t.NamedTuple):
    """What was used. ``cost``: US dollars."""

    tokens: int = 0
    cost: float = 0.0


class Holding(t.NamedTuple):
    """How a total stood when something was to be set aside: what was used, what others held, whether it was."""

    spent: Spent
    others: Spent
    is_held: bool


class Spending:
    """The totals of this installation. All methods raise :class:`StoreFailed` when the database fails.

    :param lost: which owners are gone. :param owner_id: this process.
    """

    def __init__(
        self, backend: Backend, writer: Writer, heartbeat: Heartbeat, lost: Lost, clock: Clock, owner_id: str
    ) -> None:
        self._backend, self._writer, self._clock = backend, writer, clock
        self._heartbeat, self._lost, self._owner_id = heartbeat, lost, owner_id
        c = spending.c
        old = c.updated_at < bindparam("before")
        this = (c.subject == bindparam("this_subject"), c.period == bindparam("this_period"))
        some = select(c.subject).where(old).limit(_SWEPT).scalar_subquery()
        self._add = backend.prepare(sql(_ADD))
        self._read = backend.prepare(select(c.tokens, c.cost).where(*this))
        self._sweep = backend.prepare(delete(spending).where(c.subject.in_(some), old))
        self._lock, self._others = backend.prepare(sql(_LOCK)), backend.prepare(sql(_OTHERS))
        held = c.subject == bindparam("held")
        self._hold = backend.prepare(insert(spending))
        self._release = backend.prepare(delete(spending).where(held, c.period == bindparam("call")))
        self._lapse = backend.prepare(delete(spending).where(held, c.updated_at <= bindparam("lapsed")))
        self._calls = backend.prepare(select(c.period).where(held))
        self._swept = clock.now_ms()
        #: Of whom something could not be held since :meth:`give_up` looked last.
        self._waited_for: set[str] = set()

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

    def hold(
        self, subject: str, period: str, call: str, amount: Spent, may: Callable[[Spent, Spent, int], bool]
    ) -> Ticket:
        """Set something of a total aside; ``wait()`` of what it returns gives a :class:`Holding`.

        :param call: names it for :meth:`release`.
        :param may: whether it may be, by what was used, what others hold, and how many they are.
        """
        self._heartbeat.adopt(self._owner_id)  # so that others see whether it is still there
        now, held = self._clock.now_ms(), _held(subject)
        total = {"subject": subject, "period": period, "now": now}
        others = {"held": held, "lapsed": now - _HELD_MS}

        def job(link: Link) -> Holding:
            tokens, cost = link.rows(self._lock, total)[0]
            spent = Spent(int(tokens), float(cost))
            rows, number, tokens, cost = link.rows(self._others, others)[0]
            if rows and rows > number:
                link.execute(self._lapse, others)
            beside = Spent(int(tokens or 0), float(cost or 0))
            is_held = may(spent, beside, int(number or 0))
            if is_held:
                row = {"subject": held, "period": self._held_by(call), "updated_at": now, **amount._asdict()}
                link.execute(self._hold, row)
            else:
                self._waited_for.add(subject)
            return Holding(spent, beside, is_held)

        return self._writer.submit(job, _SIZE)

    def release(self, subject: str, call: str) -> None:
        """Give back what a call held. Never switches greenlets; nobody waits for it."""
        values = {"held": _held(subject), "call": self._held_by(call)}
        self._writer.post(
            lambda link: link.execute(self._release, values), "that a call holds nothing more", _SIZE
        )

    def give_up(self, older_than_s: float) -> int:
        """Let go of what processes hold that are gone, where somebody has waited for it since the last time.

        :param older_than_s: how long the heartbeat of a process elsewhere must have stood still.
        :returns: of how many calls.
        """
        subjects, self._waited_for = self._waited_for, set()
        over = []
        for held in map(_held, tuple(subjects)):  # the writer may have begun an addition to it
            calls = [str(row[0]) for row in self._backend.rows(self._calls, {"held": held})]
            owners = {call.partition(_BY)[0] for call in calls} - {self._owner_id}
            gone = {owner for owner in owners if self._lost.is_gone(owner, older_than_s)}
            over += [{"held": held, "call": call} for call in calls if call.partition(_BY)[0] in gone]
        if not over:
            return 0
        return int(
            self._writer.submit(lambda link: sum(link.execute(self._release, each) for each in over)).wait()
        )

    def _held_by(self, call: str) -> str:
        return f"{self._owner_id}{_BY}{call}"

    def read(self, subject: str, period: str) -> Spent:
        """A total as it is; nothing used is zero."""
        found = self._backend.rows(self._read, {"this_subject": subject, "this_period": period})
        return Spent(int(found[0][0]), float(found[0][1])) if found else Spent()


def _held(subject: str) -> str:
    """Under which calls' parts of a subject's budget stand."""
    return f"held {subject}"
