"""The tables of durable runs and of decisions; the law of :mod:`app.store.tables` is theirs too."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    and_,
)

from app.store.tables import metadata

#: What a durable run goes on with (:mod:`app.store.durable`): how it was started, and the documents it runs, both JSON.
durable_runs = Table(
    "durable_runs",
    metadata,
    Column("run_id", Text, ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("started", Text, nullable=False),
    Column("documents", Text, nullable=False),
)

#: The steps of durable runs, by the key of the architecture. ``value`` and ``data`` below are msgpack; ``position`` is
#: the order of first writing, from 0 in the run.
journal = Table(
    "journal",
    metadata,
    Column("run_id", Text, ForeignKey("runs.id", ondelete="CASCADE"), nullable=False),
    Column("path", Text, nullable=False),
    Column("execution", Integer, nullable=False),
    Column("turn", Integer, nullable=False),
    Column("key", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("input_hash", Text),
    Column("value", LargeBinary),
    Column("position", BigInteger, nullable=False),
    Column("owner_epoch", BigInteger, nullable=False),
    Column("written_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("run_id", "path", "execution", "turn", "key"),
)

#: What durable runs said, in batches of envelopes.
run_logs = Table(
    "run_logs",
    metadata,
    Column("run_id", Text, ForeignKey("runs.id", ondelete="CASCADE"), nullable=False),
    Column("first", BigInteger, nullable=False),
    Column("last", BigInteger, nullable=False),
    Column("data", LargeBinary, nullable=False),
    PrimaryKeyConstraint("run_id", "first"),
)

#: One row per question to a person. ``state``: ``open``, ``answered``, ``expired``, ``cancelled`` (nobody waits for it
#: any more). ``answered_at`` is of answered and expired ones; ``taken_at``: when the run took note of that, or ended
#: without. ``review`` and ``answer`` are JSON; ``answered_by`` is for the record; ``token_hash`` is the SHA-256 of the
#: one-time token of its link.
decisions = Table(
    "decisions",
    metadata,
    Column("id", Text, primary_key=True),
    Column("run_id", Text, ForeignKey("runs.id", ondelete="CASCADE"), nullable=False),
    Column("thread_id", Text),
    Column("workflow_id", Text, nullable=False),
    Column("key_id", Text),
    Column("path", Text, nullable=False),
    Column("execution", Integer, nullable=False),
    Column("turn", Integer, nullable=False),
    Column("key", Text, nullable=False),
    Column("node", Text, nullable=False),
    Column("review", Text, nullable=False),
    Column("input_hash", Text, nullable=False),
    Column("subject", Text),
    Column("state", Text, nullable=False),
    Column("answer", Text),
    Column("answered_by", Text),
    Column("answered_at", BigInteger),
    Column("taken_at", BigInteger),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger),
    Column("token_hash", LargeBinary),
    UniqueConstraint("run_id", "path", "execution", "turn", "key"),
)
#: Lists of decisions (:mod:`app.store.decisions`): ids are in the order of time.
Index("ix_decisions_key_id", decisions.c.key_id, decisions.c.id)
Index("ix_decisions_workflow_id", decisions.c.workflow_id, decisions.c.id)
_OF_THREAD = decisions.c.thread_id.is_not(None)
Index(
    "ix_decisions_thread_id",
    decisions.c.thread_id,
    decisions.c.id,
    sqlite_where=_OF_THREAD,
    postgresql_where=_OF_THREAD,
)
_LINKED = decisions.c.token_hash.is_not(None)
Index(
    "ix_decisions_token_hash",
    decisions.c.token_hash,
    unique=True,
    sqlite_where=_LINKED,
    postgresql_where=_LINKED,
)
#: Work that waits: these stay as small as what is open.
_OPEN = decisions.c.state == "open"
Index("ix_decisions_open", decisions.c.id, sqlite_where=_OPEN, postgresql_where=_OPEN)
Index("ix_decisions_expires_at", decisions.c.expires_at, sqlite_where=_OPEN, postgresql_where=_OPEN)
_LEFT = and_(decisions.c.answered_at.is_not(None), decisions.c.taken_at.is_(None))
Index("ix_decisions_left", decisions.c.run_id, sqlite_where=_LEFT, postgresql_where=_LEFT)

#: What somebody has approved for the rest of a thread.
thread_approvals = Table(
    "thread_approvals",
    metadata,
    Column("thread_id", Text, ForeignKey("threads.id", ondelete="CASCADE"), nullable=False),
    Column("subject", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("thread_id", "subject"),
)
