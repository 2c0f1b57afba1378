"""Codes that were sent by e-mail.

Law of this room: neither addresses nor codes are here, but keyed hashes of them; a copy of the table opens no chat. Of
an address that may not get in there is a row too. A try is counted in the transaction that judges it, and a code that
was right is gone: of many tries at once no more are judged than may be, and one at most is right.
"""

from __future__ import annotations

import hmac
import typing as t

from sqlalchemy import bindparam, delete, select, text, update

from app.clock import Clock
from app.store.db import Backend, Link
from app.store.deployment_tables import chat_codes
from app.store.writer import Writer

_SIZE = 256  # bytes of a row, for the writer

# A code that was sent just now stands: no row comes back then.
_ISSUE = """
    INSERT INTO chat_codes (chat_id, email_hash, code_hash, attempts, sent_at, expires_at)
    VALUES (:chat, :email, :code, 0, :now, :expires)
    ON CONFLICT (chat_id, email_hash) DO UPDATE SET
        code_hash = excluded.code_hash, attempts = 0, sent_at = excluded.sent_at, expires_at = excluded.expires_at
        WHERE chat_codes.sent_at <= :before
    RETURNING sent_at
"""


class ChatCodes:
    """The codes of this installation. All methods raise :class:`StoreFailed` when the database fails."""

    def __init__(self, backend: Backend, writer: Writer, clock: Clock) -> None:
        self._writer, self._clock = writer, clock
        c = chat_codes.c
        this = (c.chat_id == bindparam("chat"), c.email_hash == bindparam("email"))
        self._issue = backend.prepare(text(_ISSUE))
        self._sent = backend.prepare(select(c.sent_at).where(*this))
        self._try = backend.prepare(
            update(chat_codes)
            .where(*this, c.attempts < bindparam("most"), c.expires_at > bindparam("now"))
            .values(attempts=c.attempts + 1)
            .returning(c.code_hash)
        )
        self._remove = backend.prepare(delete(chat_codes).where(*this))
        self._sweep = backend.prepare(
            delete(chat_codes).where(c.chat_id == bindparam("chat"), c.expires_at <= bindparam("now"))
        )

    def issue(self, chat_id: str, email: bytes, code: bytes, live_ms: int, pause_ms: int) -> int:
        """Keep a code in place of the one before it.

        :param email: the address's hash. :param code: the code's, or anything that is none.
        :param pause_ms: how long after one the next may follow.
        :returns: 0; or the milliseconds until it may, and nothing was changed.
        """
        now = self._clock.now_ms()
        values = {
            "chat": chat_id,
            "email": email,
            "code": code,
            "now": now,
            "expires": now + live_ms,
            "before": now - pause_ms,
        }

        def job(link: Link) -> int:
            link.execute(self._sweep, values)
            if link.rows(self._issue, values):
                return 0
            sent = link.rows(self._sent, values)
            return max(1, int(sent[0][0]) + pause_ms - now) if sent else pause_ms

        return t.cast(int, self._writer.submit(job, _SIZE).wait())

    def redeem(self, chat_id: str, email: bytes, code: bytes, most: int) -> bool:
        """Whether this is the code that was sent there last. A right one is right once.

        :param most: tries that a code has.
        """
        values = {"chat": chat_id, "email": email, "most": most, "now": self._clock.now_ms()}

        def job(link: Link) -> bool:
            found = link.rows(self._try, values)
            right = bool(found) and hmac.compare_digest(bytes(found[0][0]), code)
            return right and bool(link.execute(self._remove, values))

        return bool(self._writer.submit(job, _SIZE).wait())
