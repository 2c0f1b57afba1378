"""Deployments: what is given to others, who may get in, and what that may use."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_KEY_COLUMNS = (
    ("last_used_at", sa.BigInteger),
    ("expires_at", sa.BigInteger),
    ("created_by", sa.Text),
    ("rate_limit", sa.Text),
    ("budget", sa.Text),
)


def upgrade() -> None:
    for name, kind in _KEY_COLUMNS:
        op.add_column("api_keys", sa.Column(name, kind))
    op.add_column("catalog", sa.Column("examples", sa.Text))
    for table in ("api_keys", "workflows"):
        op.add_column(table, sa.Column("revision", sa.BigInteger, nullable=False, server_default="1"))
    for name in ("description", "created_by"):
        op.add_column("workflow_versions", sa.Column(name, sa.Text))
    op.create_index("ix_threads_key_id", "threads", ["key_id", "id"])
    _owner()
    _chats()
    _counts()


def _owner() -> None:
    op.create_table(
        "owner_account",
        sa.Column("id", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("password", sa.Text),
        sa.Column("password_version", sa.BigInteger, nullable=False),
        sa.Column("setup_hash", sa.LargeBinary),
        sa.Column("setup_expires_at", sa.BigInteger),
        sa.Column("ended", sa.Text),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_owner_account"),
    )
    op.create_table(
        "audit_log",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("details", sa.Text),
        sa.Column("address", sa.Text),
        sa.Column("request_id", sa.Text),
        sa.PrimaryKeyConstraint("id", name="pk_audit_log"),
    )
    op.create_index("ix_audit_log_subject", "audit_log", ["subject", "id"])


def _chats() -> None:
    op.create_table(
        "chats",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("workflow_id", sa.Text, nullable=False),
        sa.Column("slug", sa.Text, nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("description", sa.Text),
        sa.Column("welcome_message", sa.Text),
        sa.Column("auth_type", sa.Text, nullable=False),
        sa.Column("password", sa.Text),
        sa.Column("password_version", sa.BigInteger, nullable=False),
        sa.Column("allowed_emails", sa.Text),
        sa.Column("outputs", sa.Text),
        sa.Column("include_thinking", sa.Integer, nullable=False),
        sa.Column("include_tool_calls", sa.Integer, nullable=False),
        sa.Column("customization", sa.Text),
        sa.Column("allowed_origins", sa.Text),
        sa.Column("rate_limit", sa.Text),
        sa.Column("budget", sa.Text),
        sa.Column("redact", sa.Text),
        sa.Column("active", sa.Integer, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_chats"),
        sa.ForeignKeyConstraint(
            ["workflow_id"], ["workflows.id"], name="fk_chats_workflow_id", ondelete="CASCADE"
        ),
        sa.UniqueConstraint("slug", name="uq_chats_slug"),
    )
    op.create_index("ix_chats_workflow_id", "chats", ["workflow_id", "id"])
    op.create_table(
        "chat_codes",
        sa.Column("chat_id", sa.Text, nullable=False),
        sa.Column("email_hash", sa.LargeBinary, nullable=False),
        sa.Column("code_hash", sa.LargeBinary, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("sent_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("chat_id", "email_hash", name="pk_chat_codes"),
        sa.ForeignKeyConstraint(["chat_id"], ["chats.id"], name="fk_chat_codes_chat_id", ondelete="CASCADE"),
    )


def _counts() -> None:
    op.create_table(
        "counters",
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("value", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_counters"),
    )
    op.create_index("ix_counters_expires_at", "counters", ["expires_at"])
    op.create_table(
        "spending",
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("period", sa.Text, nullable=False),
        sa.Column("tokens", sa.BigInteger, nullable=False),
        sa.Column("cost", sa.Float, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("subject", "period", name="pk_spending"),
    )
    op.create_table(
        "files",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("media_type", sa.Text, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("key_id", sa.Text),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger),
        sa.Column("data", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_files"),
    )
    op.create_index("ix_files_key_id", "files", ["key_id", "id"])
    op.create_index("ix_files_expires_at", "files", ["expires_at"])


def downgrade() -> None:
    for table in ("files", "spending", "counters", "chat_codes", "chats", "audit_log", "owner_account"):
        op.drop_table(table)
    op.drop_index("ix_threads_key_id", "threads")
    for name in ("created_by", "description"):
        op.drop_column("workflow_versions", name)
    for table in ("workflows", "api_keys"):
        op.drop_column(table, "revision")
    op.drop_column("catalog", "examples")
    for name, _ in reversed(_KEY_COLUMNS):
        op.drop_column("api_keys", name)
