"""What block types make of values: truth, lists, the one output of a body.

Law of this room: no context, no events; what JSON can be is all that comes in.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence

from app.errors import BlockError

MAX_ITEMS = 10_000


def holds(value: t.Any) -> bool:
    """Whether the value of an expression counts as true; a text does unless it is empty or says no."""
    if isinstance(value, str):
        return value.strip().lower() not in ("", "false", "no", "off", "none", "0")
    return bool(value)


def items_of(value: t.Any, name: str) -> Sequence[t.Any]:
    """The items to go through: a list as it is, an object as ``{key, value}`` pairs, null as none.

    :raises BlockError: ``loop_invalid``: it is neither, or has more than :data:`MAX_ITEMS`.
    """
    if value is None:
        return ()
    if isinstance(value, Mapping):
        value = [{"key": key, "value": item} for key, item in value.items()]
    if not isinstance(value, (list, tuple)):
        raise BlockError("loop_invalid", f"{name} must be a list, not a {type(value).__name__}.")
    if len(value) > MAX_ITEMS:
        raise BlockError(
            "loop_invalid", f"{name} has {len(value)} entries; at most {MAX_ITEMS} can be gone through."
        )
    return value


def only(outputs: Mapping[str, t.Any]) -> t.Any:
    """The output of a body: that of its last block, or of several by their ids."""
    return next(iter(outputs.values())) if len(outputs) == 1 else dict(outputs) or None
