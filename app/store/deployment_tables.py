"""The tables of what is given to others: chats, their gates, the owner, limits, files, and who changed what.

The law of :mod:`app.store.tables` is theirs too.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    Text,
)

from app.store.tables import metadata

#: One row at most: who signs in to the web pages. ``password`` is a salted hash, NULL before it is set;
#: ``password_version`` grows with every change of it and is in every session. ``setup_hash`` is the SHA-256 of the
#: token of the link that sets a password. ``ended`` is JSON: sessions that were signed out before their time.
owner_account = Table(
    "owner_account",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("password", Text),
    Column("password_version", BigInteger, nullable=False),
    Column("setup_hash", LargeBinary),
    Column("setup_expires_at", BigInteger),
    Column("ended", Text),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
)

#: Who changed what. ``actor``: a key's id, ``owner``, ``cli``. ``subject``: ``<kind>:<id>``. ``details`` is JSON and
#: holds no secret.
audit_log = Table(
    "audit_log",
    metadata,
    Column("id", Text, primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("actor", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("details", Text),
    Column("address", Text),
    Column("request_id", Text),
)
Index("ix_audit_log_subject", audit_log.c.subject, audit_log.c.id)

#: Chats that a workflow is deployed as. ``allowed_emails``, ``outputs``, ``customization``, ``allowed_origins``,
#: ``rate_limit``, ``budget`` and ``redact`` are JSON. ``password`` is a salted hash; ``password_version`` grows with
#: every change of how visitors get in and is in every visitor's pass. ``revision`` counts the changes of the row.
chats = Table(
    "chats",
    metadata,
    Column("id", Text, primary_key=True),
    Column("workflow_id", Text, ForeignKey("workflows.id", ondelete="CASCADE"), nullable=False),
    Column("slug", Text, nullable=False, unique=True),
    Column("title", Text, nullable=False),
    Column("description", Text),
    Column("welcome_message", Text),
    Column("auth_type", Text, nullable=False),
    Column("password", Text),
    Column("password_version", BigInteger, nullable=False),
    Column("allowed_emails", Text),
    Column("outputs", Text),
    Column("include_thinking", Integer, nullable=False),
    Column("include_tool_calls", Integer, nullable=False),
    Column("customization", Text),
    Column("allowed_origins", Text),
    Column("rate_limit", Text),
    Column("budget", Text),
    Column("redact", Text),
    Column("active", Integer, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
)
Index("ix_chats_workflow_id", chats.c.workflow_id, chats.c.id)

#: Codes that were sent by e-mail. Both hashes are keyed; ``attempts`` counts wrong tries. Of an address that may not
#: get in there is a row too, so that nobody learns which may.
chat_codes = Table(
    "chat_codes",
    metadata,
    Column("chat_id", Text, ForeignKey("chats.id", ondelete="CASCADE"), nullable=False),
    Column("email_hash", LargeBinary, nullable=False),
    Column("code_hash", LargeBinary, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("sent_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("chat_id", "email_hash"),
)

#: Counts that all processes share: tries at passwords, and requests where the limits are counted here.
counters = Table(
    "counters",
    metadata,
    Column("key", Text, primary_key=True),
    Column("value", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
)
Index("ix_counters_expires_at", counters.c.expires_at)

#: What a chat, a key or a workflow (``subject``: ``<kind>:<id>``) has used in a period (``run``s have none here).
spending = Table(
    "spending",
    metadata,
    Column("subject", Text, nullable=False),
    Column("period", Text, nullable=False),
    Column("tokens", BigInteger, nullable=False),
    Column("cost", Float, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("subject", "period"),
)

#: Files that were uploaded. ``key_id``: whose they are.
files = Table(
    "files",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("media_type", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("key_id", Text),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger),
    Column("data", LargeBinary, nullable=False),
)
Index("ix_files_key_id", files.c.key_id, files.c.id)
Index("ix_files_expires_at", files.c.expires_at)

#: Which run a start with an ``Idempotency-Key`` has begun. Both hashes are of what the client sent; neither its key nor
#: its body is here. ``owner_id``: the process that is to start the run. ``workflow_id`` and ``chat_id``: with what the
#: row goes before its time; NULL where that is nowhere in the database, as of a plugin's graph.
idempotency = Table(
    "idempotency",
    metadata,
    Column("key_hash", LargeBinary, primary_key=True),
    Column("body_hash", LargeBinary, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("owner_id", Text, nullable=False),
    Column("workflow_id", Text, ForeignKey("workflows.id", ondelete="CASCADE")),
    Column("chat_id", Text, ForeignKey("chats.id", ondelete="CASCADE")),
    Column("expires_at", BigInteger, nullable=False),
)
for _column in ("workflow_id", "chat_id", "expires_at"):
    Index(f"ix_idempotency_{_column}", idempotency.c[_column])
