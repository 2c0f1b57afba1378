"""``studio owner link | password``.

Law of this room: whoever runs these commands has the database, and with it everything; they ask for no password. A
password comes in by standard input or a prompt, never as an argument (other users of the host see those).
"""

from __future__ import annotations

import sys

import click

from app.cli.context import note, open_store, settings
from app.clock import rfc3339
from app.config import Settings
from app.errors import Problem, ValidationFailed


@click.group()
def owner() -> None:
    """The workspace owner, who signs in to the web pages."""


@owner.command()
def link() -> None:
    """Print a link that sets the owner's password, once, within a day; those made before end."""
    chosen = settings()
    with open_store() as store:
        token, until = store.owner.new_link(note(store, "owner.link", "owner:owner"))
    click.echo(setup_link(chosen, chosen.port, token))
    click.echo(f"It works once, until {rfc3339(until)}.", err=True)


@owner.command()
def password() -> None:
    """Set the owner's password, prompted for or read from a pipe. Sessions that are open end."""
    from app.web.passwords import hashed, problem

    given = _given()
    if wrong := problem(given):
        raise ValidationFailed([Problem("password", wrong)])
    with open_store() as store:
        store.owner.set_password(hashed(given), note=note(store, "owner.password", "owner:owner"))
    click.echo("The password was set. Sign in at /login", err=True)


def _given() -> str:
    if sys.stdin.isatty():
        return str(click.prompt("New password", hide_input=True, confirmation_prompt="The same once more"))
    return sys.stdin.readline().rstrip("\r\n")


def setup_link(chosen: Settings, port: int, token: str) -> str:
    """The address of the page that sets the password: under ``STUDIO_PUBLIC_URL``, else where the server listens; of a
    server whose port is not known, the way alone.
    """
    here = chosen.public_url.rstrip("/") or (base(chosen.host, port) if port else "")
    return f"{here}/setup/{token}"


def base(host: str, port: int) -> str:
    """Where this computer reaches the server."""
    host = "127.0.0.1" if host in ("0.0.0.0", "::", "") else host
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
