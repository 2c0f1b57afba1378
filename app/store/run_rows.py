"""Rows of runs: how the values of a record become what is stored, and back.

Law of this room: no statement here; values in, rows out.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterable, Mapping, Sequence

from app.store.db import Row, json_text, text
from app.store.tables import run_blocks, run_usage, runs

COLUMNS = tuple(column.name for column in runs.columns)
BLOCK_COLUMNS = tuple(
    column.name for column in run_blocks.columns if column.name not in ("run_id", "position")
)
USAGE_COLUMNS = tuple(
    column.name for column in run_usage.columns if column.name not in ("run_id", "position")
)
JSON = frozenset(
    {"input", "output", "partial_text", "error", "usage", "tool_calls", "tokens", "model_failures", "origin"}
)
_TEXTS = frozenset({"workflow_id", "key_id", "conversation_id", "thread_id", "block", "name", "model"})
#: What the end of a run sets; the rest stays as it was when the run started.
END = (
    "status",
    "cause",
    "output",
    "partial_text",
    "error",
    "usage",
    "tool_calls",
    "started_at",
    "ended_at",
    "queued_ms",
    "active_ms",
    "human_wait_ms",
    "seq_reserved",
    "model_failures",
)
#: What a pause sets: all that is known of the run so far.
PAUSE = (
    "partial_text",
    "usage",
    "tool_calls",
    "started_at",
    "queued_ms",
    "active_ms",
    "human_wait_ms",
    "model_failures",
)
DEFAULTS: Mapping[str, t.Any] = {"owner_epoch": 1, "seq_reserved": 0, "status": "running", "durable": 0}

_Fields = Sequence[tuple[str, Callable[[t.Any], t.Any] | None]]


def _fields(names: Sequence[str]) -> _Fields:
    """Names with what makes a stored value of a Python one (None: it is stored as it is)."""

    def converter(name: str) -> Callable[[t.Any], t.Any] | None:
        if name in JSON:
            return json_text
        return text if name in _TEXTS else int if name == "estimated" else None

    return tuple((name, converter(name)) for name in names)


_RUN_FIELDS = _fields(COLUMNS)
_END_FIELDS = _fields(END)
_PAUSE_FIELDS = _fields(PAUSE)
_BLOCK_FIELDS = _fields(BLOCK_COLUMNS)
_USAGE_FIELDS = _fields(USAGE_COLUMNS)


def whole(row: Mapping[str, t.Any], owner: str) -> Row:
    """A run's whole row."""
    return tuple(_encode(_RUN_FIELDS, {**DEFAULTS, **row, "owner_id": owner}))


def end(row: Mapping[str, t.Any]) -> Row:
    """The values of :data:`END`."""
    return tuple(_encode(_END_FIELDS, {**DEFAULTS, **row}))


def pause(row: Mapping[str, t.Any]) -> dict[str, t.Any]:
    """The values of :data:`PAUSE`, as they are named in its statement."""
    return {f"new_{name}": value for name, value in zip(PAUSE, _encode(_PAUSE_FIELDS, row), strict=True)}


def blocks(run_id: str, items: Iterable[Mapping[str, t.Any]]) -> list[Row]:
    """Rows of a block log, in order."""
    return [(run_id, place, *_encode(_BLOCK_FIELDS, item)) for place, item in enumerate(items)]


def usages(run_id: str, items: Iterable[Mapping[str, t.Any]]) -> list[Row]:
    """One row per model call, in order."""
    return [(run_id, place, *_encode(_USAGE_FIELDS, item)) for place, item in enumerate(items)]


def size(row: Iterable[t.Any]) -> int:
    """About how many bytes the values of a row take."""
    return sum(len(value) if isinstance(value, (str, bytes)) else 8 for value in row)


def _encode(fields: _Fields, item: Mapping[str, t.Any]) -> list[t.Any]:
    get = item.get
    return [
        value if (value := get(name)) is None or convert is None else convert(value)
        for name, convert in fields
    ]
