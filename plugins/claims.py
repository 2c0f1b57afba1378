"""Makes the capabilities of one model from what a family states and what the model registry knows.

Law of this room: every claim has a source. What is exposed of thinking is always the family's own statement; size,
price, inputs, tools and structured output come from the registry's row unless the family states them; what neither
knows is the family's default and says so.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from plugins import model_map
from plugins.model_map import number
from plugins.spec.families import Capabilities
from plugins.spec.rows import Row

#: Source of a claim about a model the registry does not list.
DEFAULT_SOURCE = "default of the family: the model is not in the registry"


def registry_source() -> str:
    """How the registry's row is named as a source."""
    return f"model registry (litellm {model_map.version()})"


def claims(
    row: Row | None,
    *,
    source: str,
    stated: Mapping[str, t.Any],
    listed: Mapping[str, t.Any] | None = None,
    otherwise: Mapping[str, t.Any] | None = None,
) -> Capabilities:
    """The capabilities of one model.

    :param row: the registry's, as handed to the family's rule.
    :param source: where ``stated`` comes from, e.g. ``docs.x.ai: reasoning``.
    :param stated: fields of :class:`Capabilities` the family vouches for; they win over the row.
    :param listed: fields of ``source`` that give way to the row, whose size and price are those of the host.
    :param otherwise: fields used where nobody says anything; the family's default.
    """
    fields: dict[str, t.Any] = dict(stated)
    sources: dict[str, str] = {}
    if row is not None:
        _fill(fields, sources, _from_row(row), registry_source())
    fields = {**(listed or {}), **fields}
    _fill(fields, sources, otherwise or {}, "default of the family" if row is not None else DEFAULT_SOURCE)
    if row is None and not fields.get("notes"):
        fields["notes"] = "Not in the model registry: the family's default."
    return Capabilities(**fields, source=source, sources=sources)


def _fill(fields: dict[str, t.Any], sources: dict[str, str], found: Mapping[str, t.Any], source: str) -> None:
    for name, value in found.items():
        if name not in fields:
            fields[name] = value
            sources[name] = source


def _from_row(row: Row) -> dict[str, t.Any]:
    """What a row says; a flag it does not carry says nothing."""
    found: dict[str, t.Any] = {}
    if isinstance(row.supports_function_calling, bool):
        serial = row.supports_parallel_function_calling is False
        found["tools"] = "none" if not row.supports_function_calling else "serial" if serial else "parallel"
    if isinstance(row.supports_tool_choice, bool):
        found["forced_tool_choice"] = row.supports_tool_choice
    if isinstance(row.supports_response_schema, bool):
        found["structured_output"] = "native" if row.supports_response_schema else "none"
    inputs = ["text"]
    if row.supports_vision is True:
        inputs.append("image")
    if row.supports_pdf_input is True:
        inputs.append("pdf")
    if isinstance(row.supports_vision, bool) or isinstance(row.supports_pdf_input, bool):
        found["inputs"] = tuple(inputs)
    for name, value in (("context_window", row.max_input_tokens), ("max_output", row.max_output_tokens)):
        if (tokens := number(value)) is not None and tokens > 0:
            found[name] = int(tokens)
    _price(row, found)
    return found


def _price(row: Row, found: dict[str, t.Any]) -> None:
    """USD per token in the map, per million in a claim. Both zero is not "free": the map writes it for unknown too."""
    price = number(row.input_cost_per_token), number(row.output_cost_per_token)
    if price[0] is None or price[1] is None or price == (0.0, 0.0):
        return
    found["price"] = (_per_million(price[0]), _per_million(price[1]))
    read, write = number(row.cache_read_input_token_cost), number(row.cache_creation_input_token_cost)
    if read is not None:
        found["cache_price"] = (_per_million(read), _per_million(price[0] if write is None else write))


def _per_million(price: float) -> float:
    """Rounded, because 3e-07 times a million is not 0.3."""
    return round(price * 1e6, 6)
