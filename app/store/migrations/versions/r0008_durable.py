"""Durable runs: their journal, their log, what people are asked, and what they have approved for a thread."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("durable", sa.Integer, nullable=False, server_default="0"))
    op.add_column("runs", sa.Column("paused_at", sa.BigInteger))
    op.add_column("runs", sa.Column("origin", sa.Text))
    op.drop_index("ix_runs_open", "runs")
    _partial("ix_runs_open", "runs", ["owner_id"], "ended_at IS NULL AND owner_id IS NOT NULL")
    _partial(
        "ix_runs_released", "runs", ["id"], "owner_id IS NULL AND ended_at IS NULL AND status = 'running'"
    )
    op.create_table(
        "durable_runs",
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("started", sa.Text, nullable=False),
        sa.Column("documents", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("run_id", name="pk_durable_runs"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_durable_runs_run_id", ondelete="CASCADE"),
    )
    op.create_table(
        "journal",
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("execution", sa.Integer, nullable=False),
        sa.Column("turn", sa.Integer, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("input_hash", sa.Text),
        sa.Column("value", sa.LargeBinary),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("owner_epoch", sa.BigInteger, nullable=False),
        sa.Column("written_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("run_id", "path", "execution", "turn", "key", name="pk_journal"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_journal_run_id", ondelete="CASCADE"),
    )
    op.create_table(
        "run_logs",
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("first", sa.BigInteger, nullable=False),
        sa.Column("last", sa.BigInteger, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("run_id", "first", name="pk_run_logs"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_run_logs_run_id", ondelete="CASCADE"),
    )
    _decisions()
    op.create_table(
        "thread_approvals",
        sa.Column("thread_id", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("thread_id", "subject", name="pk_thread_approvals"),
        sa.ForeignKeyConstraint(
            ["thread_id"], ["threads.id"], name="fk_thread_approvals_thread_id", ondelete="CASCADE"
        ),
    )


def _decisions() -> None:
    op.create_table(
        "decisions",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("thread_id", sa.Text),
        sa.Column("workflow_id", sa.Text, nullable=False),
        sa.Column("key_id", sa.Text),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("execution", sa.Integer, nullable=False),
        sa.Column("turn", sa.Integer, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("node", sa.Text, nullable=False),
        sa.Column("review", sa.Text, nullable=False),
        sa.Column("input_hash", sa.Text, nullable=False),
        sa.Column("subject", sa.Text),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("answer", sa.Text),
        sa.Column("answered_by", sa.Text),
        sa.Column("answered_at", sa.BigInteger),
        sa.Column("taken_at", sa.BigInteger),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger),
        sa.Column("token_hash", sa.LargeBinary),
        sa.PrimaryKeyConstraint("id", name="pk_decisions"),
        sa.UniqueConstraint("run_id", "path", "execution", "turn", "key", name="uq_decisions_run_id"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_decisions_run_id", ondelete="CASCADE"),
    )
    op.create_index("ix_decisions_key_id", "decisions", ["key_id", "id"])
    op.create_index("ix_decisions_workflow_id", "decisions", ["workflow_id", "id"])
    _partial("ix_decisions_thread_id", "decisions", ["thread_id", "id"], "thread_id IS NOT NULL")
    _partial("ix_decisions_token_hash", "decisions", ["token_hash"], "token_hash IS NOT NULL", unique=True)
    _partial("ix_decisions_open", "decisions", ["id"], "state = 'open'")
    _partial("ix_decisions_expires_at", "decisions", ["expires_at"], "state = 'open'")
    _partial("ix_decisions_left", "decisions", ["run_id"], "answered_at IS NOT NULL AND taken_at IS NULL")


def _partial(name: str, table: str, columns: list[str], where: str, unique: bool = False) -> None:
    condition = sa.text(where)
    op.create_index(name, table, columns, unique=unique, sqlite_where=condition, postgresql_where=condition)


def downgrade() -> None:
    for index in ("ix_runs_released", "ix_runs_open"):
        op.drop_index(index, "runs")
    _partial("ix_runs_open", "runs", ["owner_id"], "ended_at IS NULL")
    for table in ("thread_approvals", "decisions", "run_logs", "journal", "durable_runs"):
        op.drop_table(table)
    for column in ("origin", "paused_at", "durable"):
        op.drop_column("runs", column)
