"""The capability table: one row per model, from the objects the runtime itself obeys.

Law of this room: nothing is written twice. ``GET /api/capabilities``, ``studio capabilities`` and the
generated tables of the docs all print :func:`rows`.
"""

from __future__ import annotations

import os
import typing as t
from collections.abc import Iterator, Mapping, Sequence

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
    "usage_in_stream": "usageInStream",
    "notes": "notes",
    "source": "source",
}


class Catalogue(t.Protocol):
    """What the table is made of (:class:`plugins.registry.Registry` is one)."""

    families: dict[str, ProviderFamily]

    def capabilities(self, family: ProviderFamily, model: str) -> Capabilities:
        """What ``model`` can do."""

    def missing(self, family: ProviderFamily, environ: Mapping[str, str]) -> Exception | None:
        """What keeps ``family`` from being called, or None."""


def model_names(family: ProviderFamily) -> Sequence[str]:
    """The models of a closed family, or those an open one has heard of."""
    if family.models is None:
        return tuple(family.known)
    return tuple(family.models() if callable(family.models) else family.models)


def rows(
    registry: Catalogue,
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
    if family is None and model is not None and "/" in model:
        family, _, model = model.partition("/")
    found: list[dict[str, t.Any]] = []
    for each in registry.families.values():
        if family is None or each.id == family:
            found.extend(_family_rows(registry, each, model, environ))
    return found


def _family_rows(
    registry: Catalogue, family: ProviderFamily, model: str | None, environ: Mapping[str, str] | None
) -> Iterator[dict[str, t.Any]]:
    configured = environ is None or registry.missing(family, environ) is None
    for name in _names(family, model):
        row = describe(family, name, registry.capabilities(family, name))
        if environ is not None:
            row["configured"] = configured
        yield row


def _names(family: ProviderFamily, model: str | None) -> list[str]:
    listed = list(model_names(family))
    if family.models is None and not listed:
        listed = [ANY_MODEL]
    if model is None:
        return listed
    if model in listed or family.models is None:
        return [model]
    return []


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
        if field == "price" and value is not None:
            value = {"input": value[0], "output": value[1], "currency": "USD", "per": 1_000_000}
        row[column] = list(value) if isinstance(value, tuple) else value
    return row
