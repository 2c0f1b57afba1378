"""Counts that all processes share: tries at something secret, and requests where the limits are counted here.

Law of this room: whatever is counted is counted in one statement, so of many at the same moment none is lost and no two
get the same place. What is over begins again in the statement of the next one, whether or not its row was swept before.

There are three kinds, each in rows of keys of its own:

* a count that begins again a while after its first hit (:meth:`Counters.hit`);
* runs in a window that slides (:meth:`Counters.slide`): one row with the counts of two windows;
* places (:meth:`Counters.take`): each is taken for a while and then free again, so that there are never more than so
  many in any time that long. A row for each place.
"""

from __future__ import annotations

import hashlib
import math
import typing as t

from sqlalchemy import bindparam, delete, select
from sqlalchemy import text as sql

from app.clock import Clock
from app.store.db import Backend, Link, Row
from app.store.db import text as clean
from app.store.deployment_tables import counters
from app.store.writer import Writer

_LONGEST = 200  # characters of a key that are stored as they are
_SIZE = 256  # bytes of a hit, for the writer
_SWEEP_MS = 60_000  # between two looks of one process for rows that are over
_SWEPT = 500  # rows in one transaction

# One statement for both databases. ``value`` counts from zero again when the time of what stands there is over.
_HIT = """
    INSERT INTO counters (key, value, expires_at) VALUES (:key, :first, :expires)
    ON CONFLICT (key) DO UPDATE SET
        value = CASE WHEN counters.expires_at <= :now THEN :first
            WHEN counters.value + :by < 0 THEN 0 ELSE counters.value + :by END,
        expires_at = CASE WHEN counters.expires_at <= :now THEN :expires ELSE counters.expires_at END
    RETURNING value, expires_at
"""


_SHIFT = 1 << 31  # the count of the window before, in ``value`` of a window that slides

#: ``expires_at`` is the end of the window that follows. When a window is over, its count becomes that of the one
#: before, which counts for less and less, as ``Sliding.weight`` has it.
_SLIDE = f"""
    INSERT INTO counters (key, value, expires_at) VALUES (:key, 1, :twice)
    ON CONFLICT (key) DO UPDATE SET
        value = CASE WHEN counters.expires_at <= :now THEN 1
            WHEN counters.expires_at <= :ends THEN counters.value % {_SHIFT} * {_SHIFT} + 1
            ELSE counters.value + 1 END,
        expires_at = CASE WHEN counters.expires_at <= :now THEN :twice
            WHEN counters.expires_at <= :ends THEN counters.expires_at + :period ELSE counters.expires_at END
    WHERE CASE WHEN counters.expires_at <= :now THEN 0
        WHEN counters.expires_at <= :ends
            THEN counters.value % {_SHIFT} * (counters.expires_at - :now - 1) / :period
        ELSE counters.value / {_SHIFT} * (counters.expires_at - :ends - 1) / :period + counters.value % {_SHIFT}
        END < :most
    RETURNING value
"""

# The first place that is free. Another process may take it first: then nothing comes back.
_PLACES = """
    WITH RECURSIVE numbers (number) AS (
        SELECT 1 UNION ALL SELECT number + 1 FROM numbers WHERE number < :most
    ), places (name) AS (SELECT CAST(:key AS TEXT) || '#' || number FROM numbers)
"""
_TAKE = f"""
    INSERT INTO counters (key, value, expires_at)
    {_PLACES}
    SELECT places.name, 1, CAST(:expires AS BIGINT)
    FROM places LEFT JOIN counters AS taken ON taken.key = places.name
    WHERE taken.key IS NULL OR taken.expires_at <= :now
    LIMIT 1
    ON CONFLICT (key) DO UPDATE SET value = 1, expires_at = excluded.expires_at
        WHERE counters.expires_at <= :now
    RETURNING key
"""
_TAKEN = f"""
    {_PLACES}
    SELECT count(*), min(taken.expires_at)
    FROM places JOIN counters AS taken ON taken.key = places.name
    WHERE taken.expires_at > :now
"""


class Sliding(t.NamedTuple):
    """The counts of two windows that follow one another.

    :ivar previous: of the window before. :ivar current: of the one now. :ivar left_ms: until that ends.
    """

    previous: int
    current: int
    left_ms: int

    def weight(self, period_s: int) -> int:
        """How many count: of the window before as if they had been spread evenly over it. With its end the first of
        them is a window ago.
        """
        return self.previous * (self.left_ms - 1) // (period_s * 1000) + self.current


def slid(previous: int, current: int, left_ms: int, period_ms: int) -> Sliding:
    """Two counts as they are when the second's window ends in ``left_ms``, or has ended so long ago."""
    if left_ms <= -period_ms:
        return Sliding(0, 0, period_ms)
    return Sliding(current, 0, left_ms + period_ms) if left_ms <= 0 else Sliding(previous, current, left_ms)


class Count(t.NamedTuple):
    """A count as it stood at one moment.

    :ivar value: with the hit that asked. :ivar reset_ms: milliseconds until it begins again at zero; 0: it stands at
        zero.
    """

    value: int
    reset_ms: int

    @property
    def retry_after(self) -> int:
        """``reset_ms`` as the header ``Retry-After`` says it: whole seconds, at least one."""
        return max(1, math.ceil(self.reset_ms / 1000))


class Counters:
    """The counts of this installation. All methods raise :class:`StoreFailed` when the database fails."""

    def __init__(self, backend: Backend, writer: Writer, clock: Clock) -> None:
        self._backend, self._writer, self._clock = backend, writer, clock
        c = counters.c
        this = c.key == bindparam("this")
        over = c.expires_at <= bindparam("now")
        some = select(c.key).where(over).limit(_SWEPT).scalar_subquery()
        self._hit = backend.prepare(sql(_HIT))
        self._read = backend.prepare(select(c.value, c.expires_at).where(this))
        self._slide, self._take, self._taken = (backend.prepare(sql(it)) for it in (_SLIDE, _TAKE, _TAKEN))
        self._clear = backend.prepare(delete(counters).where(this))
        # Asked again outside of the list: a row may have been hit, and so have begun again, in between.
        self._sweep = backend.prepare(delete(counters).where(c.key.in_(some), over))
        self._swept = clock.now_ms()

    def hit(self, key: str, period_s: float, by: int = 1) -> Count:
        """Count something; committed when this returns.

        :param key: what is counted, ``<kind>:<id>…``. It holds nothing secret, and may be of any length.
        :param period_s: how long the count stands from its first hit on; later hits do not prolong it.
        :param by: negative: something is given back. No count is below zero: what is given back when the time of its
            count is over adds nothing to the next one.
        :returns: the count with this hit. A limit of ten is passed by the hit that makes it eleven.
        """
        now = self._clock.now_ms()
        expires = now + max(1, round(period_s * 1000))
        values = {"key": _stored(key), "by": by, "first": max(0, by), "now": now, "expires": expires}
        found = self._writer.submit(lambda link: link.rows(self._hit, values), _SIZE).wait()
        self._sweep_when_due(now)
        return _count(found, now)

    def slide(self, key: str, most: int, period_s: int) -> bool:
        """Count something in a window that slides, unless that makes more than ``most``.

        :param key: of no other kind of count. :returns: whether it was counted.
        """
        now, period = self._clock.now_ms(), period_s * 1000
        values = {"key": _stored(key), "most": most, "now": now, "period": period}
        values |= {"ends": now + period, "twice": now + 2 * period}
        found = self._writer.submit(lambda link: link.rows(self._slide, values), _SIZE).wait()
        self._sweep_when_due(now)
        return bool(found)

    def window(self, key: str, period_s: int) -> Sliding:
        """The counts of :meth:`slide` as they are."""
        found = self._backend.rows(self._read, {"this": _stored(key)})
        value, expires = found[0] if found else (0, 0)
        period = period_s * 1000
        return slid(*divmod(int(value), _SHIFT), int(expires) - period - self._clock.now_ms(), period)

    def take(self, key: str, most: int, period_s: float) -> str | None:
        """Take one of ``most`` places for ``period_s`` seconds: in no time so long are more taken.

        :param key: of no other kind of count.
        :returns: the place, for :meth:`clear` if it is given back; None: all are taken.
        """
        now = self._clock.now_ms()
        period = max(1, round(period_s * 1000))
        values = {"key": _of_places(key), "most": most, "now": now, "expires": now + period}

        def job(link: Link) -> str | None:
            # Whoever else took the place that was free took one: after so many others, there is none.
            for _ in range(most):
                found = link.rows(self._take, values)
                if found:
                    return str(found[0][0])
                if link.rows(self._taken, values)[0][0] >= most:
                    return None
            return None

        place: str | None = self._writer.submit(job, _SIZE).wait()
        self._sweep_when_due(now)
        return place

    def taken(self, key: str, most: int) -> Count:
        """How many places are taken, and when the first of them is free again."""
        now = self._clock.now_ms()
        values = {"key": _of_places(key), "most": most, "now": now}
        number, first = self._backend.rows(self._taken, values)[0]
        return Count(int(number), int(first) - now if number else 0)

    def read(self, key: str) -> Count:
        """A count as it is; of what was never counted, or not for a while, zero."""
        return _count(self._backend.rows(self._read, {"this": _stored(key)}), self._clock.now_ms())

    def clear(self, key: str) -> None:
        """Let a count begin again at zero: who was suspected has proved himself."""
        values = {"this": _stored(key)}
        self._writer.submit(lambda link: link.execute(self._clear, values), _SIZE).wait()

    def _sweep_when_due(self, now: int) -> None:
        if now - self._swept < _SWEEP_MS:
            return
        self._swept = now

        def job(link: Link) -> None:
            if link.execute(self._sweep, {"now": now}) == _SWEPT:
                self._swept = 0  # there are more: the next hit goes on

        self._writer.post(job, "that old counts are gone", _SIZE)


def _stored(key: str, longest: int = _LONGEST) -> str:
    cleaned = t.cast(str, clean(key))
    if len(cleaned) <= longest:
        return cleaned
    digest = hashlib.sha256(cleaned.encode()).hexdigest()
    return f"{cleaned[: longest - len(digest)]}{digest}"


def _of_places(key: str) -> str:
    """What the keys of places begin with; there is room for their numbers."""
    return _stored(key, _LONGEST - 12)


def _count(found: t.Sequence[Row], now: int) -> Count:
    value, expires = found[0] if found else (0, 0)
    return Count(int(value), int(expires) - now) if expires > now else Count(0, 0)
