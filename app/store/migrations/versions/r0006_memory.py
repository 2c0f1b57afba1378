"""What agents remember of a thread."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "memories",
        sa.Column("thread_id", sa.Text, nullable=False),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("block", sa.Text, nullable=False),
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("asked", sa.Text, nullable=False),
        sa.Column("answer", sa.Text),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.ForeignKeyConstraint(
            ["thread_id"], ["threads.id"], name="fk_memories_thread_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("thread_id", "position", name="pk_memories"),
    )
    op.create_index("ix_memories_thread_id", "memories", ["thread_id", "key", "position"])


def downgrade() -> None:
    op.drop_table("memories")
