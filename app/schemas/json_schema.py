"""JSON Schema as users write it for tools and structured output.

Law of this room: a schema is checked once, when a document is; nothing is ever fetched (a ``$ref``
outside the schema, or to nothing in it, is refused), and no ``pattern`` can stall a worker: patterns run on RE2,
and one that RE2 does not know is a problem of the document.
"""

from __future__ import annotations

import functools
import typing as t
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from app import encoding
from app.schemas import patterns as regex
from app.schemas.keywords import REFERENCES, Judged, keywords
from app.schemas.paths import join
from app.schemas.references import reference_problem

_MAX_PROBLEMS = 20
#: Keywords that hold schemas under names of the author's, which may be those of keywords.
_NAMED = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
#: Keywords of every draft whose schemas are judged one by one, since each takes milliseconds.
_APART, _LISTED = ("properties", "definitions"), ("allOf", "anyOf", "oneOf")
_SINGLE = ("items", "additionalProperties", "not")
#: Keywords that hold values, not schemas.
_VALUES = ("enum", "const", "default", "examples")

_PAUSE: ContextVar[Callable[[], None]] = ContextVar("studio_schema_pause", default=lambda: None)


@contextmanager
def pausing(pause: Callable[[], None]) -> Iterator[None]:
    """While open, ``pause`` is called between the parts of a schema that is checked, so that others may go on."""
    token = _PAUSE.set(pause)
    try:
        yield
    finally:
        _PAUSE.reset(token)


def check_schema(schema: t.Any) -> str | None:
    """What makes ``schema`` no usable JSON Schema, in one sentence; None when nothing does."""
    if not isinstance(schema, Mapping):
        return "must be a JSON Schema, an object"
    wrapped = schema.get("json_schema")
    if schema.get("type") == "json_schema" and isinstance(wrapped, Mapping):
        return "must be the JSON Schema itself; write what is under json_schema.schema here"
    try:
        wrong = _by_its_draft(schema)
    except RecursionError:
        return "is nested too deeply"
    except (
        Exception
    ) as error:  # a schema can break its own metaschema's check in ways the library does not name
        return f"is no valid JSON Schema ({type(error).__name__})"
    return wrong or next(_beyond(schema), None) or reference_problem(schema)


def _by_its_draft(schema: Mapping[str, t.Any]) -> str | None:
    """What its draft of JSON Schema does not know."""
    import jsonschema  # 0.2 s to import: not before the first schema is met

    validator, pause = _class_of(schema), _PAUSE.get()
    named = (*_APART, "$defs") if "$vocabulary" in validator.META_SCHEMA else _APART  # since draft 2019-09
    for place, part in _parts(schema, named):
        pause()
        try:
            validator.check_schema(part)
        except jsonschema.SchemaError as error:
            where = join("", *place, *error.absolute_path)
            return f"is no valid JSON Schema{f' at {where}' if where else ''}: {_short(error.message)}"
    return None


def _class_of(schema: Mapping[str, t.Any]) -> t.Any:
    from jsonschema import validators

    return validators.validator_for(schema, default=validators.Draft202012Validator)


def _parts(schema: t.Any, named: tuple[str, ...]) -> Iterator[tuple[tuple[str | int, ...], t.Any]]:
    """What a schema is made of, with its place: each without what comes as a part of its own."""
    stack: list[tuple[tuple[str | int, ...], t.Any]] = [((), schema)]
    while stack:
        place, here = stack.pop()
        apart: dict[str, t.Any] = {}
        inner: list[tuple[tuple[str | int, ...], t.Any]] = []
        for key in (*named, *_LISTED, *_SINGLE) if isinstance(here, Mapping) else ():
            value = here.get(key)
            if key in named and isinstance(value, Mapping):
                apart[key] = {}
                inner += [((*place, key, name), part) for name, part in value.items()]
            elif key in _LISTED and isinstance(value, list):
                apart[key] = value[:1]
                inner += [((*place, key, index), part) for index, part in enumerate(value[1:], 1)]
            elif key in _SINGLE and isinstance(value, Mapping):
                apart[key] = {}
                inner.append(((*place, key), value))
        yield place, {**here, **apart} if apart else here
        stack += reversed(inner)


def _short(text: str) -> str:
    return text if len(text) <= 200 else text[:197] + "…"


def _beyond(schema: t.Any) -> Iterator[str]:
    """Problems the metaschema cannot see: references that lead out, patterns RE2 does not know."""
    stack = [schema]
    while stack:
        here = stack.pop()
        if isinstance(here, list):
            stack.extend(here)
        elif isinstance(here, Mapping):
            for key in REFERENCES:
                target = here.get(key)
                if isinstance(target, str) and not target.startswith("#"):
                    yield f'"{key}" must point into the schema itself (#/$defs/...), not to {_short(target)}'
            yield from _bad_patterns(here)
            for key, value in here.items():
                if key in _NAMED and isinstance(value, Mapping):
                    stack.extend(value.values())
                elif key not in _VALUES:
                    stack.append(value)


def _bad_patterns(here: Mapping[str, t.Any]) -> Iterator[str]:
    properties = here.get("patternProperties")
    patterns = list(properties) if isinstance(properties, Mapping) else []
    if isinstance(here.get("pattern"), str):
        patterns.append(here["pattern"])
    for pattern in patterns:
        problem = regex.problem(pattern)
        if problem is not None:
            yield problem


class Checker:
    """A schema ready to judge values; :func:`checker` makes one per schema text."""

    def __init__(self, schema: Mapping[str, t.Any]) -> None:
        import referencing
        from jsonschema import validators

        extend: t.Any = validators.extend
        base = _class_of(schema)
        self._judged = Judged()
        safe = extend(base, keywords(base.VALIDATORS, None if _by_way(schema) else self._judged))
        # An empty registry keeps the library from fetching references by itself.
        self._validator = safe(schema, registry=referencing.Registry())

    def problems(self, value: t.Any) -> list[tuple[str, str]]:
        """What ``value`` violates, as (JSON path, sentence); at most 20, in the value's order.

        The sentences may quote the value: they are for the model and for run records, not for error messages.
        """
        found = []
        try:
            for error in self._validator.iter_errors(value):
                found.append((join("", *error.absolute_path), _short(error.message)))
                if len(found) == _MAX_PROBLEMS:
                    break
        except RecursionError:
            found.append(("", "is nested too deeply for its schema"))
        except Exception as error:  # e.g. a $ref that leads nowhere, met only now
            found.append(("", f"its schema cannot be applied ({type(error).__name__})"))
        finally:
            self._judged.forget()
        return found


def _by_way(schema: Mapping[str, t.Any]) -> bool:
    """Whether a reference may lead elsewhere by the way that led to it."""
    text = encoding.dumps(schema)
    return b'"$id"' in text and (b'"$dynamicRef"' in text or b'"$recursiveRef"' in text)


def checker(schema: Mapping[str, t.Any]) -> Checker:
    """The checker of a schema, cached by its text."""
    return _checker(encoding.dumps(schema))


@functools.lru_cache(maxsize=256)
def _checker(text: bytes) -> Checker:
    return Checker(encoding.loads(text))
