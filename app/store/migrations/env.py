"""Alembic's entry: runs the steps on the connection that :mod:`app.store.migrate` hands over."""

from __future__ import annotations

from alembic import context

from app.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,  # SQLite can; Alembic assumes that the driver commits in between, ours does not
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
