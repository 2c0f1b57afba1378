"""Pages made from modules: configuration, events and their schemas, errors, hooks, the command line.

Law of this room: read what the program itself reads, never the source text.
"""

from __future__ import annotations

import inspect
import json
import typing as t

import click

from docs._tools.markdown import annotation, code, prose, table


def configuration() -> str:
    """Every variable of ``app.config.Settings``."""
    from app import config

    groups: dict[str, list[tuple[str, str, str, str]]] = {}
    for item in config.describe():
        row = (f"`{item.variable}`", item.doc, item.kind, f"`{item.default}`" if item.default else "")
        groups.setdefault(item.group, []).append(row)
    heads = ("Variable", "Meaning", "Value", "Default")
    reserved = ", ".join(f"`{name}`" for name in sorted(config.RESERVED))
    return "\n\n".join(
        [
            "# Configuration",
            "Everything is an environment variable, read once at start. A name that starts with `STUDIO_` and means "
            "nothing is reported at start with the nearest one that does; a value that cannot be used stops the start "
            "and is named with its cure, all of them at once.",
            *(part for title, rows in groups.items() for part in (f"## {title}", table(heads, rows))),
            "## Elsewhere",
            f"{reserved} are for clients (`studio run`) and are not read by the server.",
            "Addresses and keys of model vendors are read per request; see [Models and vendors](../providers.md).",
        ]
    )


def _event_section(kind: type, level: str = "###") -> str:
    fields = t.cast(t.Any, kind).__struct_fields__
    hints = _annotations(kind)
    defaults = t.cast(t.Any, kind).__struct_defaults__
    first_default = len(fields) - len(defaults)
    rows = [
        (
            f"`{name}`",
            f"`{annotation(hints.get(name, ''))}`",
            f"`{defaults[index - first_default]!r}`" if index >= first_default else "",
        )
        for index, name in enumerate(fields)
    ]
    return "\n\n".join(
        part
        for part in (
            f"{level} {kind.__name__}",
            prose(kind.__doc__),
            table(("Field", "Type", "Default"), rows),
        )
        if part
    )


def _annotations(kind: type) -> dict[str, t.Any]:
    found: dict[str, t.Any] = {}
    for base in reversed(kind.__mro__):
        found.update(inspect.get_annotations(base))
    return found


def _subclasses(base: type, *modules: t.Any) -> list[type]:
    """The classes under ``base`` that these modules define, in order of definition."""
    return [
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, base) and value.__module__ == module.__name__
    ]


def events() -> str:
    """Run events and model events."""
    from app import events as run_events
    from app.events import agents, blocks, composites, ends, people
    from providers import spec

    bases = (run_events.RunEvent, run_events.Terminal, spec.ModelEvent)
    told = _subclasses(run_events.RunEvent, blocks, agents, composites, people, ends)
    run = [kind for kind in told if kind not in bases]
    model = [kind for kind in _subclasses(spec.ModelEvent, spec) if kind not in bases]
    return "\n\n".join(
        [
            "# Events",
            "What a run says inside Studio. Clients never see these objects: each surface is a projection of them "
            "(for agent events see [Consuming the stream](../consuming-the-stream.md)).",
            "## Run events",
            prose(run_events.__doc__),
            _event_section(run_events.Envelope),
            *(_event_section(kind) for kind in run),
            "## Model events",
            "What a wire says of one model call.",
            *(_event_section(kind) for kind in model),
        ]
    )


def event_schema(surface: str) -> str:
    """The JSON Schema of a surface's frames, as ``/api/schemas/{surface}`` gives it, for people to read."""
    from app.streams.schemas import SURFACES

    return json.dumps(SURFACES[surface](), indent=2, ensure_ascii=False)


def errors() -> str:
    """The exception tree."""
    from app import errors as module

    kinds = [
        value for value in vars(module).values() if isinstance(value, type) and issubclass(value, Exception)
    ]
    first, _, tree = (module.__doc__ or "").partition("::\n")
    drawing, _, law = tree.partition("Law of this room:")
    return "\n\n".join(
        [
            "# Exceptions",
            prose(first),
            code(inspect.cleandoc(drawing)),
            prose("Law of this room:" + law),
            *(f"## {kind.__name__}\n\n{prose(kind.__doc__)}" for kind in kinds),
        ]
    )


def hooks() -> str:
    """Every hook with its signature."""
    from plugins import hookspecs

    specs = [
        value
        for value in vars(hookspecs).values()
        if inspect.isfunction(value) and hasattr(value, f"{hookspecs.PROJECT}_spec")
    ]
    sections = [
        f"## {spec.__name__}\n\n{code(f'def {spec.__name__}{_signature(spec)}: ...', 'python')}\n\n{prose(spec.__doc__)}"
        for spec in specs
    ]
    return "\n\n".join(["# Hooks", prose(hookspecs.__doc__), *sections])


def _signature(function: t.Callable[..., t.Any]) -> str:
    return str(inspect.signature(function)).replace("'", "")


def command_line() -> str:
    """``--help`` of every command."""
    from app.cli.main import cli

    sections = [
        "# Command line",
        "`studio` is in the environment's `bin` folder: `.venv/bin/studio`. Exit status: 0 done or completed, 1 failed, "
        "2 bad input, 130 interrupted.",
    ]
    return "\n\n".join([*sections, *_commands(cli, "studio", None)])


def _commands(command: click.Command, name: str, parent: click.Context | None) -> t.Iterator[str]:
    context = click.Context(command, info_name=name.rsplit(" ", 1)[-1], parent=parent, terminal_width=100)
    context.max_content_width = 100
    yield f"## {name}\n\n{code(command.get_help(context))}"
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            found = command.get_command(context, child)
            if found is not None and not found.hidden:
                yield from _commands(found, f"{name} {child}", context)
