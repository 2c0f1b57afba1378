"""Runs tell which model calls failed and were repeated or given to another model."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("model_failures", sa.Text))


def downgrade() -> None:
    op.drop_column("runs", "model_failures")
