"""How the fields of :mod:`app.schemas.fields` read as JSON Schema, for apispec.

Law of this room: a schema says what loading does, no more and no less: what is refused there is invalid here.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t
from collections.abc import Mapping

import marshmallow
from apispec.ext.marshmallow import MarshmallowPlugin
from apispec.ext.marshmallow.openapi import OpenAPIConverter

from app import encoding
from app.schemas import derive, fields

#: Members of a field's metadata that are keywords of JSON Schema by the same name.
_KEYWORDS = ("format", "pattern", "examples", "default")
_POINTER = re.compile(r" \(contract[^)]*\)")
_JSON_TYPES: Mapping[type, str] = {str: "string", bool: "boolean", int: "integer", float: "number"}


class Converter(OpenAPIConverter):
    """apispec's, for fields that are none of marshmallow's own.

    :ivar closed: answers may have no member that is not described. Clients ignore what they do not know, so what is
        published leaves answers open; closed, the document holds the server to its own description.
    """

    closed = False

    def field2property(self, field: t.Any) -> dict[str, t.Any]:
        """A field as JSON Schema."""
        found = self._typed(field)
        if field.allow_none and found:
            found = _nullable(found)
        metadata = field.metadata or {}
        if doc := metadata.get("doc"):
            found["description"] = doc
        found.update({name: metadata[name] for name in _KEYWORDS if name in metadata})
        return found

    def schema2jsonschema(self, schema: t.Any) -> dict[str, t.Any]:
        """A schema as JSON Schema: those of requests are closed, as loading is strict."""
        found: dict[str, t.Any] = super().schema2jsonschema(schema)  # type: ignore[no-untyped-call]
        is_request = isinstance(schema, derive.StrictSchema)
        made = schema.made if is_request else schema
        if isinstance(made.__doc__, str):
            found["description"] = _prose(made.__doc__)
        if is_request or self.closed:
            found["additionalProperties"] = False
        if is_request:
            _add_defaults(found["properties"], schema.made)
        return found

    def reference(self, schema: marshmallow.Schema) -> dict[str, t.Any]:
        """Where a schema stands among the components; it is put there first."""
        return dict(self.resolve_nested_schema(schema))  # type: ignore[no-untyped-call]

    def _typed(self, field: t.Any) -> dict[str, t.Any]:
        if isinstance(field, fields.Flag):
            return {"type": "boolean"}
        if isinstance(field, fields.Number):
            return _number(field)
        if isinstance(field, fields.Text):
            pattern = {"pattern": f"^[^{encoding.CONTROL.pattern[1:]}*$"} if field.line else {}
            return _lengths({"type": "string", **pattern}, field, "Length")
        if isinstance(field, fields.Choice):
            return _choice(field.choices)
        if isinstance(field, fields.Items):
            return _lengths({"type": "array", "items": self.field2property(field.inner)}, field, "Items")
        if isinstance(field, fields.Table):
            inner = {} if field.inner is None else self.field2property(field.inner)
            return {"type": "object", "additionalProperties": inner or True}
        if isinstance(field, fields.Part):
            return self.reference(field.schema)
        if isinstance(field, fields.Either):
            return {"anyOf": [self.field2property(option) for option in field.options]}
        return {}


class Plugin(MarshmallowPlugin):
    """apispec's, with our converter. :ivar closed: see :class:`Converter`."""

    Converter = Converter

    def __init__(self, closed: bool) -> None:
        super().__init__()
        self.closed = closed

    def init_spec(self, spec: t.Any) -> None:
        """See apispec."""
        super().init_spec(spec)
        assert isinstance(self.converter, Converter)
        self._fields = self.converter
        self._fields.closed = self.closed

    def reference(self, shape: t.Any) -> dict[str, t.Any]:
        """The schema of a request's dataclass, of an answer's ``TypedDict``, or of any type that has a field."""
        schema = schema_of(shape)
        if schema is None:
            return self._fields.field2property(derive.field_for(shape, {}))
        return self._fields.reference(schema)

    def body(self, shape: t.Any, nulls: bool, partial: bool) -> dict[str, t.Any]:
        """The schema of a body.

        :param nulls: see :func:`app.schemas.derive.schema_for`. :param partial: nothing is required.
        """
        if not nulls:
            return self.reference(shape)
        made = derive.schema_for(shape)(partial=True) if partial else derive.schema_for(shape)()
        found = self._fields.schema2jsonschema(made)
        return self._named(f"{shape.__name__}Changes" if partial else shape.__name__, found)

    def _named(self, name: str, schema: dict[str, t.Any]) -> dict[str, t.Any]:
        assert self.spec is not None
        if name not in self.spec.components.schemas:
            self.spec.components.schema(name, schema)
        return {"$ref": f"#/components/schemas/{name}"}

    def parameters(self, shape: t.Any, location: str) -> list[dict[str, t.Any]]:
        """The parameters that the members of a ``TypedDict`` are."""
        found: list[dict[str, t.Any]] = self._fields.schema2parameters(schema_of(shape), location=location)
        return found


def schema_of(shape: t.Any) -> marshmallow.Schema | None:
    """The marshmallow schema of a shape; None for a type that is no object of members."""
    if t.is_typeddict(shape):
        return derive.shape_for(shape)()
    if dataclasses.is_dataclass(shape) and isinstance(shape, type):
        return derive.schema_for(shape, null_unset=False)()
    return None


def _prose(doc: str) -> str:
    """A docstring as Markdown, without pointers into our own design."""
    return " ".join(_POINTER.sub("", doc).split()).replace("``", "`")


def _number(field: fields.Number) -> dict[str, t.Any]:
    found: dict[str, t.Any] = {"type": "integer" if field.whole else "number"}
    bounds = (("minimum", field.low), ("maximum", field.high), ("exclusiveMinimum", field.above))
    return {**found, **{name: bound for name, bound in bounds if bound is not None}}


def _lengths(found: dict[str, t.Any], field: t.Any, what: str) -> dict[str, t.Any]:
    if getattr(field, "nonempty", False):
        found[f"min{what}"] = 1
    if field.most is not None:
        found[f"max{what}"] = field.most
    return found


def _choice(choices: t.Sequence[t.Any]) -> dict[str, t.Any]:
    if len(choices) == 1:
        return {"const": choices[0]}
    kinds = {_JSON_TYPES[type(choice)] for choice in choices}
    return {**({"type": kinds.pop()} if len(kinds) == 1 else {}), "enum": list(choices)}


def _nullable(found: dict[str, t.Any]) -> dict[str, t.Any]:
    if set(found) <= {"type", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum"}:
        return {**found, "type": [found["type"], "null"]}
    return {"anyOf": [found, {"type": "null"}]}


def _add_defaults(properties: dict[str, t.Any], made: type) -> None:
    for entry in dataclasses.fields(made):
        name = entry.metadata.get("key", entry.name)
        if name in properties and isinstance(entry.default, (str, bool, int, float)):
            properties[name]["default"] = entry.default
