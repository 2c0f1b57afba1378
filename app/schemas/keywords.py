"""Keywords of JSON Schema that cost what the value is long, and no more.

Law of this room: a value comes from a model or a caller, and is judged while every other run of the worker waits. The
library compares each item with each other one, and tries a pattern by going back; here neither happens.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

from app.schemas import patterns as regex

Keyword = Callable[[t.Any, t.Any, t.Any, t.Any], Iterator[t.Any]]


def keywords() -> Mapping[str, Keyword]:
    """The keywords of one schema."""
    return {
        "enum": _Enum(),
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "uniqueItems": _unique_items,
    }


def comparable(value: t.Any) -> Hashable:
    """``value`` in a form that is equal, and hashes alike, exactly where JSON Schema calls two values equal: 1 is 1.0
    and not true, and the order of members is of no account.
    """
    if isinstance(value, bool):
        return (value,)
    if isinstance(value, list):
        return "array", *map(comparable, value)
    if isinstance(value, dict):
        return "object", frozenset((name, comparable(each)) for name, each in value.items())
    return t.cast(Hashable, value)


def _error(message: str) -> t.Any:
    from jsonschema import ValidationError

    return ValidationError(message)


def _unique_items(validator: t.Any, wanted: t.Any, instance: t.Any, schema: t.Any) -> Iterator[t.Any]:
    if wanted and isinstance(instance, list) and len(set(map(comparable, instance))) < len(instance):
        yield _error("has items that are there twice")


class _Enum:
    """``enum``: each of its lists is taken apart once; they live as long as the schema does."""

    def __init__(self) -> None:
        self._known: dict[int, frozenset[Hashable]] = {}

    def __call__(
        self, validator: t.Any, values: Sequence[t.Any], instance: t.Any, schema: t.Any
    ) -> Iterator[t.Any]:
        known = self._known.get(id(values))
        if known is None:
            known = self._known[id(values)] = frozenset(map(comparable, values))
        if comparable(instance) not in known:
            shown = ", ".join(repr(value)[:40] for value in values[:20])
            yield _error(f"{repr(instance)[:100]} is not one of {shown}{', …' if len(values) > 20 else ''}")


def _pattern(validator: t.Any, pattern: t.Any, instance: t.Any, schema: t.Any) -> Iterator[t.Any]:
    if isinstance(instance, str) and isinstance(pattern, str):
        compiled = regex.compiled(pattern)
        if compiled is not None and not compiled.search(instance):
            yield _error(f"{instance[:100]!r} does not match {pattern!r}")


def _pattern_properties(validator: t.Any, table: t.Any, instance: t.Any, schema: t.Any) -> Iterator[t.Any]:
    if not isinstance(instance, dict):
        return
    for pattern, inner in table.items():
        compiled = regex.compiled(pattern)
        for key, value in instance.items():
            if compiled is not None and compiled.search(key):
                yield from validator.descend(value, inner, path=key, schema_path=pattern)
