"""The tables, as SQLAlchemy Core values.

Law of this room: instants are epoch milliseconds, spans milliseconds, JSON is text made by
:mod:`app.encoding` (one form on every database, member order kept). A change here comes with a
migration; a test compares the two. Those of durable runs are in :mod:`app.store.durable_tables`,
those of what is given to others in :mod:`app.store.deployment_tables`.
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
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    and_,
)
from sqlalchemy.dialects.postgresql import TSVECTOR

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(column_0_label)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

#: One row: what request paths cache by. Every write to keys, workflows and versions raises ``generation``. ``examples``
#: (JSON): the names of those that came with the program and were imported once; one that is removed stays away.
catalog = Table(
    "catalog",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("generation", BigInteger, nullable=False),
    Column("examples", Text),
)

#: ``hash`` is the SHA-256 of the whole key, which itself is stored nowhere; ``prefix`` is for people. ``last_used_at``
#: lags behind by up to a minute. ``rate_limit`` and ``budget`` are JSON; NULL: no limit of its own. ``revision`` counts
#: what people change of the row, from 1.
api_keys = Table(
    "api_keys",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("prefix", Text, nullable=False),
    Column("hash", LargeBinary, nullable=False, unique=True),
    Column("scopes", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("revoked_at", BigInteger),
    Column("last_used_at", BigInteger),
    Column("expires_at", BigInteger),
    Column("created_by", Text),
    Column("rate_limit", Text),
    Column("budget", Text),
    Column("revision", BigInteger, nullable=False, server_default="1"),
)

#: ``document`` is the draft; ``live_version`` is NULL while nothing is deployed. ``revision`` counts the changes of the
#: row, from 1.
workflows = Table(
    "workflows",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("document", Text, nullable=False),
    Column("live_version", Integer),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("revision", BigInteger, nullable=False, server_default="1"),
)

#: Immutable copies; versions count from 1 per workflow. ``created_by`` says who, for the record.
workflow_versions = Table(
    "workflow_versions",
    metadata,
    Column("workflow_id", Text, ForeignKey("workflows.id", ondelete="CASCADE"), nullable=False),
    Column("version", Integer, nullable=False),
    Column("name", Text),
    Column("document", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("description", Text),
    Column("created_by", Text),
    PrimaryKeyConstraint("workflow_id", "version"),
)

#: A process that runs workflows. ``place``, ``pid`` and ``born`` identify it to processes of the same host;
#: ``beat`` grows while it lives, for all others.
owners = Table(
    "owners",
    metadata,
    Column("id", Text, primary_key=True),
    Column("place", Text, nullable=False),
    Column("pid", BigInteger, nullable=False),
    Column("born", BigInteger, nullable=False),
    Column("beat", BigInteger, nullable=False),
)

#: No foreign key to workflows: ``studio run FILE`` runs documents that were never saved. ``stop_requested`` is when
#: a process that does not carry the run was asked to stop it. ``durable``: it goes on from its journal when its process
#: has gone. ``paused_at``: since when it waits for people. ``origin`` (JSON): the surface it came in on, and how.
runs = Table(
    "runs",
    metadata,
    Column("id", Text, primary_key=True),
    Column("workflow_id", Text, nullable=False),
    Column("version", Integer),
    Column("key_id", Text),
    Column("conversation_id", Text),
    Column("status", Text, nullable=False),
    Column("cause", Text),
    Column("input", Text),
    Column("output", Text),
    Column("partial_text", Text),
    Column("error", Text),
    Column("usage", Text),
    Column("tool_calls", Text),
    Column("created_at", BigInteger, nullable=False),
    Column("started_at", BigInteger),
    Column("ended_at", BigInteger),
    Column("queued_ms", BigInteger),
    Column("active_ms", BigInteger),
    Column("human_wait_ms", BigInteger),
    Column("owner_id", Text),
    Column("owner_epoch", BigInteger, nullable=False),
    Column("seq_reserved", BigInteger, nullable=False),
    Column("model_failures", Text),
    Column("thread_id", Text),
    Column("stop_requested", BigInteger),
    Column("durable", Integer, nullable=False, server_default="0"),
    Column("paused_at", BigInteger),
    Column("origin", Text),
)
#: Only open runs that somebody carries are in it, so that it stays as small as the number of live runs.
_CARRIED = and_(runs.c.ended_at.is_(None), runs.c.owner_id.is_not(None))
Index("ix_runs_open", runs.c.owner_id, sqlite_where=_CARRIED, postgresql_where=_CARRIED)
#: Lists of runs (:mod:`app.store.run_list`): ids are in the order of time.
Index("ix_runs_key_id", runs.c.key_id, runs.c.id)
Index("ix_runs_workflow_id", runs.c.workflow_id, runs.c.id)
_NAMED = runs.c.conversation_id.is_not(None)
Index(
    "ix_runs_conversation_id",
    runs.c.conversation_id,
    runs.c.key_id,
    runs.c.id,
    sqlite_where=_NAMED,
    postgresql_where=_NAMED,
)
_THREADED = runs.c.thread_id.is_not(None)
Index(
    "ix_runs_thread_id",
    runs.c.thread_id,
    runs.c.key_id,
    runs.c.id,
    sqlite_where=_THREADED,
    postgresql_where=_THREADED,
)
#: Runs that should end and have not: empty most of the time, so that looking for them costs nothing.
_STOPPING = and_(runs.c.ended_at.is_(None), runs.c.stop_requested.is_not(None))
Index("ix_runs_stopping", runs.c.owner_id, sqlite_where=_STOPPING, postgresql_where=_STOPPING)
#: Runs that were handed over and wait for a process: empty as well.
_RELEASED = and_(runs.c.owner_id.is_(None), runs.c.ended_at.is_(None), runs.c.status == "running")
Index("ix_runs_released", runs.c.id, sqlite_where=_RELEASED, postgresql_where=_RELEASED)

#: See :mod:`app.store.threads`.
threads = Table(
    "threads",
    metadata,
    Column("id", Text, primary_key=True),
    Column("workflow_id", Text, nullable=False),
    Column("key_id", Text),
    Column("name", Text),
    Column("run_id", Text),
    Column("claimed_at", BigInteger, nullable=False),
    Column("pinned", Text),
    Column("pins", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
)
Index("ix_threads_key_id", threads.c.key_id, threads.c.id)
_CALLED = threads.c.name.is_not(None)
Index(
    "ix_threads_workflow_id",
    threads.c.workflow_id,
    threads.c.key_id,
    threads.c.name,
    unique=True,
    sqlite_where=_CALLED,
    postgresql_where=_CALLED,
)

#: See :mod:`app.store.memories`. One row is one exchange, so that a message and its answer are never apart.
#: ``position`` counts from 0 in the thread, over all keys; ``answer`` is NULL when the run was stopped before it was
#: complete; ``size`` is the bytes of both texts.
memories = Table(
    "memories",
    metadata,
    Column("thread_id", Text, ForeignKey("threads.id", ondelete="CASCADE"), nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("key", Text, nullable=False),
    Column("block", Text, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("asked", Text, nullable=False),
    Column("answer", Text),
    Column("size", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("thread_id", "position"),
)
Index("ix_memories_thread_id", memories.c.thread_id, memories.c.key, memories.c.position)

#: The block log, written once, with the run's end. ``position`` is the order of the log, from 0.
run_blocks = Table(
    "run_blocks",
    metadata,
    Column("run_id", Text, ForeignKey("runs.id", ondelete="CASCADE"), nullable=False),
    Column("position", Integer, nullable=False),
    Column("block", Text, nullable=False),
    Column("execution", Integer, nullable=False),
    Column("type", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("started_at", BigInteger),
    Column("ended_at", BigInteger),
    Column("duration_ms", BigInteger),
    Column("output", Text),
    Column("error", Text),
    PrimaryKeyConstraint("run_id", "position"),
    sqlite_with_rowid=False,
)

#: One row per model call.
run_usage = Table(
    "run_usage",
    metadata,
    Column("run_id", Text, ForeignKey("runs.id", ondelete="CASCADE"), nullable=False),
    Column("position", Integer, nullable=False),
    Column("block", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("tokens", Text, nullable=False),
    Column("cost", Float),
    Column("currency", Text, nullable=False),
    Column("estimated", Integer, nullable=False),
    PrimaryKeyConstraint("run_id", "position"),
    sqlite_with_rowid=False,
)

#: Rows that the database counts.
_COUNTED = BigInteger().with_variant(Integer, "sqlite")

#: Collections of documents. A row stays when its last document goes; such a collection is as good as none.
#: ``embedding_model`` is the one that makes vectors of its chunks, as ``<family>/<model>``.
collections = Table(
    "collections",
    metadata,
    Column("id", _COUNTED, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("created_at", BigInteger, nullable=False),
    Column("embedding_model", Text),
)

#: ``version`` counts from 1 and is that of the chunks that are searched; 0: not stored whole yet, or going.
#: ``claimed`` is the highest version that somebody began to store. ``text`` is last, so that lists need not read it.
documents = Table(
    "documents",
    metadata,
    Column("id", Text, primary_key=True),
    Column("collection_id", _COUNTED, ForeignKey("collections.id", ondelete="CASCADE"), nullable=False),
    Column("source", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("claimed", Integer, nullable=False),
    Column("title", Text),
    Column("media_type", Text, nullable=False),
    Column("metadata", Text),
    Column("characters", BigInteger, nullable=False),
    Column("chunks", Integer, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("text", Text, nullable=False),
    UniqueConstraint("collection_id", "source"),
)

#: ``text`` is characters ``starts`` to ``ends`` of the document's. ``terms`` is what it is found by (see
#: :mod:`app.store.terms`); triggers keep SQLite's index ``chunk_index`` of it, PostgreSQL has a GIN index.
chunks = Table(
    "chunks",
    metadata,
    Column("id", _COUNTED, primary_key=True),
    Column("collection_id", _COUNTED, nullable=False),
    Column("document_id", Text, ForeignKey("documents.id", ondelete="CASCADE"), nullable=False),
    Column("version", Integer, nullable=False),
    Column("position", Integer, nullable=False),
    Column("starts", BigInteger, nullable=False),
    Column("ends", BigInteger, nullable=False),
    Column("text", Text, nullable=False),
    Column("terms", Text().with_variant(TSVECTOR, "postgresql"), nullable=False),
)
Index("ix_chunks_document_id", chunks.c.document_id, chunks.c.version, chunks.c.position, unique=True)

#: What a model made of a chunk: ``dims`` floats of 32 bits, little endian.
chunk_vectors = Table(
    "chunk_vectors",
    metadata,
    Column("chunk_id", _COUNTED, ForeignKey("chunks.id", ondelete="CASCADE"), nullable=False),
    Column("model", Text, nullable=False),
    Column("dims", Integer, nullable=False),
    Column("vector", LargeBinary, nullable=False),
    PrimaryKeyConstraint("chunk_id", "model"),
)

#: ``sealed`` is encrypted (:mod:`app.store.sealing`); the value itself is stored nowhere.
secrets = Table(
    "secrets",
    metadata,
    Column("name", Text, primary_key=True),
    Column("sealed", LargeBinary, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
)
