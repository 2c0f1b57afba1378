"""``studio plugins`` and ``studio capabilities``.

Law of this room: the same rows the API answers with, for people.
"""

from __future__ import annotations

import click

from app import encoding
from app.cli.context import load_plugins, table


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array.")
def plugins(as_json: bool) -> None:
    """List plugins, what they contribute, and what is wrong with them."""
    rows = load_plugins().manager.report()
    if as_json:
        click.echo(encoding.dumps(rows))
        return
    table(
        [
            (
                row.name,
                row.version,
                "; ".join(f"{hook}: {', '.join(ids)}" for hook, ids in row.contributes.items()),
                row.error,
            )
            for row in rows
        ],
        ("PLUGIN", "VERSION", "CONTRIBUTES", "ERROR"),
    )


@click.command()
@click.option("--family", help="Only this family's models.")
@click.option("--model", help="Only this model; with --family any name of an open family.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array.")
def capabilities(family: str | None, model: str | None, as_json: bool) -> None:
    """Say what each model can do and what of its thinking and tools is shown live."""
    from plugins.capabilities import rows as capability_rows

    registry = load_plugins()
    if family is not None and family not in registry.families:
        known = ", ".join(registry.families)
        raise click.BadParameter(f"no family '{family}'; there are {known}", param_hint="--family")
    rows = capability_rows(registry, family, model)
    if as_json:
        click.echo(encoding.dumps(rows))
        return
    table(
        [
            (
                row["id"],
                row["thinking"],
                row["tools"],
                row["structuredOutput"],
                row["contextWindow"],
                "yes" if row["configured"] else "no",
                row["notes"],
            )
            for row in rows
        ],
        ("MODEL", "THINKING", "TOOLS", "STRUCTURED", "CONTEXT", "CONFIGURED", "NOTES"),
    )
