"""Counts that all processes share: tries at something secret, and requests where the limits are counted here.

Law of this room: a hit is one statement, so of hits at the same moment none is lost and no two get the same count. A
count whose time is over begins again in the statement of the next hit, whether or not its row was swept before.
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


def _stored(key: str) -> str:
    cleaned = t.cast(str, clean(key))
    if len(cleaned) <= _LONGEST:
        return cleaned
    digest = hashlib.sha256(cleaned.encode()).hexdigest()
    return f"{cleaned[: _LONGEST - len(digest)]}{digest}"


def _count(found: t.Sequence[Row], now: int) -> Count:
    value, expires = found[0] if found else (0, 0)
    return Count(int(value), int(expires) - now) if expires > now else Count(0, 0)
