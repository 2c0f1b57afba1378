"""``studio plugins`` and ``studio capabilities``.

Law of this room: the same rows the API answers with, for people.
"""

from __future__ import annotations

import typing as t

import click

from app import encoding
from app.cli.context import load_plugins, settings, table
from app.web import capability_words as words
from app.web.capability_query import CHOICES, SORTS, Query, select

if t.TYPE_CHECKING:
    from plugins.registry import Registry


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
@click.option("--search", default="", help="Words that all occur in id, vendor or notes.")
@click.option("--thinking", type=click.Choice(CHOICES["thinking"]), help="What is shown of thinking.")
@click.option("--tools", type=click.Choice(CHOICES["tools"]), help="Live tools.")
@click.option("--structured", type=click.Choice(CHOICES["structured"]), help="Structured output.")
@click.option("--input", "input_", type=click.Choice(CHOICES["input"]), help="What it takes beside text.")
@click.option(
    "--sort", type=click.Choice([*SORTS, *(f"-{name}" for name in SORTS)]), help="- turns it round."
)
@click.option("--sources", is_flag=True, help="Say where each claim comes from.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array.")
def capabilities(
    family: str | None, model: str | None, sources: bool, as_json: bool, **filters: str | None
) -> None:
    """Say what each model can do and what of its thinking and tools is shown live.

    Servers that need no key (Ollama, vLLM and the like) are asked what they have, and so are configured vendors
    whose models nobody else can name.
    """
    from plugins import capabilities as facts

    registry = load_plugins()
    if family is not None and family not in registry.families:
        known = ", ".join(registry.families)
        raise click.BadParameter(f"no family '{family}'; there are {known}", param_hint="--family")
    if model is None and settings().list_models == "on":
        _ask_servers(registry, family)
    wanted: dict[str, t.Any] = {name.rstrip("_"): value for name, value in filters.items() if value}
    rows = select(facts.rows(registry, family, model), Query(q=wanted.pop("search", ""), **wanted))
    if as_json:
        click.echo(encoding.dumps(rows))
        return
    table([_cells(row) for row in rows], _HEAD, head_always=True)
    if sources:
        for row in rows:
            click.echo(f"\n{row['id']}")
            for source, claims in words.sources(row):
                click.echo(f"  {source}: {claims}")


def _ask_servers(registry: Registry, family: str | None) -> None:
    """Only those whose list makes rows; what kept one from answering is said aside."""
    from app.engine import model_lists

    asked = [
        each.id
        for each in registry.families.values()
        if family in (None, each.id) and registry.shows_its_list(each)
    ]
    model_lists.refresh_now(registry, asked)
    for name in asked:
        if family is not None and (reason := registry.listings.reason(name)) is not None:
            click.echo(f"{name} did not say what it has: {reason}", err=True)


_HEAD = (
    "MODEL",
    "THINKING",
    "LEVELS",
    "TOOLS",
    "STRUCTURED",
    "INPUTS",
    "CONTEXT",
    "OUTPUT",
    "USD PER MILLION",
    "CONFIGURED",
    "NOTES",
)


def _cells(row: t.Mapping[str, t.Any]) -> tuple[t.Any, ...]:
    return (
        row["id"],
        row["thinking"],
        ",".join(row["thinkingControl"]) or words.DASH,
        row["tools"],
        row["structuredOutput"],
        ",".join(row["inputs"]),
        row["contextWindow"] or words.DASH,
        row["maxOutput"] or words.DASH,
        words.price(row["price"]),
        words.yes(row["configured"]),
        row["notes"],
    )
