"""Decisions: what people are asked, and who answers first.

Law of this room: an answer is one compare-and-set on the decision's row, so of many exactly one counts; the others are
told which. The answered row is the work that is left to do: whoever carries the run takes it up from here, and nothing
else has to arrive. Of a link's token only the hash is stored.
"""

from __future__ import annotations

import hashlib
import secrets
import typing as t
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields

from sqlalchemy import bindparam, func, literal_column, select, text, update

from app.clock import Clock
from app.store.checkpoints import DecisionRow
from app.store.db import Backend, Link, Statement, json_text
from app.store.db import text as clean
from app.store.decision_rows import COLUMNS, decision
from app.store.durable_tables import decisions, thread_approvals
from app.store.inline import MOST_BYTES
from app.store.pages import Pages
from app.store.writer import Note, Writer

_TOKEN_BYTES = 32
_EXPIRED = 500  # in one transaction
#: A page of decisions ends with the row that brings it to this many bytes; what is shown of one may be megabytes.
PAGE_BYTES = 4 * 1024 * 1024
_AT_ONCE = 10  # rows that are read, and may be left out again

#: What an index leads to directly (:class:`app.store.pages.Pages`). What is open is few.
_INDEXED = (("run_id",), ("open",), ("thread_id",), ("key_id",), ("workflow_id",), ())
_APPROVE = """
    INSERT INTO thread_approvals (thread_id, subject, created_at)
    SELECT id, :subject, :at FROM threads WHERE id = :thread
    ON CONFLICT (thread_id, subject) DO NOTHING
"""


@dataclass(frozen=True, slots=True)
class DecisionFilter:
    """Which decisions; None means any. :ivar key_id: the key that started the run."""

    state: str | None = None
    workflow_id: str | None = None
    run_id: str | None = None
    thread_id: str | None = None
    key_id: str | None = None


_FILTERS = tuple(each.name for each in fields(DecisionFilter))


class Decisions:
    """The decisions of this installation. All methods raise :class:`StoreFailed` when the database fails."""

    def __init__(self, backend: Backend, writer: Writer, clock: Clock) -> None:
        self._backend, self._writer, self._clock = backend, writer, clock
        open_ = decisions.c.state == literal_column("'open'")
        self._pages = Pages(backend, decisions, COLUMNS, _INDEXED, {"open": open_})
        self._prepare_reads(backend)
        self._prepare_writes(backend)

    def _prepare_reads(self, backend: Backend) -> None:
        c = decisions.c
        shown = select(*[c[name] for name in COLUMNS])
        open_ = c.state == literal_column("'open'")
        of_run = shown.where(c.run_id == bindparam("run")).order_by(c.created_at, c.id)
        self._get = backend.prepare(shown.where(c.id == bindparam("decision")))
        self._of_run = backend.prepare(of_run)
        self._open_of_run = backend.prepare(of_run.where(open_))
        self._of_token = backend.prepare(shown.where(c.token_hash == bindparam("hash")))
        self._open_count = backend.prepare(select(func.count()).select_from(decisions).where(open_))
        self._left = backend.prepare(
            select(c.id, c.run_id).where(c.answered_at.is_not(None), c.taken_at.is_(None))
        )
        self._due = backend.prepare(
            select(c.id).where(open_, c.expires_at <= bindparam("now")).order_by(c.expires_at).limit(_EXPIRED)
        )
        approved = thread_approvals.c
        self._approved = backend.prepare(
            select(approved.subject).where(approved.thread_id == bindparam("thread"))
        )

    def _prepare_writes(self, backend: Backend) -> None:
        c = decisions.c
        this = (c.id == bindparam("decision"), c.state == "open")
        in_time = c.expires_at.is_(None) | (c.expires_at > bindparam("now"))
        self._answer = backend.prepare(
            update(decisions)
            .where(*this, in_time)
            .values(
                state="answered",
                answer=bindparam("new_answer"),
                answered_by=bindparam("by"),
                answered_at=bindparam("at"),
            )
        )
        self._expire = backend.prepare(
            update(decisions)
            .where(*this, c.expires_at <= bindparam("now"))
            .values(state="expired", answered_at=bindparam("at"))
        )
        self._forget = backend.prepare(
            update(decisions).where(c.id == bindparam("decision")).values(answer=bindparam("new_answer"))
        )
        self._link = backend.prepare(update(decisions).where(*this).values(token_hash=bindparam("hash")))
        self._approve = backend.prepare(text(_APPROVE))

    # -- Reading ---------------------------------------------------------------------------------------

    def get(self, decision_id: str) -> DecisionRow | None:
        """A decision, whatever its state; None when unknown."""
        return self._one(self._get, {"decision": clean(decision_id)})

    def of_run(self, run_id: str) -> t.Sequence[DecisionRow]:
        """All decisions of a run, oldest first."""
        return self._all(self._of_run, {"run": clean(run_id)})

    def open_of_run(self, run_id: str) -> t.Sequence[DecisionRow]:
        """Those that nobody has answered yet, oldest first."""
        return self._all(self._open_of_run, {"run": clean(run_id)})

    def open_count(self) -> int:
        """How many nobody has answered yet, in all of the installation."""
        return int(self._backend.rows(self._open_count, {})[0][0])

    def by_token(self, token: str) -> DecisionRow | None:
        """The decision a link leads to; None when the token is of no decision or was replaced by a later one.

        The token decides no more once the row is not ``open``: whoever shows the row must look.
        """
        return self._one(self._of_token, {"hash": _hash(token)})

    def list(
        self, wanted: DecisionFilter, before: str | None, limit: int
    ) -> tuple[t.Sequence[DecisionRow], str | None]:
        """The next decisions older than ``before``, newest first; see :meth:`app.store.pages.Pages.page`.

        :param before: a decision's id, or None for the newest.
        :returns: at most ``limit`` and about :data:`PAGE_BYTES` (one whatever its size), and the id after which the
            list goes on; None at its end. There may be fewer than ``limit``, even none, before the end.
        """
        asked = {name: value for name in _FILTERS if (value := getattr(wanted, name)) is not None}
        if asked.get("state") == "open" and wanted.run_id is None:
            asked["open"] = asked.pop("state")
        rows: list[DecisionRow] = []
        size = 0
        while True:
            due = min(limit - len(rows), _AT_ONCE)
            found, further = self._pages.page(asked, before, due)
            for row in found:
                rows.append(decision(row))
                size += sum(len(value) for value in row if isinstance(value, str))
                if size >= PAGE_BYTES and row is not found[-1]:
                    return rows, rows[-1].id
            if further is None or size >= PAGE_BYTES or len(found) < due or len(rows) == limit:
                return rows, further
            before = further

    def settled_of(self, run_ids: Collection[str]) -> t.Sequence[DecisionRow]:
        """Decisions of these runs that were answered or expired and that the run has not taken note of: a run that
        lives takes them up from here, whoever got the answer. They are given again until a checkpoint says ``taken``.
        """
        if not run_ids:
            return []
        left = [row[0] for row in self._backend.rows(self._left, {}) if row[1] in run_ids]
        return [row for id_ in left if (row := self.get(id_)) is not None and row.taken_at is None]

    # -- Answering -------------------------------------------------------------------------------------

    def answer(
        self, decision_id: str, answer: Mapping[str, t.Any], by: str | None, *, remember: bool = False
    ) -> tuple[bool, DecisionRow | None]:
        """Answer a decision, if it is still open and its time is not up. Durable when this returns.

        :param answer: kept as it is; JSON. :param by: who, for the record.
        :param remember: approve its ``subject`` for the rest of its thread too, in the same transaction.
        :returns: whether this was the answer, and the row as it is now: of a loser's, who answered and when; None when
            there is no such decision. One whose time is up is ``expired`` afterwards.
        """
        now = self._clock.now_ms()
        this = {"decision": clean(decision_id), "now": now, "at": now}
        stored = json_text(answer) or ""
        given = {**this, "new_answer": stored, "by": clean(by)}

        def job(link: Link) -> tuple[bool, DecisionRow | None]:
            won = bool(link.execute(self._answer, given))
            if not won:
                link.execute(self._expire, this)
            found = link.rows(self._get, this)
            row = decision(found[0]) if found else None
            if won and remember and row and row.thread_id and row.subject:
                link.execute(self._approve, {"thread": row.thread_id, "subject": row.subject, "at": now})
            return won, row

        size = len(stored) + 256
        return t.cast("tuple[bool, DecisionRow | None]", self._writer.submit(job, size).wait())

    def forget_answers(self, run_id: str) -> None:
        """A run has ended: of what people answered, keep what may be shown."""
        given = [
            {"decision": row.id, "new_answer": json_text(row.told)}
            for row in self.of_run(run_id)
            if row.answer and row.told != row.answer
        ]
        if given:
            size = 256 * len(given)
            self._writer.submit(
                lambda link: [link.execute(self._forget, each) for each in given], size
            ).wait()

    def expire(self, now_ms: int) -> t.Sequence[DecisionRow]:
        """Settle the decisions whose time was up at ``now_ms``.

        :returns: those that this call settled, at most 500: of several processes each gets its own.
        """
        due = [row[0] for row in self._backend.rows(self._due, {"now": now_ms})]
        if not due:
            return []

        def job(link: Link) -> t.Sequence[DecisionRow]:
            values = [{"decision": id_, "now": now_ms, "at": now_ms} for id_ in due]
            mine = [value for value in values if link.execute(self._expire, value)]
            return [decision(link.rows(self._get, value)[0]) for value in mine]

        size = 1024 if len(due) < 8 else MOST_BYTES + 1
        return t.cast("list[DecisionRow]", self._writer.submit(job, size).wait())

    def new_token(self, decision_id: str, note: Note | None = None) -> str | None:
        """A token for a link that answers a decision once. It replaces the one before; stored is only its hash.

        :param note: of the change (:class:`app.store.audit.Audit`).
        :returns: None when there is no such decision, or it is not open any more.
        """
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        values = {"decision": clean(decision_id), "hash": _hash(token)}
        linked = self._writer.submit(lambda link: bool(link.execute(self._link, values)), 256, note).wait()
        return token if linked else None

    # -- For the rest of a thread ------------------------------------------------------------------------

    def approve_for_thread(self, thread_id: str, subject: str) -> None:
        """Remember that a subject is approved for the rest of a thread. Ignored for a thread that is gone."""
        values = {"thread": clean(thread_id), "subject": clean(subject), "at": self._clock.now_ms()}
        self._writer.submit(lambda link: link.execute(self._approve, values), 256).wait()

    def approved_for_thread(self, thread_id: str) -> frozenset[str]:
        """What is approved for the rest of a thread."""
        return frozenset(row[0] for row in self._backend.rows(self._approved, {"thread": clean(thread_id)}))

    def _one(self, statement: Statement, values: dict[str, t.Any]) -> DecisionRow | None:
        found = self._backend.rows(statement, values)
        return decision(found[0]) if found else None

    def _all(self, statement: Statement, values: dict[str, t.Any]) -> t.Sequence[DecisionRow]:
        return [decision(row) for row in self._backend.rows(statement, values)]


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()
