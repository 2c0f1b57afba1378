"""``studio key create | list | revoke``.

Law of this room: a key's text is printed once, when it is made, and nowhere else.
"""

from __future__ import annotations

import click

from app.cli.context import open_store, table
from app.clock import rfc3339

SCOPES = ("run", "read", "admin")


def parse_scopes(text: str) -> frozenset[str]:
    """Scopes from a comma list.

    :raises click.BadParameter: one of them is unknown, or there is none.
    """
    scopes = frozenset(part.strip() for part in text.split(",") if part.strip())
    unknown = sorted(scopes - set(SCOPES))
    if unknown or not scopes:
        raise click.BadParameter(
            f"unknown scope {', '.join(unknown) or 'nothing'}; there are {', '.join(SCOPES)}"
        )
    return scopes


@click.group()
def key() -> None:
    """Make and revoke API keys."""


@key.command()
@click.option("--name", required=True, help="What the key is for, shown in the list.")
@click.option(
    "--scopes", default="run", show_default=True, help="Comma list of run, read, admin (holds both)."
)
def create(name: str, scopes: str) -> None:
    """Make a key and print it, once."""
    wanted = parse_scopes(scopes)
    with open_store() as store:
        _, plaintext = store.keys.create(name, wanted)
    click.echo(plaintext)


@key.command(name="list")
def list_() -> None:
    """List keys, without their text."""
    with open_store() as store:
        rows = [
            (
                row.id,
                row.prefix,
                row.name,
                ",".join(sorted(row.scopes)),
                rfc3339(row.created_at),
                "live" if row.revoked_at is None else f"revoked {rfc3339(row.revoked_at)}",
            )
            for row in store.keys.list()
        ]
    table(rows, ("ID", "PREFIX", "NAME", "SCOPES", "CREATED", "STATE"))


@key.command()
@click.argument("id_or_prefix")
def revoke(id_or_prefix: str) -> None:
    """Make a key useless, at once and for good."""
    with open_store() as store:
        if store.keys.revoke(id_or_prefix) is None:
            raise click.UsageError(f"There is no live key '{id_or_prefix}'. See: studio key list")
