"""References inside a JSON Schema: that each leads somewhere, and none round in a circle.

Law of this room: only what a value can meet is looked at: the schema, its parts, and whatever they refer to. Nothing is
ever fetched; a reference that leads out has been refused before.
"""

from __future__ import annotations

import graphlib
import typing as t
from collections.abc import Iterator, Mapping

from app.schemas.keywords import REFERENCES

#: Keywords whose parts judge the very value that the schema judges: a circle of them never ends.
_SAME_VALUE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else")


def reference_problem(schema: Mapping[str, t.Any]) -> str | None:
    """What is wrong with the references of a schema, in one sentence; None when nothing is."""
    import referencing.jsonschema as known

    meta = schema.get("$schema")
    dialect = known.specification_with(meta if isinstance(meta, str) else "", default=known.DRAFT202012)
    return _Walk(dialect).problem(schema)


class _Walk:
    """One walk over one schema. Parts are told apart by identity."""

    def __init__(self, dialect: t.Any) -> None:
        self._dialect = dialect
        self._same: dict[int, set[int]] = {}

    def problem(self, schema: Mapping[str, t.Any]) -> str | None:
        """See :func:`reference_problem`."""
        import referencing

        root = self._dialect.create_resource(schema)
        stack = [(schema, referencing.Registry().resolver_with_root(root))]
        while stack:
            here, resolver = stack.pop()
            if id(here) in self._same:
                continue
            self._same[id(here)] = {id(part) for part in _same_value(here)}
            for reference in _references(here):
                target = _target(resolver, reference)
                if target is None:
                    return (
                        f"refers to {_short(reference)}, which is no schema in it; define it, or correct it"
                    )
                if isinstance(target.contents, Mapping):
                    self._same[id(here)].add(id(target.contents))
                    stack.append((target.contents, target.resolver))
            stack.extend((part, self._inside(part, resolver)) for part in self._parts(here))
        return self._circle()

    def _parts(self, here: Mapping[str, t.Any]) -> Iterator[Mapping[str, t.Any]]:
        return (part for part in self._dialect.subresources_of(here) if isinstance(part, Mapping))

    def _inside(self, part: Mapping[str, t.Any], resolver: t.Any) -> t.Any:
        """``resolver`` for a part, which may have an ``$id`` of its own."""
        return resolver.in_subresource(self._dialect.create_resource(part))

    def _circle(self) -> str | None:
        try:
            graphlib.TopologicalSorter(self._same).prepare()
        except graphlib.CycleError:
            return "refers to itself without an end; let what refers back be of a property or an item"
        return None


def _references(here: Mapping[str, t.Any]) -> list[str]:
    return [here[key] for key in REFERENCES if isinstance(here.get(key), str)]


def _same_value(here: Mapping[str, t.Any]) -> Iterator[Mapping[str, t.Any]]:
    for key in _SAME_VALUE:
        value = here.get(key)
        yield from (
            part for part in (value if isinstance(value, list) else [value]) if isinstance(part, Mapping)
        )


def _target(resolver: t.Any, reference: str) -> t.Any:
    """Where a reference leads, with its resolver; None when that is no schema."""
    try:
        found = resolver.lookup(reference)
    except Exception:  # nowhere; a pointer into a list or a text raises what the library does not name
        return None
    return found if isinstance(found.contents, (Mapping, bool)) else None


def _short(text: str) -> str:
    return text if len(text) <= 200 else text[:197] + "…"
