"""Which start a repeated request is a repeat of."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "idempotency",
        sa.Column("key_hash", sa.LargeBinary, nullable=False),
        sa.Column("body_hash", sa.LargeBinary, nullable=False),
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("owner_id", sa.Text, nullable=False),
        sa.Column("workflow_id", sa.Text),
        sa.Column("chat_id", sa.Text),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("key_hash", name="pk_idempotency"),
        sa.ForeignKeyConstraint(
            ["workflow_id"], ["workflows.id"], name="fk_idempotency_workflow_id", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["chat_id"], ["chats.id"], name="fk_idempotency_chat_id", ondelete="CASCADE"),
    )
    for column in ("workflow_id", "chat_id", "expires_at"):
        op.create_index(f"ix_idempotency_{column}", "idempotency", [column])


def downgrade() -> None:
    op.drop_table("idempotency")
