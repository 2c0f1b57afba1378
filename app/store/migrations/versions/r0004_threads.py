"""Threads, the thread of a run, and the wish that a run of another process ends."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "threads",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("workflow_id", sa.Text, nullable=False),
        sa.Column("key_id", sa.Text),
        sa.Column("name", sa.Text),
        sa.Column("run_id", sa.Text),
        sa.Column("claimed_at", sa.BigInteger, nullable=False),
        sa.Column("pinned", sa.Text),
        sa.Column("pins", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_threads"),
    )
    named = sa.text("name IS NOT NULL")
    op.create_index(
        "ix_threads_workflow_id",
        "threads",
        ["workflow_id", "key_id", "name"],
        unique=True,
        sqlite_where=named,
        postgresql_where=named,
    )
    op.add_column("runs", sa.Column("thread_id", sa.Text))
    op.add_column("runs", sa.Column("stop_requested", sa.BigInteger))
    threaded = sa.text("thread_id IS NOT NULL")
    op.create_index(
        "ix_runs_thread_id",
        "runs",
        ["thread_id", "key_id", "id"],
        sqlite_where=threaded,
        postgresql_where=threaded,
    )
    stopping = sa.text("ended_at IS NULL AND stop_requested IS NOT NULL")
    op.create_index(
        "ix_runs_stopping", "runs", ["owner_id"], sqlite_where=stopping, postgresql_where=stopping
    )


def downgrade() -> None:
    op.drop_index("ix_runs_stopping", "runs")
    op.drop_index("ix_runs_thread_id", "runs")
    op.drop_column("runs", "stop_requested")
    op.drop_column("runs", "thread_id")
    op.drop_table("threads")
