"""marshmallow schemas made from frozen dataclasses, so that a shape is written once.

Law of this room: a dataclass is the only statement of a shape; its schema, messages and reference
page come from here. Field metadata:

``doc``          one sentence for forms and the reference
``key``          the name on the wire when it differs from the attribute
``field``        a marshmallow field to use instead of the derived one
``low`` ``high`` ``above``  bounds of a number (``above`` excludes its bound)
``nonempty``     text or list entries of at least one character
``line``         text of one line, without control characters
``most``         longest text (characters) or list (entries)
``template``     a Jinja2 template, or a tree of them
``expression``   its text is an expression, with or without braces; or the member of that name, in each object of a list
``secret_safe``  the template may use ``secrets``

An answer's shape is a ``TypedDict`` instead, whose members carry the same metadata in ``Annotated``: the server makes
answers and never loads them, so their schemas are there to be read (see :mod:`app.schemas.openapi`).
"""

from __future__ import annotations

import collections.abc
import copy
import dataclasses
import functools
import types
import typing as t
from collections.abc import Mapping

import marshmallow
from marshmallow import ValidationError
from marshmallow import fields as ma_fields

from app.errors import Problem
from app.schemas import fields
from app.schemas.paths import Segment, did_you_mean, join, shown

_T = t.TypeVar("_T")


class StrictSchema(marshmallow.Schema):
    """Loads one dataclass. Unknown keys are problems with the nearest known name; ``made`` builds the instance."""

    made: t.ClassVar[type]
    names: t.ClassVar[tuple[str, ...]]

    class Meta:
        """Unknown keys are seen to below, where the known names are at hand."""

        unknown = marshmallow.EXCLUDE

    @marshmallow.validates_schema(pass_original=True, skip_on_field_errors=False)
    def _known_keys(self, data: t.Any, original: Mapping[str, t.Any], **kwargs: t.Any) -> None:
        unknown = [key for key in original if key not in self.names]
        if unknown:
            told = {
                key: [f"is not known here. {did_you_mean(str(key), self.names)}"]
                for key in unknown[: fields.MOST_TOLD]
            }
            if more := len(unknown) - len(told):
                told[fields.WHOLE] = [f"has {more} more keys that are not known here"]
            raise ValidationError(t.cast("dict[t.Any, t.Any]", told))

    @marshmallow.post_load
    def _make(self, data: dict[str, t.Any], **kwargs: t.Any) -> t.Any:
        try:
            return self.made(**{name: value for name, value in data.items() if value is not None})
        except ValueError as error:
            raise ValidationError(str(error)) from None


@functools.cache
def schema_for(cls: type, null_unset: bool = True) -> type[StrictSchema]:
    """The schema class of a dataclass; loading gives an instance.

    :param null_unset: null means that an optional key was not given (contract section 2). Otherwise
        null is accepted only where the type says ``None`` or anything.
    :raises TypeError: a field's type has no derivation and no ``field`` in its metadata.
    """
    hints = t.get_type_hints(cls)
    members: dict[str, t.Any] = {"made": cls}
    names = []
    for entry in dataclasses.fields(cls):
        if not entry.init:
            continue
        members[entry.name] = _schema_field(entry, hints[entry.name], null_unset)
        names.append(entry.metadata.get("key", entry.name))
    members["names"] = tuple(names)
    return type(f"{cls.__name__}Schema", (StrictSchema,), members)


@functools.cache
def shape_for(cls: type) -> type[marshmallow.Schema]:
    """The schema class of a ``TypedDict``: what an answer looks like.

    :raises TypeError: as :func:`schema_for`.
    """
    members: dict[str, t.Any] = {"__doc__": cls.__doc__}
    for name, hint in t.get_type_hints(cls, include_extras=True).items():
        optional = t.get_origin(hint) is t.NotRequired
        inner = t.get_args(hint)[0] if optional else hint
        field = field_for(inner, {})
        field.required, field.allow_none = not optional, _allows_none(_plain(inner))
        # No Python name of a member can be that of a method of the schema.
        field.data_key = name
        members[f"{name}_"] = field
    return type(f"{cls.__name__}Schema", (marshmallow.Schema,), members)


def _plain(hint: t.Any) -> t.Any:
    return hint.__origin__ if t.get_origin(hint) is t.Annotated else hint


@functools.cache
def _schema(cls: t.Any, null_unset: bool) -> StrictSchema:
    return schema_for(cls, null_unset)()


def load(
    cls: type[_T], data: t.Any, path: str = "", *, null_unset: bool = True
) -> tuple[_T | None, list[Problem]]:
    """``data`` as an instance of ``cls``, or everything that is wrong with it.

    :param path: where ``data`` sits in the document; the problems' paths begin with it.
    """
    if not isinstance(data, Mapping):
        return None, [Problem(path, f"must be an object, not {shown(data)}")]
    try:
        schema = _schema(t.cast("t.Hashable", cls), null_unset)
        return t.cast(_T, schema.load(data)), []
    except ValidationError as error:
        return None, list(_flatten(error.messages, path))


def _flatten(messages: t.Any, path: str) -> t.Iterator[Problem]:
    if isinstance(messages, Mapping):
        for key, inner in messages.items():
            yield from _flatten(inner, path if key == fields.WHOLE else join(path, _segment(key)))
    elif isinstance(messages, (list, tuple)):
        for message in messages:
            yield from _flatten(message, path)
    else:
        yield Problem(path, str(messages))


def _segment(key: t.Any) -> Segment:
    return key if isinstance(key, int) and not isinstance(key, bool) else str(key)


def has_default(entry: dataclasses.Field[t.Any]) -> bool:
    """Whether a dataclass field may be left out."""
    return entry.default is not dataclasses.MISSING or entry.default_factory is not dataclasses.MISSING


def _schema_field(entry: dataclasses.Field[t.Any], hint: t.Any, null_unset: bool) -> ma_fields.Field[t.Any]:
    given = entry.metadata.get("field")
    field = copy.copy(given) if given is not None else field_for(hint, entry.metadata)
    field.required = not has_default(entry)
    field.allow_none = _allows_none(hint) or (null_unset and not field.required)
    field.load_default = marshmallow.missing
    field.data_key = entry.metadata.get("key")
    field.metadata = t.cast("dict[str, t.Any]", entry.metadata)
    field.error_messages = {**field.error_messages, "required": fields.REQUIRED, "null": fields.REQUIRED}
    if not field.required:
        field.error_messages["null"] = "must not be null"
    return t.cast("ma_fields.Field[t.Any]", field)


def _allows_none(hint: t.Any) -> bool:
    return hint is t.Any or hint is object or type(None) in t.get_args(hint)


def field_for(hint: t.Any, metadata: Mapping[str, t.Any]) -> ma_fields.Field[t.Any]:
    """The field that loads a value of type ``hint``.

    :param metadata: bounds and lengths, see the module's table.
    :raises TypeError: there is no rule for the type.
    """
    if t.get_origin(hint) is t.Annotated:
        own = {key: value for more in hint.__metadata__ for key, value in more.items()}
        field = field_for(hint.__origin__, own)
        field.metadata = own
        return field
    if hint is t.Any or hint is object:
        return fields.Anything()
    if hint is bool:
        return fields.Flag()
    if hint in (int, float):
        bounds = {key: metadata.get(key) for key in ("low", "high", "above")}
        return fields.Whole(**bounds) if hint is int else fields.Number(**bounds)
    if hint is str:
        return fields.Text(
            nonempty=metadata.get("nonempty", False),
            most=metadata.get("most"),
            line=metadata.get("line", False),
        )
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return fields.Part(_schema(hint, True))
    if t.is_typeddict(hint):
        return fields.Part(shape_for(hint)())
    return _generic_field(hint, metadata)


def _generic_field(hint: t.Any, metadata: Mapping[str, t.Any]) -> ma_fields.Field[t.Any]:
    origin, args = t.get_origin(hint) or hint, t.get_args(hint)
    if origin is t.Literal:
        return fields.Choice(args)
    if origin in (t.Union, types.UnionType):
        options = [arg for arg in args if arg is not type(None)]
        if len(options) == 1:
            return field_for(options[0], metadata)
        return fields.Either([field_for(arg, metadata) for arg in options], type_name(hint))
    if origin in (list, tuple, collections.abc.Sequence):
        inner = {key: value for key, value in metadata.items() if key != "most"}
        item = field_for(args[0], inner) if args else fields.Anything()
        return fields.Items(item, most=metadata.get("most"), made=list if origin is list else tuple)
    if origin in (dict, collections.abc.Mapping):
        return fields.Table(field_for(args[1], metadata) if args and args[1] is not t.Any else None)
    raise TypeError(f"no schema field for {hint!r}; give one as metadata field=")


_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


def type_name(hint: t.Any) -> str:
    """A type in the words of the reference and of messages."""
    if hint in _WORDS:
        return _WORDS[hint]
    if hint is t.Any or hint is object:
        return "anything"
    origin, args = t.get_origin(hint) or hint, t.get_args(hint)
    if origin is t.Literal:
        return " | ".join(str(arg) for arg in args)
    if origin in (t.Union, types.UnionType):
        return " or ".join(type_name(arg) for arg in args if arg is not type(None))
    if origin in (list, tuple, collections.abc.Sequence):
        if args and dataclasses.is_dataclass(args[0]):
            return "a list of objects"
        return f"a list of {type_name(args[0])}" if args and args[0] is not t.Any else "a list"
    return "an object"


@dataclasses.dataclass(frozen=True, slots=True)
class FieldDoc:
    """A row of a reference table. ``default`` is as in the document; None when the key is required or unset."""

    name: str
    type: str
    required: bool
    default: t.Any
    doc: str


def describe(cls: type) -> list[FieldDoc]:
    """The fields of a dataclass for a form or a reference page, in order."""
    hints = t.get_type_hints(cls)
    rows = []
    for entry in dataclasses.fields(cls):
        default = None
        if entry.default is not dataclasses.MISSING:
            default = entry.default
        elif entry.default_factory is not dataclasses.MISSING:
            default = entry.default_factory()
        name = entry.metadata.get("key", entry.name)
        doc = entry.metadata.get("doc", "")
        rows.append(FieldDoc(name, type_name(hints[entry.name]), not has_default(entry), default, doc))
    return rows
