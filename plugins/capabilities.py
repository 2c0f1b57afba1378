"""The capability table: one row per model and one per family, from the objects the runtime itself obeys.

Law of this room: nothing is written twice. ``GET /api/capabilities``, the page ``/capabilities``, ``studio
capabilities`` and the generated tables of the docs all print :func:`rows` and :func:`family_rows`.
"""

from __future__ import annotations

import os
import typing as t
from collections.abc import Iterable, Iterator, Mapping, Sequence

from plugins.spec.families import Capabilities, ProviderFamily

#: Model column of a family whose models nobody can list.
ANY_MODEL = "*"

#: JSON names of the columns, by field of :class:`Capabilities`; camelCase as in the rest of the API.
COLUMNS: Mapping[str, str] = {
    "thinking": "thinking",
    "thinking_control": "thinkingControl",
    "thinking_signed": "thinkingSigned",
    "tools": "tools",
    "forced_tool_choice": "forcedToolChoice",
    "forced_tool_with_thinking": "forcedToolWithThinking",
    "structured_output": "structuredOutput",
    "inputs": "inputs",
    "context_window": "contextWindow",
    "max_output": "maxOutput",
    "price": "price",
    "cache_price": "cachePrice",
    "usage_in_stream": "usageInStream",
    "notes": "notes",
    "source": "source",
    "sources": "sources",
}

#: Every value of a column that has few, in the order people read them.
VALUES: Mapping[str, tuple[str, ...]] = {
    "thinking": ("none", "hidden", "summary", "full", "as_sent"),
    "thinking_control": ("none", "minimal", "low", "medium", "high", "xhigh", "max", "auto", "budget"),
    "tools": ("none", "serial", "parallel"),
    "structured_output": ("none", "tool", "native"),
    "inputs": ("text", "image", "pdf", "audio", "video"),
}

#: Names of the two figures of a price.
_FIGURES = {"price": ("input", "output"), "cache_price": ("read", "write")}

#: Where the models of a family's rows come from.
Origin = t.Literal["closed", "known", "registry", "server", "any"]


class Models(t.Protocol):
    """What the table is made of (:class:`plugins.registry.Registry` is one)."""

    families: dict[str, ProviderFamily]

    def capabilities(self, family: ProviderFamily, model: str) -> Capabilities:
        """What ``model`` can do."""

    def models(self, family: ProviderFamily) -> tuple[Sequence[str], Origin]:
        """The models ``family`` is shown with, and who named them."""

    def wire_names(self, family: ProviderFamily, models: Iterable[str]) -> tuple[str, ...]:
        """The wires by which ``models`` are called, the family's own first."""

    def missing(self, family: ProviderFamily, environ: Mapping[str, str]) -> Exception | None:
        """What keeps ``family`` from being called, or None."""


def rows(
    registry: Models,
    family: str | None = None,
    model: str | None = None,
    environ: Mapping[str, str] | None = os.environ,
) -> list[dict[str, t.Any]]:
    """One row per model that can be listed, and one with model ``*`` for a family whose models cannot.

    :param family: only this family's rows.
    :param model: only this model's row; of an open family any name has one. Without ``family`` it may be a whole
        ``<family>/<model>`` id.
    :param environ: where ``configured`` looks; None leaves that member out (for generated pages).
    :returns: JSON-able mappings: ``id, family, title, model``, the columns of :data:`COLUMNS` (None where unknown)
        and ``configured``.
    """
    return list(each_row(registry, family, model, environ))


def each_row(
    registry: Models,
    family: str | None = None,
    model: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> Iterator[dict[str, t.Any]]:
    """:func:`rows`, one by one."""
    if family is None and model is not None and "/" in model:
        family, _, model = model.partition("/")
    for each in tuple(registry.families.values()):
        if family is None or each.id == family:
            yield from _rows_of(registry, each, model, environ)


def _rows_of(
    registry: Models, family: ProviderFamily, model: str | None, environ: Mapping[str, str] | None
) -> Iterator[dict[str, t.Any]]:
    configured = environ is None or registry.missing(family, environ) is None
    for name in _names(registry, family, model):
        row = describe(family, name, registry.capabilities(family, name))
        if environ is not None:
            row["configured"] = configured
        yield row


def _names(registry: Models, family: ProviderFamily, model: str | None) -> Sequence[str]:
    listed, _ = registry.models(family)
    if model is None:
        return listed or ((ANY_MODEL,) if family.models is None else ())
    if not model or not model.isprintable():
        return ()
    return (model,) if family.models is None or model in listed else ()


def describe(family: ProviderFamily, model: str, capabilities: Capabilities) -> dict[str, t.Any]:
    """The row of one model."""
    row: dict[str, t.Any] = {
        "id": f"{family.id}/{model}",
        "family": family.id,
        "title": family.title,
        "model": model,
    }
    for field, column in COLUMNS.items():
        value = getattr(capabilities, field)
        if field in _FIGURES:
            value = _price(value, *_FIGURES[field])
        elif field == "sources":
            value = {COLUMNS.get(claim, claim): source for claim, source in value.items()}
        row[column] = list(value) if isinstance(value, tuple) else value
    return row


def _price(value: tuple[float, float] | None, first: str, second: str) -> dict[str, t.Any] | None:
    if value is None:
        return None
    return {first: value[0], second: value[1], "currency": "USD", "per": 1_000_000}


def source_of(row: Mapping[str, t.Any], column: str) -> str:
    """Where the claim in ``column`` of a row comes from; empty when nobody says."""
    return str(row["sources"].get(column) or row["source"])


def family_rows(registry: Models, family: str | None = None) -> list[dict[str, t.Any]]:
    """One row per family: what holds of its models taken together.

    :returns: JSON-able mappings: ``id, title, wires, models`` (how many are listed; 0: nobody can list them),
        ``origin`` (who named them: ``closed``, ``known``, ``registry``, ``server``, ``any``), then as lists of the
        values among its models ``thinking, thinkingControl, tools, structuredOutput, inputs``, then
        ``usageInStream`` (of all of them) and ``notes`` (what is said of every one of them, else empty).
    """
    return [_family_row(registry, each) for each in registry.families.values() if family in (None, each.id)]


def _family_row(registry: Models, family: ProviderFamily) -> dict[str, t.Any]:
    listed, origin = registry.models(family)
    names = listed or (ANY_MODEL,)
    claims = [registry.capabilities(family, name) for name in names]
    row: dict[str, t.Any] = {
        "id": family.id,
        "title": family.title,
        "wires": list(registry.wire_names(family, names)),
        "models": len(listed),
        "origin": origin,
    }
    for field in ("thinking", "thinking_control", "tools", "structured_output", "inputs"):
        row[COLUMNS[field]] = _values(claims, field)
    row["usageInStream"] = all(claim.usage_in_stream for claim in claims)
    notes = {claim.notes for claim in claims}
    row["notes"] = notes.pop() if len(notes) == 1 else ""
    return row


def _values(claims: Iterable[Capabilities], field: str) -> list[str]:
    """The values of ``field`` that occur, in the order of :data:`VALUES`."""
    found: set[str] = set()
    for claim in claims:
        value = getattr(claim, field)
        found.update(value if isinstance(value, tuple) else (value,))
    order = VALUES[field]
    return sorted(found, key=lambda value: (order.index(value) if value in order else len(order), value))


def switched_on(control: Sequence[str]) -> str:
    """How thinking is switched on, in words.

    :param control: the values of ``thinkingControl``.
    """
    levels = [level for level in control if level not in ("none", "auto", "budget")]
    parts = []
    if levels:
        parts.append(", ".join(levels))
    elif "auto" in control:
        parts.append("auto")
    if "budget" in control:
        parts.append("a token budget")
    if not parts:
        return "cannot be chosen" if "none" not in control else "on unless none"
    return " or ".join(parts) + (
        "; none switches it off" if "none" in control else "; cannot be switched off"
    )
