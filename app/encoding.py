"""The one encoder of every body and frame.

Law of this room: whatever a tool, template or vendor produced has exactly one JSON form here and
can never break a stream. Member order is the order of insertion, which is part of the contract.

=====================  ==========================================================
value                  JSON form
=====================  ==========================================================
NaN, Infinity          ``null``
lone surrogate         U+FFFD
U+0085, U+2028/2029    escaped: some clients take them for line ends
bytes                  ``{"$bytes": "<base64>"}``
date, time, datetime   RFC 3339 / ISO 8601 text (aware datetimes in UTC, ``Z``)
timedelta              seconds as a number
set, frozenset         array (sorted when its members can be)
tuple, iterator        array
Decimal                text of the number, exact
int beyond 64 bits     text of the number, exact
enum                   its value
UUID, path             its text
dataclass, Struct      object of its fields
mapping with odd keys  keys as text
cycle, depth over 200  ``"[unserializable]"``
anything else          ``repr`` is never used: ``"[<type name>]"``
=====================  ==========================================================
"""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import decimal
import enum
import math
import pathlib
import re
import typing as t
import uuid
from collections.abc import Iterator, Mapping, Set

import msgspec
import orjson

#: What breaks lines, or makes a terminal or a reader see something else than what is there: control characters, line
#: and paragraph separators, and what turns the direction of writing.
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_LONE = re.compile("[\ud800-\udfff]")
#: Line ends to a client that splits text as Python's ``splitlines`` does; in JSON they can only be inside strings.
_SEPARATORS = {b"\xc2\x85": b"\\u0085", b"\xe2\x80\xa8": b"\\u2028", b"\xe2\x80\xa9": b"\\u2029"}
_find_separator = re.compile(b"\xc2\x85|\xe2\x80[\xa8\xa9]").search
_MAX_DEPTH = 200
#: Levels of what can be compared; orjson's.
MOST_DEEP = 254
_OPTIONS = (
    orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_SUBCLASS
)


def clean_text(text: str) -> str:
    """``text`` with every lone surrogate replaced by U+FFFD, so that it encodes as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return _LONE.sub("�", text)
    return text


def dumps(value: t.Any) -> bytes:
    """``value`` as compact UTF-8 JSON. Never raises for what a run can produce (see the module's table).

    Do not keep the result for long: its buffer was over-allocated by orjson and pins about 4 KB.
    """
    try:
        data = orjson.dumps(value, option=_OPTIONS)
    except (TypeError, ValueError, RecursionError):
        data = orjson.dumps(plain(value), option=_OPTIONS)
    # One search is the quickest for a token, three plain ones for a megabyte.
    if data.isascii() or (len(data) < 1024 and _find_separator(data) is None):
        return data
    for separator, escaped in _SEPARATORS.items():
        data = data.replace(separator, escaped)
    return data


def canonical(value: t.Any) -> bytes:
    """JSON that is the same for values that are the same: members are in order of their names. For comparing, not for
    reading.

    :param value: as :func:`loads` gives it.
    :raises ValueError: it nests deeper than :data:`MOST_DEEP`; ``loads`` takes four times that.
    """
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError as error:
        raise ValueError(f"it nests deeper than {MOST_DEEP} levels") from error


def loads(data: bytes | str) -> t.Any:
    """Strict JSON to Python.

    :raises ValueError: it is not JSON.
    """
    return orjson.loads(data)


def plain(value: t.Any) -> t.Any:
    """``value`` rebuilt from None, bool, int, float, str, list and dict only (see the module's table)."""
    return _plain(value, 0)


def _plain(value: t.Any, depth: int) -> t.Any:
    if depth > _MAX_DEPTH:
        return "[unserializable]"
    if isinstance(value, enum.Enum):
        return _plain(value.value, depth + 1)
    if value is None or isinstance(value, (str, int, float)):
        return _primitive(value)
    if isinstance(value, Mapping):
        return {_key(k): _plain(v, depth + 1) for k, v in value.items()}
    if isinstance(value, (list, tuple, Iterator)):
        return [_plain(v, depth + 1) for v in value]
    if isinstance(value, Set):
        items = [_plain(v, depth + 1) for v in value]
        try:
            return sorted(items)
        except TypeError:
            return items
    return _scalar(value, depth)


def _primitive(value: str | int | float | None) -> t.Any:
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return clean_text(str(value))
    if isinstance(value, int):
        return int(value) if -(2**63) <= value < 2**64 else str(value)
    return float(value) if math.isfinite(value) else None


def _key(key: t.Any) -> str:
    if isinstance(key, str):
        return clean_text(key)
    inner = _plain(key, _MAX_DEPTH)
    return inner if isinstance(inner, str) else orjson.dumps(inner).decode()


def _scalar(value: t.Any, depth: int) -> t.Any:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"$bytes": base64.b64encode(bytes(value)).decode()}
    if isinstance(value, dt.datetime):
        if value.tzinfo is None:
            return value.isoformat()
        return value.astimezone(dt.UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, (dt.date, dt.time)):
        return value.isoformat()
    if isinstance(value, dt.timedelta):
        return value.total_seconds()
    if isinstance(value, decimal.Decimal):
        return str(value) if value.is_finite() else None
    if isinstance(value, (uuid.UUID, pathlib.PurePath)):
        return str(value)
    if isinstance(value, msgspec.Struct):
        return _plain(msgspec.structs.asdict(value), depth + 1)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        return _plain(fields, depth + 1)
    return f"[{type(value).__name__}]"
