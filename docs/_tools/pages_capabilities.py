"""What models can do and how families are reached, as tables: a page of its own, and parts of others.

Law of this room: the rows are those of ``plugins.capabilities``, of the built-in plugins and the pinned model
registry only. Models that can do the same share a row, since thousands of rows tell a reader nothing.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Mapping, Sequence

from app.web import capability_words as words
from docs._tools.markdown import table
from docs._tools.pages_plugins import registry
from plugins import capabilities as facts
from plugins import model_map
from plugins.claims import registry_source
from plugins.connections import variable_prefix
from plugins.spec import ConnectionSpec, Embeddings, ProviderFamily, Setting
from plugins.wires import name_of

Row = Mapping[str, t.Any]

#: Names that a row of a table lists before it says how many more there are.
_NAMES = 8
_ORIGINS = {
    "closed": "all it has",
    "known": "those this version knows; others are asked for as written",
    "registry": "those of the model registry; others are asked for as written",
    "server": "what its server lists",
    "any": "any name; the server decides",
}


def _rows(family: str | None = None) -> list[dict[str, t.Any]]:
    return facts.rows(registry(), family, environ=None)


def _families() -> list[dict[str, t.Any]]:
    return sorted(facts.family_rows(registry()), key=lambda row: row["id"])


def _values(values: Iterable[str]) -> str:
    return ", ".join(values) or words.DASH


def _model(row: Row) -> str:
    return "…" if row["model"] == "*" else f"`{row['model']}`"


def _grouped(rows: Iterable[Row], *columns: str) -> list[list[Row]]:
    """Rows that are equal in ``columns``, together, in the order of their first."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(repr([row[column] for column in columns]), []).append(row)
    return list(groups.values())


def _named(group: Sequence[Row]) -> str:
    shown = ", ".join(_model(row) for row in group[:_NAMES])
    return shown + (f" and {len(group) - _NAMES} more" if len(group) > _NAMES else "")


def _span(values: Iterable[t.Any], shown: t.Callable[[t.Any], str]) -> str:
    """The least and the most of what is known."""
    known = sorted(value for value in values if value is not None)
    if not known:
        return words.DASH
    ends = dict.fromkeys((shown(known[0]), shown(known[-1])))
    return "–".join(ends)


def _prices(group: Sequence[Row], figure: str) -> str:
    return _span((row["price"][figure] for row in group if row["price"]), lambda value: f"{value:g}")


def _common(group: Sequence[Row], column: str) -> str:
    found = {row[column] for row in group}
    return str(found.pop()) if len(found) == 1 else ""


def page() -> str:
    """``docs/capabilities.md``."""
    families = _families()
    count = sum(row["models"] for row in families)
    servers = sum(not row["models"] for row in families)
    sections = [
        "# Capabilities",
        "What models can do and what of it Studio shows. The runtime, the 400 messages, `GET /api/capabilities`, the page "
        "`/capabilities` of a running server, `studio capabilities` and these tables read the same objects. Nothing is "
        "invented: what is not claimed here is not shown, and refused where it is asked for.",
        f"Sizes, prices and much else come from the {registry_source()}; what is exposed of thinking never does, it is each "
        f"family's own statement with its source. There are {count:,} models in {len(families)} families (for {servers} of them "
        "one row, `*`, stands for whatever their server has); here those that can "
        "do the same share a row. One model, with the source of each claim: `studio capabilities --model "
        "anthropic/claude-sonnet-4-5 --sources`, or the page.",
        _meanings(),
        "## Families",
        family_summary(),
    ]
    for row in families:
        sections += _family_section(row)
    return "\n\n".join(part for part in sections if part)


def _meanings() -> str:
    rows = [(column, f"`{value}`", meaning) for column, values in words.MEANINGS for value, meaning in values]
    return table(("Column", "Value", "Meaning"), rows)


def family_summary() -> str:
    """What the models of each family stream, taken together; on the page about the stream, too."""
    rows = [
        (
            f"`{row['id']}`",
            _values(row["thinking"]),
            _switched_on(row),
            _values(row["tools"]),
            _values(row["structuredOutput"]),
            _values(row["inputs"]),
            "yes" if row["usageInStream"] else "counted by Studio",
            f"{row['models']:,}" if row["models"] else "any",
        )
        for row in _families()
    ]
    head = (
        "Family",
        "Thinking",
        "Switched on by",
        "Live tools",
        "Structured output",
        "Inputs",
        "Usage",
        "Models",
    )
    return table(head, rows)


def _switched_on(row: Row) -> str:
    return words.DASH if row["thinking"] == ["none"] else _values(row["thinkingControl"])


def _family_section(family: Row) -> list[str]:
    can_differ = ("thinking", "thinkingControl", "tools", "structuredOutput", "inputs")
    rows = _rows(family["id"])
    lines = [
        (
            _named(group),
            group[0]["thinking"],
            _values(group[0]["thinkingControl"]) if group[0]["thinking"] != "none" else words.DASH,
            group[0]["tools"],
            group[0]["structuredOutput"],
            _values(group[0]["inputs"]),
            _span((row["contextWindow"] for row in group), words.short),
            f"{_prices(group, 'input')} / {_prices(group, 'output')}".replace("– / –", "–"),
            _common(group, "notes"),
        )
        for group in _grouped(rows, *can_differ)
    ]
    head = (
        "Models",
        "Thinking",
        "Levels",
        "Live tools",
        "Structured output",
        "Inputs",
        "Context",
        "USD per million in / out",
        "Notes",
    )
    sources = dict.fromkeys(row["source"] for row in rows if row["source"])
    wires = ", ".join(f"`{wire}`" for wire in family["wires"])
    about = f"{family['title']}. Models: {_ORIGINS[family['origin']]}. Wire: {wires}."
    return [
        f"### {family['id']}",
        about,
        table(head, lines),
        f"Sources: {'; '.join(sources)}." if sources else "",
    ]


def agent_models() -> str:
    """What an agent's settings may be, by model; for the page of block types."""
    can_differ = (
        "thinking",
        "thinkingControl",
        "tools",
        "forcedToolChoice",
        "forcedToolWithThinking",
        "structuredOutput",
        "inputs",
    )
    lines = []
    for family in _families():
        for group in _grouped(_rows(family["id"]), *can_differ):
            row = group[0]
            lines.append(
                (
                    f"`{family['id']}/` " + _named(group),
                    _thinking(row),
                    row["tools"],
                    _forced(row),
                    "yes" if row["structuredOutput"] != "none" else "no",
                    _values(kind for kind in row["inputs"] if kind != "text"),
                )
            )
    head = (
        "Model",
        "`thinking`",
        "`tools`",
        "Forced `tool_choice`",
        "`response_format`",
        "`files` beside text",
    )
    return table(head, lines)


def _thinking(row: Row) -> str:
    if row["thinking"] == "none":
        return "does not think"
    if row["thinking"] == "as_sent":
        return "any level, as a wish"
    levels = dict.fromkeys((*row["thinkingControl"], "auto"))
    return ", ".join(levels).replace("budget", "a token budget")


def _forced(row: Row) -> str:
    if row["tools"] == "none":
        return words.DASH
    if not row["forcedToolChoice"]:
        return "no"
    return "yes" if row["forcedToolWithThinking"] or row["thinking"] == "none" else "not while it thinks"


def connections() -> str:
    """How each family is reached: variables, wire, where its models are listed; for the page about vendors."""
    made = registry()
    rows = []
    for row in _families():
        family = made.families[row["id"]]
        spec = family.connection
        prefix = variable_prefix(family.id)
        rows.append(
            (
                f"`{family.id}`",
                family.title,
                _keys(spec, prefix),
                _address(spec, prefix),
                "; ".join(_setting(setting, spec, prefix) for setting in spec.settings),
                ", ".join(f"`{name}`" for name in dict.fromkeys((*row["wires"], *family.other_wires))),
                _asked(family),
            )
        )
    head = ("Family", "Vendor", "Key", "Address", "Also", "Wires", "Asked for its models, at most")
    return table(head, rows)


def embeddings() -> str:
    """Which families make vectors, with what is known of their models; for the page about vendors."""
    made = registry()
    rows = []
    for name in made.embedders.families():
        family = made.families[name]
        stated = family.embeddings
        assert stated is not None
        named = stated.models if stated.models is not None else stated.known
        lines = [f"`{model}`{_embedding_price(family, stated, model)}" for model in named]
        rows.append(
            (
                f"`{family.id}`",
                ", ".join(lines) or "any",
                _texts(stated, named),
                f"`{name_of(stated.wire)}`",
                stated.source,
            )
        )
    return table(("Family", "Models, USD per million tokens", "Texts a call", "Wire", "Source"), rows)


def _embedding_price(family: ProviderFamily, stated: Embeddings, model: str) -> str:
    price = model_map.embedding_price(family.registry_prefix, stated.registry_providers, model)
    price = stated.price if price is None else price
    return "" if price is None else f" {price:.4g}"


def _texts(stated: Embeddings, named: Iterable[str]) -> str:
    size = stated.batch
    if not callable(size):
        return str(size)
    return ", ".join(str(each) for each in sorted({size(model) for model in named}))


def _asked(family: ProviderFamily) -> str:
    if family.list_models is None:
        return words.DASH
    minutes, seconds = divmod(int(family.list_ttl_s), 60)
    return f"every {seconds} s" if not minutes else "every minute" if minutes == 1 else f"every {minutes} min"


def _variables(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or words.DASH


def _keys(spec: ConnectionSpec, prefix: str) -> str:
    if spec.default_base == "":
        return words.DASH
    named = _variables(spec.key_vars or (f"{prefix}_API_KEY",))
    if spec.check is not None:
        return f"{named}, or as under Also"
    return named if spec.key_required else f"{named}, if it wants one"


def _address(spec: ConnectionSpec, prefix: str) -> str:
    if spec.default_base == "":
        return words.DASH
    default = spec.default_base
    if callable(
        default
    ):  # made of the settings: shown with their defaults, else their names, in their places
        default = default(
            {setting.name: setting.default or f"{{{setting.name}}}" for setting in spec.settings}
        )
    named = _variables(spec.base_vars or (f"{prefix}_API_BASE",))
    return named + (f", default `{default}`" if default else "")


def _setting(setting: Setting, spec: ConnectionSpec, prefix: str) -> str:
    names = setting.variables or (f"{prefix}_{setting.name.upper()}",)
    default = f", default `{setting.default}`" if setting.default else ""
    return f"{_variables(names)} ({setting.doc}{default}{_wish(setting, spec)})"


def _wish(setting: Setting, spec: ConnectionSpec) -> str:
    """Whether it may be left out; a part of the address only where the whole of it is given."""
    if setting.required or setting.default:
        return ""
    if isinstance(spec.default_base, str) and f"{{{setting.name}}}" in spec.default_base:
        return "; or the address"
    return ", if wanted" if spec.check is None else ", as needed"
