"""Documents in collections, their chunks with the index that text search uses, and vectors of chunks."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import TSVECTOR

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

#: SQLite counts rows only in a column of this very type.
_COUNTED = sa.BigInteger().with_variant(sa.Integer, "sqlite")

# The terms come folded and separated by blanks, so the plainest tokenizer is the right one. Nothing is stored
# twice: the index reads what it needs from the chunks.
_INDEX = """
CREATE VIRTUAL TABLE chunk_index USING fts5(
    collection_id, terms, content='chunks', content_rowid='id', tokenize='ascii'
)
"""
_ADDED = """
CREATE TRIGGER chunks_added AFTER INSERT ON chunks BEGIN
    INSERT INTO chunk_index(rowid, collection_id, terms) VALUES (new.id, new.collection_id, new.terms);
END
"""
_REMOVED = """
CREATE TRIGGER chunks_removed AFTER DELETE ON chunks BEGIN
    INSERT INTO chunk_index(chunk_index, rowid, collection_id, terms)
    VALUES ('delete', old.id, old.collection_id, old.terms);
END
"""


def upgrade() -> None:
    _documents()
    _chunks()
    if op.get_bind().dialect.name == "sqlite":
        for statement in (_INDEX, _ADDED, _REMOVED):
            op.execute(statement)
    else:
        op.create_index("ix_chunks_terms", "chunks", ["terms"], postgresql_using="gin")
        op.create_index("ix_chunks_terms_sample", "chunks", ["collection_id", "id"])
        # Terms stay in their row as long as it fits a page: ranking reads them several times (twice as quick).
        op.execute("ALTER TABLE chunks SET (toast_tuple_target = 8160)")


def _documents() -> None:
    op.create_table(
        "collections",
        sa.Column("id", _COUNTED, autoincrement=True, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("embedding_model", sa.Text),
        sa.PrimaryKeyConstraint("id", name="pk_collections"),
        sa.UniqueConstraint("name", name="uq_collections_name"),
    )
    op.create_table(
        "documents",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("collection_id", _COUNTED, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("claimed", sa.Integer, nullable=False),
        sa.Column("title", sa.Text),
        sa.Column("media_type", sa.Text, nullable=False),
        sa.Column("metadata", sa.Text),
        sa.Column("characters", sa.BigInteger, nullable=False),
        sa.Column("chunks", sa.Integer, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_documents"),
        sa.UniqueConstraint("collection_id", "source", name="uq_documents_collection_id"),
        sa.ForeignKeyConstraint(
            ["collection_id"], ["collections.id"], name="fk_documents_collection_id", ondelete="CASCADE"
        ),
    )


def _chunks() -> None:
    op.create_table(
        "chunks",
        sa.Column("id", _COUNTED, autoincrement=True, nullable=False),
        sa.Column("collection_id", _COUNTED, nullable=False),
        sa.Column("document_id", sa.Text, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("starts", sa.BigInteger, nullable=False),
        sa.Column("ends", sa.BigInteger, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("terms", sa.Text().with_variant(TSVECTOR, "postgresql"), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_chunks"),
        sa.ForeignKeyConstraint(
            ["document_id"], ["documents.id"], name="fk_chunks_document_id", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_chunks_document_id", "chunks", ["document_id", "version", "position"], unique=True)
    op.create_table(
        "chunk_vectors",
        sa.Column("chunk_id", _COUNTED, nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("dims", sa.Integer, nullable=False),
        sa.Column("vector", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("chunk_id", "model", name="pk_chunk_vectors"),
        sa.ForeignKeyConstraint(
            ["chunk_id"], ["chunks.id"], name="fk_chunk_vectors_chunk_id", ondelete="CASCADE"
        ),
    )


def downgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        op.execute("DROP TABLE chunk_index")
    for table in ("chunk_vectors", "chunks", "documents", "collections"):
        op.drop_table(table)
