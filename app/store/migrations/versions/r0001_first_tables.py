"""Keys, workflows with versions, owners, runs with block log and usage."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    _catalog()
    _runs()
    _run_details()


def _catalog() -> None:
    catalog = op.create_table(
        "catalog",
        sa.Column("id", sa.Integer, autoincrement=False),
        sa.Column("generation", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_catalog"),
    )
    op.bulk_insert(catalog, [{"id": 1, "generation": 1}])
    op.create_table(
        "api_keys",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("prefix", sa.Text, nullable=False),
        sa.Column("hash", sa.LargeBinary, nullable=False),
        sa.Column("scopes", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("revoked_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("id", name="pk_api_keys"),
        sa.UniqueConstraint("hash", name="uq_api_keys_hash"),
    )
    op.create_table(
        "workflows",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("live_version", sa.Integer),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_workflows"),
    )
    op.create_table(
        "workflow_versions",
        sa.Column("workflow_id", sa.Text, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("name", sa.Text),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("workflow_id", "version", name="pk_workflow_versions"),
        sa.ForeignKeyConstraint(
            ["workflow_id"], ["workflows.id"], name="fk_workflow_versions_workflow_id", ondelete="CASCADE"
        ),
    )


def _runs() -> None:
    op.create_table(
        "owners",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("place", sa.Text, nullable=False),
        sa.Column("pid", sa.BigInteger, nullable=False),
        sa.Column("born", sa.BigInteger, nullable=False),
        sa.Column("beat", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_owners"),
    )
    op.create_table(
        "runs",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("workflow_id", sa.Text, nullable=False),
        sa.Column("version", sa.Integer),
        sa.Column("key_id", sa.Text),
        sa.Column("conversation_id", sa.Text),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("cause", sa.Text),
        sa.Column("input", sa.Text),
        sa.Column("output", sa.Text),
        sa.Column("partial_text", sa.Text),
        sa.Column("error", sa.Text),
        sa.Column("usage", sa.Text),
        sa.Column("tool_calls", sa.Text),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("started_at", sa.BigInteger),
        sa.Column("ended_at", sa.BigInteger),
        sa.Column("queued_ms", sa.BigInteger),
        sa.Column("active_ms", sa.BigInteger),
        sa.Column("human_wait_ms", sa.BigInteger),
        sa.Column("owner_id", sa.Text),
        sa.Column("owner_epoch", sa.BigInteger, nullable=False),
        sa.Column("seq_reserved", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
    )
    open_runs = sa.text("ended_at IS NULL")
    op.create_index("ix_runs_open", "runs", ["owner_id"], sqlite_where=open_runs, postgresql_where=open_runs)


def _run_details() -> None:
    op.create_table(
        "run_blocks",
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("block", sa.Text, nullable=False),
        sa.Column("execution", sa.Integer, nullable=False),
        sa.Column("type", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("started_at", sa.BigInteger),
        sa.Column("ended_at", sa.BigInteger),
        sa.Column("duration_ms", sa.BigInteger),
        sa.Column("output", sa.Text),
        sa.Column("error", sa.Text),
        sa.PrimaryKeyConstraint("run_id", "position", name="pk_run_blocks"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_run_blocks_run_id", ondelete="CASCADE"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "run_usage",
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("block", sa.Text, nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("tokens", sa.Text, nullable=False),
        sa.Column("cost", sa.Float),
        sa.Column("currency", sa.Text, nullable=False),
        sa.Column("estimated", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("run_id", "position", name="pk_run_usage"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_run_usage_run_id", ondelete="CASCADE"),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    for table in ("run_usage", "run_blocks", "runs", "owners"):
        op.drop_table(table)
    for table in ("workflow_versions", "workflows", "api_keys", "catalog"):
        op.drop_table(table)
