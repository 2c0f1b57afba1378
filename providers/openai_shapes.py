"""What OpenAI's two protocols have in common: when a schema may be strict, and which effort a level stands for.

Law of this room: values in, values out. Both request builders use it, and neither knows the other.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

#: Budgets up to which an effort stands for them, in tokens; more is ``high``.
_BUDGETS = ((1024, "minimal"), (4096, "low"), (16384, "medium"))
#: Levels without a word of the vendor's; None: nothing is sent and its own default stands.
_LEVELS: dict[str, str | None] = {"auto": None, "max": "xhigh"}


def effort_of(level: str | int, levels: Mapping[str, str | None] | None) -> str | None:
    """The vendor's word for a thinking level or a token budget; None when nothing is to be sent.

    :param levels: a family's ``levels`` switch, laid over the protocol's own.
    """
    if isinstance(level, int):
        level = next((name for budget, name in _BUDGETS if level <= budget), "high")
    return {**_LEVELS, **(levels or {})}.get(level, level)


def may_be_strict(schema: t.Any) -> bool:
    """Whether a JSON Schema keeps the rules of strict mode: closed objects, every member required."""
    if isinstance(schema, list):
        return all(map(may_be_strict, schema))
    if not isinstance(schema, Mapping):
        return True
    properties = schema.get("properties")
    if schema.get("type") == "object" or isinstance(properties, Mapping):
        names = set(properties) if isinstance(properties, Mapping) else set()
        if schema.get("additionalProperties") is not False or names != set(schema.get("required") or ()):
            return False
    return all(may_be_strict(value) for value in schema.values())
