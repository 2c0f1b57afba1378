"""What the rows of an agent hold, for a journal that keeps them outside of this process.

Law of this room: a value comes back as it was written, and as what it was. What no format can hold (a number of any
size, a value of a plugin's own) comes back in its JSON form, and never keeps a row from being written.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

import msgspec

from app import encoding
from app.agents.loop import CallResult, TurnResult
from plugins.spec.decisions import Answer
from plugins.spec.journal import StepKind

#: What the value of a row is, by its kind; the others hold any JSON.
VALUES: Mapping[str, type] = {"turn": TurnResult, "tool": CallResult, "decision": Answer}


def packed(value: t.Any) -> bytes:
    """The value of a row as msgpack."""
    try:
        return msgspec.msgpack.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return msgspec.msgpack.encode(encoding.plain(value))


def unpacked(kind: StepKind, data: bytes) -> t.Any:
    """The value that :func:`packed` was given for a row of this kind.

    :raises msgspec.ValidationError: it is none of that kind.
    """
    wanted = VALUES.get(kind)
    if wanted is None:
        return msgspec.msgpack.decode(data)
    return msgspec.msgpack.decode(data, type=wanted | None)
