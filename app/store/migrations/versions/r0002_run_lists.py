"""Lists of runs: by key, workflow and conversation."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_INDEXES = ("ix_runs_key_id", "ix_runs_workflow_id", "ix_runs_conversation_id")


def upgrade() -> None:
    by_key, by_workflow, by_conversation = _INDEXES
    named = sa.text("conversation_id IS NOT NULL")
    op.create_index(by_key, "runs", ["key_id", "id"])
    op.create_index(by_workflow, "runs", ["workflow_id", "id"])
    op.create_index(
        by_conversation,
        "runs",
        ["conversation_id", "key_id", "id"],
        sqlite_where=named,
        postgresql_where=named,
    )


def downgrade() -> None:
    for name in _INDEXES:
        op.drop_index(name, "runs")
