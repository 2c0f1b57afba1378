"""``studio conformance``.

Law of this room: the kit decides; this command finds the families and prints what it said.
"""

from __future__ import annotations

import typing as t
from pathlib import Path

import click

from app.cli.context import load_plugins

if t.TYPE_CHECKING:
    from plugins.manager import PluginReport
    from plugins.registry import Registry
    from plugins.spec import ProviderFamily


@click.command()
@click.option("--plugin", "plugin", required=True, help="Name of the plugin, as studio plugins lists it.")
@click.option("--family", help="Only this family of the plugin.")
@click.option("--model", help="Ask this model, whatever the recordings name.")
@click.option(
    "--recordings",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of recordings; default: the one each family names.",
)
def conformance(plugin: str, family: str | None, model: str | None, recordings: Path | None) -> int:
    """Hold a plugin's provider families against the conformance kit.

    Every scenario (text, thinking, tool, parallel, no-arguments, error, cut, stall, cancel, replay) is played from the
    family's own recorded bytes, over a loopback socket, through its real wire, connection and authentication; of a
    family that claims embeddings, also what is recorded as embedding. The
    capabilities that were shown are printed beside those the family claims; a difference fails, both ways.

    Ends with 0 when all conform, 1 when one does not or the plugin has an error, 2 when there is nothing to check.
    """
    from plugins import conformance as kit

    registry = load_plugins()
    row = _row(registry, plugin)
    if row.error:
        click.echo(f"{plugin}: {row.error}", err=True)
    verdicts = [
        verdict
        for each in _families(registry, row, family)
        for verdict in kit.check(each, recordings, model=model)
    ]
    click.echo(kit.render(verdicts))
    return 0 if not row.error and all(verdict.ok for verdict in verdicts) else 1


def _row(registry: Registry, plugin: str) -> PluginReport:
    rows = {row.name: row for row in registry.manager.report()}
    if plugin not in rows:
        raise click.BadParameter(f"no plugin '{plugin}'; there are {', '.join(rows)}", param_hint="--plugin")
    return rows[plugin]


def _families(registry: Registry, row: PluginReport, family: str | None) -> list[ProviderFamily]:
    from plugins.spec import ProviderFamily

    plugin = row.name
    found = row.contributes.get("provider_families", ())
    if family is not None and family not in found:
        there = f"; it has {', '.join(found)}" if found else ""
        raise click.BadParameter(f"no family '{family}' in plugin '{plugin}'{there}", param_hint="--family")
    if not found:
        raise click.BadParameter(f"plugin '{plugin}' has no provider family in use", param_hint="--plugin")
    # As the plugin gives them: a server holds other people's families, and the kit has to see what it would hide.
    given = [
        each
        for owner, each in registry.manager.collect("provider_families")
        if owner == plugin and isinstance(each, ProviderFamily)
    ]
    return [each for each in given if each.id in found and family in (None, each.id)]
