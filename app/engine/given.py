"""What a block was given, for those who build the workflow: its config with templates rendered.

Law of this room: asked only of draft runs, once for each execution, before the block runs; nothing here can fail it.
A field that may use a secret is told as it was written, and one whose templates see what only the block knows is not
told at all. What is long is cut.
"""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Callable, Mapping

from app import encoding
from app.agents import templates
from app.errors import RunError
from app.workflows.compiled import CompiledBlock
from app.workflows.secret_use import names_in
from app.workflows.template_syntax import strings_in

#: Bytes of JSON over which it is cut, and characters that each text in it keeps then.
MOST = 64 * 1024
_LEAST = 200
START = "start"


def given(
    block: CompiledBlock,
    variables: Mapping[str, t.Any],
    shown: Callable[[t.Any], t.Any] = lambda value: value,
) -> t.Any:
    """What a block runs with.

    :param variables: what its templates see. :param shown: a value as it may be told.
    """
    if block.type.type_name == START:
        return bounded(shown(variables.get("input")))
    found: dict[str, t.Any] = {}
    for field in dataclasses.fields(block.config):
        value = getattr(block.config, field.name)
        if "agents" in field.metadata or _is_default(field, value):
            continue
        if field.metadata.get("template"):
            value = _rendered(value, variables)
        found[str(field.metadata.get("key", field.name))] = value
    return bounded(shown(found))


def _is_default(field: dataclasses.Field[t.Any], value: t.Any) -> bool:
    if field.default is not dataclasses.MISSING:
        return bool(value == field.default)
    return field.default_factory is not dataclasses.MISSING and bool(value == field.default_factory())


def _rendered(value: t.Any, variables: Mapping[str, t.Any]) -> t.Any:
    """``value`` as the block will see it; as it was written where it uses secrets, or cannot be rendered."""
    plain = encoding.plain(value)
    if names_in(plain):
        return plain
    try:
        return templates.render_value(plain, variables)
    except RunError:
        return plain  # so the block will say, in its own words


def bounded(value: t.Any) -> t.Any:
    """A JSON value, cut to what can be told of each block."""
    value = encoding.plain(value)
    size = len(encoding.dumps(value))
    if size <= MOST:
        return value
    texts = sum(1 for _ in strings_in(value))
    cut = _cut(value, max(_LEAST, MOST // max(1, texts)))
    return cut if len(encoding.dumps(cut)) <= 4 * MOST else f"… ({size} bytes)"


def _cut(value: t.Any, most: int) -> t.Any:
    if isinstance(value, str):
        return value if len(value) <= most else f"{value[:most]}… ({len(value)} characters)"
    if isinstance(value, Mapping):
        return {key: _cut(item, most) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_cut(item, most) for item in value]
    return value
