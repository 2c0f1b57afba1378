"""Rows of decisions: how their values become what is stored, and back.

Law of this room: no statement here. What a decision belongs to is found again by the letter: ids that a database could
not take as they are (vendors make them) are written in another way and read back as they were.
"""

from __future__ import annotations

import json
import typing as t
from collections.abc import Sequence
from dataclasses import fields

from app.store.checkpoints import DecisionRow
from app.store.db import Row, from_json, json_text, text

#: As they are stored; the hash of the token is not among them.
COLUMNS = tuple(each.name for each in fields(DecisionRow))
_JSON = frozenset({"review", "answer"})
MARK = "\x01"  # what was written in another way begins with it


def decision(row: Sequence[t.Any]) -> DecisionRow:
    """A row of :data:`COLUMNS`."""
    values = {
        name: from_json(value) if name in _JSON else value for name, value in zip(COLUMNS, row, strict=True)
    }
    return DecisionRow(**{**values, "key": restored(values["key"])})


def decision_values(row: DecisionRow) -> Row:
    """The values of :data:`COLUMNS`."""
    return tuple(_stored(name, getattr(row, name)) for name in COLUMNS)


def plain(key: str) -> str:
    """``key`` as every database takes it: another for every key."""
    if "\0" not in key and not key.startswith(MARK):
        try:
            key.encode()
        except UnicodeEncodeError:  # a lone surrogate
            pass
        else:
            return key
    return MARK + json.dumps(key)


def restored(key: str) -> str:
    """The inverse of :func:`plain`."""
    return str(json.loads(key[1:])) if key.startswith(MARK) else key


def _stored(name: str, value: t.Any) -> t.Any:
    if name == "key":
        return plain(value)
    if name in _JSON:
        return json_text(value)
    return text(value) if isinstance(value, str) else value
