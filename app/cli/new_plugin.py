"""``studio new-plugin``.

Law of this room: it writes into one new folder and changes nothing else.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click

from app.cli.context import load_plugins


@click.command("new-plugin")
@click.argument("name")
@click.option(
    "--into",
    type=click.Path(path_type=Path),
    default=Path(),
    help="Folder to write it into; default: the current one.",
)
def new_plugin(name: str, into: Path) -> int:
    """Write the beginnings of a plugin: the folder studio-NAME.

    It is a package of its own with a provider family called NAME, recorded answers for the conformance kit, a tool and
    tests, which pass as they are. NAME is lower-case letters, digits and single hyphens. A folder that exists is left
    alone.

    Ends with 0 when it was written, 2 when the name or the folder cannot be used.
    """
    from plugins.scaffold import Refused, scaffold

    try:
        folder = scaffold(name, into, frozenset(load_plugins().families))
    except Refused as refused:
        click.echo(f"{refused}", err=True)
        return 2
    click.echo(f"{folder}\n")
    click.echo("Install it beside Studio and look at it; a server that is running has to be restarted:\n")
    click.echo(f"  {_own('python')} -m pip install -e {shlex.quote(str(folder))}")
    click.echo(f"  {_own('studio')} plugins")
    click.echo(f"  {_own('studio')} conformance --plugin {name}")
    return 0


def _own(program: str) -> str:
    """``program`` of the environment Studio is in, as short as it can be written from here."""
    folder = Path(sys.executable).parent
    short = folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder
    return shlex.quote(str(short / program))
