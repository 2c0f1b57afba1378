"""``studio secret set | list | remove | rotate``.

Law of this room: a value comes in by standard input or a prompt, never as an argument (other users of the host see
those), and goes out nowhere.
"""

from __future__ import annotations

import sys

import click

from app.cli.context import note, note_of, open_store, table
from app.clock import rfc3339
from app.errors import ValidationFailed


@click.group()
def secret() -> None:
    """Keep credentials that workflows use by name, as {{ secrets.NAME }} in headers."""


@secret.command(name="set")
@click.argument("name")
def set_(name: str) -> None:
    """Store a secret under NAME, in place of the one that is there. The value is prompted for, or read from a pipe."""
    from app.workflows.secret_use import problems

    value = _value()
    if found := problems(name, value):
        raise ValidationFailed(found)
    with open_store() as store:
        tell = note_of(store, lambda new: ("secret.set", f"secret:{name}", {"new": new}))
        new = store.secrets.set(name, value, tell)
    click.echo("stored" if new else "replaced", err=True)


@secret.command(name="list")
def list_() -> None:
    """List secrets, without their values."""
    with open_store() as store:
        rows = [(row.name, rfc3339(row.created_at), rfc3339(row.updated_at)) for row in store.secrets.list()]
    table(rows, ("NAME", "CREATED", "CHANGED"))


@secret.command()
@click.argument("name")
def remove(name: str) -> None:
    """Remove a secret. Workflows that use it do not run until it is stored again."""
    with open_store() as store:
        if not store.secrets.remove(name, note(store, "secret.remove", f"secret:{name}")):
            raise click.UsageError(f"There is no secret '{name}'. See: studio secret list")


@secret.command()
def rotate() -> None:
    """Encrypt every secret anew with the first key of STUDIO_SECRETS_KEY; then the others can be dropped."""
    with open_store() as store:
        tell = note_of(store, lambda count: ("secret.rotate", "secret:*", {"count": count}))
        count = store.secrets.rotate(tell)
    click.echo(f"{count} encrypted with the first key", err=True)


def _value() -> str:
    if sys.stdin.isatty():
        return str(click.prompt("Value", hide_input=True, confirmation_prompt=True))
    return sys.stdin.read().rstrip("\r\n")
