"""``studio audit``.

Law of this room: the log is read here and changed nowhere.
"""

from __future__ import annotations

import typing as t

import click

from app import encoding
from app.cli.context import open_store, table
from app.clock import rfc3339


@click.command()
@click.option("--subject", help="Of what was changed, such as workflow:ID.")
@click.option("--actor", help="By whom: a key's id, owner or cli.")
@click.option("--action", help="How, such as workflow.deploy.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="How many rows.")
def audit(subject: str | None, actor: str | None, action: str | None, limit: int) -> None:
    """Say who changed what, newest first."""
    from app.store.audit import AuditFilter

    rows: list[tuple[t.Any, ...]] = []
    before: str | None = None
    with open_store() as store:
        while True:
            page, before = store.audit.page(AuditFilter(subject, actor, action), before, limit - len(rows))
            rows += [
                (
                    rfc3339(row.at),
                    row.actor,
                    row.action,
                    row.subject,
                    "" if row.details is None else encoding.dumps(row.details).decode(),
                )
                for row in page
            ]
            if before is None or len(rows) >= limit:
                break
    table(rows, ("AT", "ACTOR", "ACTION", "SUBJECT", "DETAILS"))
