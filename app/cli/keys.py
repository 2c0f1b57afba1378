"""``studio key create | list | revoke``.

Law of this room: a key's text is printed once, when it is made, and nowhere else.
"""

from __future__ import annotations

import typing as t

import click

from app.cli.context import CLI, note_of, on_one_line, open_store, table
from app.clock import SystemClock, rfc3339

if t.TYPE_CHECKING:
    from app.store import KeyRow
    from app.store.keys import Revoked

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


def _one_line(context: click.Context, option: click.Parameter, name: str) -> str:
    if not name or on_one_line(name) != name:
        raise click.BadParameter("one line of text, without control characters")
    return name


@key.command()
@click.option("--name", required=True, callback=_one_line, help="What the key is for, shown in the list.")
@click.option(
    "--scopes", default="run", show_default=True, help="Comma list of run, read, admin (holds both)."
)
@click.option("--days", type=click.IntRange(1, 36_500), help="How long it is valid; default: for ever.")
def create(name: str, scopes: str, days: int | None) -> None:
    """Make a key and print it, once."""
    wanted = parse_scopes(scopes)
    end = None if days is None else SystemClock().now_ms() + days * 86_400_000
    with open_store() as store:
        details = {"name": name, "scopes": sorted(wanted)}
        note = note_of(store, lambda row: ("key.create", f"key:{row.id}", details))
        _, plaintext = store.keys.create(name, wanted, created_by=CLI, expires_at=end, note=note)
    click.echo(plaintext)


@key.command(name="list")
def list_() -> None:
    """List keys, without their text. Last use lags behind by up to a minute."""
    now = SystemClock().now_ms()
    with open_store() as store:
        rows = [
            (
                row.id,
                row.prefix,
                row.name,
                ",".join(sorted(row.scopes)),
                rfc3339(row.created_at),
                "" if row.last_used_at is None else rfc3339(row.last_used_at),
                _state(row, now),
            )
            for row in store.keys.list()
        ]
    table(rows, ("ID", "PREFIX", "NAME", "SCOPES", "CREATED", "LAST USED", "STATE"))


def _state(row: KeyRow, now_ms: int) -> str:
    if row.revoked_at is not None:
        return f"revoked {rfc3339(row.revoked_at)}"
    if row.expires_at is None:
        return "live"
    return f"{'expired' if row.expired(now_ms) else 'live until'} {rfc3339(row.expires_at)}"


@key.command()
@click.argument("id_or_prefix")
def revoke(id_or_prefix: str) -> None:
    """Make a key useless, at once and for good."""
    with open_store() as store:
        if store.keys.revoke(id_or_prefix, note_of(store, _told_revoke)) is None:
            raise click.UsageError(f"There is no live key '{id_or_prefix}'. See: studio key list")


def _told_revoke(revoked: Revoked | None) -> tuple[t.Any, ...] | None:
    if revoked is None or not revoked.is_new:
        return None
    return "key.revoke", f"key:{revoked.row.id}", {"name": revoked.row.name}
