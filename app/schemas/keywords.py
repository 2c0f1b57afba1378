"""Keywords of JSON Schema that cost what the value is long, and no more.

Law of this room: a value comes from a model or a caller, and is judged while every other run of the worker waits. The
library compares each item with each other one, tries a pattern by going back, and judges a value anew for each way that
leads to it, of which a value nested 15 deep can have millions; here none of it happens.
"""

from __future__ import annotations

import sys
import typing as t
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import islice

from app.schemas import patterns as regex

#: Keywords that lead elsewhere in the schema.
REFERENCES = frozenset(("$ref", "$dynamicRef", "$recursiveRef"))
#: Frames that following a reference may take.
_STACK_LEFT = 150
Keyword = Callable[[t.Any, t.Any, t.Any, t.Any], Iterator[t.Any]]


def keywords(known: Mapping[str, Keyword], judged: Judged | None) -> Mapping[str, Keyword]:
    """The keywords of one schema that take the place of those the library has.

    :param known: the library's. :param judged: None where what a reference means depends on the way to it.
    """
    own: dict[str, Keyword] = {
        "anyOf": _any_of,
        "enum": _Enum(),
        "oneOf": _one_of,
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "uniqueItems": _unique_items,
    }
    for name in REFERENCES & known.keys():
        follow = bounded(known[name])
        own[name] = follow if judged is None else judged.reference(follow)
    return {name: keyword for name, keyword in own.items() if name in known}


class Judged:
    """Whether values fit what is referred to, each found out once. Without references a value is met but once.

    Keyed by identity, which holds for the time that one value is judged in.
    """

    def __init__(self) -> None:
        self._fits: dict[tuple[int, int], bool] = {}

    def forget(self) -> None:
        """Another value is to be judged."""
        self._fits.clear()

    def reference(self, follow: Keyword) -> Keyword:
        """The keyword that ``follow`` is, asked but once about a value that fits."""

        def keyword(validator: t.Any, target: t.Any, instance: t.Any, schema: t.Any) -> Iterator[t.Any]:
            place = id(schema), id(instance)
            fits = self._fits.get(place)
            if fits is None:  # no helpers here: each frame takes from how deep a value may be
                errors = iter(follow(validator, target, instance, schema))
                fits = self._fits[place] = next(errors, None) is None
            if not fits:
                yield from follow(validator, target, instance, schema)

        return keyword


def bounded(follow: Keyword) -> Keyword:
    """A reference that is followed while there is stack for it.

    The library looks references up in a table of native code, which ends in a panic, no RecursionError, where the
    stack does. Only references lead deeper than the schema is.
    """

    def keyword(validator: t.Any, target: t.Any, instance: t.Any, schema: t.Any) -> t.Any:
        try:
            sys._getframe(sys.getrecursionlimit() - _STACK_LEFT)
        except ValueError:  # there are fewer frames than that
            return follow(validator, target, instance, schema)
        raise RecursionError

    return keyword


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


def _fitting(validator: t.Any, schemas: Sequence[t.Any], instance: t.Any) -> Iterator[int]:
    """Which of the schemas the value fits. The first error of each is enough: the library looks for all of them."""
    return (
        place
        for place, schema in enumerate(schemas)
        if next(validator.descend(instance, schema, schema_path=place), None) is None
    )


def _any_of(validator: t.Any, schemas: Sequence[t.Any], instance: t.Any, schema: t.Any) -> Iterator[t.Any]:
    if next(_fitting(validator, schemas, instance), None) is None:
        yield _error("is not valid under any of the given schemas")


def _one_of(validator: t.Any, schemas: Sequence[t.Any], instance: t.Any, schema: t.Any) -> Iterator[t.Any]:
    found = list(islice(_fitting(validator, schemas, instance), 2))
    if len(found) != 1:
        yield _error(f"is valid under {'more than one' if found else 'none'} of the given schemas")


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
