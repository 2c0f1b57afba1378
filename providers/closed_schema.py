"""JSON Schemas for vendors that hold a model to them word by word, and schemas in words for all others.

Law of this room: values in, values out. Such vendors take a part of JSON Schema only and refuse the rest: every object
is closed, nothing refers to itself, and there are no bounds on numbers, texts and lists (platform.claude.com,
structured outputs; Bedrock's page says the same). What a schema loses here is said in words, and whoever asked holds
the answer against the whole schema anyway. An object whose members nobody names cannot be closed: closed, it would
always be empty.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping

from providers.spec import Json
from providers.surrogates import encode

_KEPT = frozenset({"type", "title", "description", "default", "const", "required", "$ref"})
#: Words about a schema, which hold nobody to anything.
_SILENT = frozenset({"$schema", "$id", "$comment", "examples", "deprecated", "readOnly", "writeOnly"})
_SAYS = frozenset({"type", "enum", "const", "anyOf", "allOf", "oneOf", "$ref", "properties"})
_FORMATS = frozenset(
    {"date-time", "date", "time", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
)
#: Look-arounds, backward references and word boundaries.
_HARD_PATTERN = re.compile(r"\(\?|\\[bB1-9]")
_LOCAL = re.compile(r"#/(?:\$defs|definitions)/([^/]+)")
_DEPTH = 64


def in_words(schema: Mapping[str, t.Any]) -> str:
    """A schema as a model is told of it."""
    written = encode(schema).decode()
    return f"Give the final answer as one JSON object that follows this JSON Schema, and nothing else:\n{written}"


def with_words(system: str | None, schema: Mapping[str, t.Any]) -> str:
    """A system prompt with a schema in words behind it."""
    return "\n\n".join(part for part in (system, in_words(schema)) if part)


def closed(schema: Mapping[str, t.Any]) -> tuple[Json | None, bool]:
    """``schema`` as such a vendor takes it, and whether that says all of it.

    :returns: None instead of a schema that cannot be closed.
    """
    closing = _Closing()
    try:
        made = closing.node(schema, 0)
        closing.follow(schema)
    except _Open:
        return None, False
    return made, closing.whole


class _Open(Exception):
    """The schema leaves something open that such a vendor wants closed."""


class _Closing:
    def __init__(self) -> None:
        self.whole = True

    def node(self, schema: t.Any, depth: int) -> Json:
        if not isinstance(schema, Mapping) or depth > _DEPTH or not _SAYS & schema.keys():
            raise _Open
        made: Json = {}
        for key, value in schema.items():
            self._member(key, value, made, depth + 1)
        kind = schema.get("type")
        if "properties" in schema or kind == "object" or (isinstance(kind, list) and "object" in kind):
            if not schema.get("properties") or "patternProperties" in schema:
                raise _Open
            made["additionalProperties"] = False
        if (kind == "array" or (isinstance(kind, list) and "array" in kind)) and "items" not in made:
            raise _Open
        return made

    def _member(self, key: str, value: t.Any, made: Json, depth: int) -> None:
        if key in _KEPT or (key == "minItems" and value in (0, 1)):
            made[key] = value
        elif key in ("properties", "$defs", "definitions") and isinstance(value, Mapping):
            made[key] = {name: self.node(inner, depth) for name, inner in value.items()}
        elif key == "items":
            made[key] = self.node(value, depth)
        elif key in ("anyOf", "allOf", "oneOf") and isinstance(value, list):
            name = "anyOf" if key == "oneOf" else key
            made.setdefault(name, []).extend(self.node(inner, depth) for inner in value)
            self.whole = self.whole and key != "oneOf"
        elif _taken(key, value):
            made[key] = value
        elif key != "additionalProperties" and key not in _SILENT:
            self.whole = False

    def follow(self, root: Mapping[str, t.Any]) -> None:
        """See that every reference leads to a definition, and none back to itself."""
        names = {**(root.get("definitions") or {}), **(root.get("$defs") or {})}
        done: set[str] = set()

        def visit(value: t.Any, through: tuple[str, ...]) -> None:
            for reference in _references(value):
                match = _LOCAL.fullmatch(reference)
                if match is None or match[1] not in names or match[1] in through:
                    raise _Open
                if match[1] not in done:
                    visit(names[match[1]], (*through, match[1]))
                    done.add(match[1])

        visit({key: value for key, value in root.items() if key not in ("$defs", "definitions")}, ())


def _taken(key: str, value: t.Any) -> bool:
    if key == "enum":
        return isinstance(value, list) and not any(isinstance(each, (list, dict)) for each in value)
    if key == "format":
        return value in _FORMATS
    return key == "pattern" and isinstance(value, str) and not _HARD_PATTERN.search(value)


def _references(value: t.Any) -> t.Iterator[str]:
    if isinstance(value, Mapping):
        reference = value.get("$ref")
        if isinstance(reference, str):
            yield reference
        for inner in value.values():
            yield from _references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _references(inner)
