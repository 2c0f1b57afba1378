"""Every value a run can produce has one JSON form (the table of app/encoding.py)."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import json
import pathlib
import typing as t
import uuid

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.encoding import dumps, plain


class Colour(enum.Enum):
    RED = "red"


class Point(msgspec.Struct):
    x: int


@dataclasses.dataclass
class Pair:
    a: t.Any


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (float("nan"), None),
        ({"mean": float("nan"), "rows": [float("-inf"), 1]}, {"mean": None, "rows": [None, 1]}),
        ("ok \ud83d", "ok �"),
        ({"\udcaf": 1}, {"�": 1}),
        (b"\x00\xff", {"$bytes": "AP8="}),
        (dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC), "2026-01-02T03:04:05Z"),
        (dt.date(2026, 1, 2), "2026-01-02"),
        (dt.timedelta(seconds=1.5), 1.5),
        ({3, 1, 2}, [1, 2, 3]),
        ((1, "a"), [1, "a"]),
        (iter([1]), [1]),
        (decimal.Decimal("0.10"), "0.10"),
        (2**70, str(2**70)),
        (Colour.RED, "red"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (pathlib.PurePosixPath("/a"), "/a"),
        (Point(1), {"x": 1}),
        (Pair({1}), {"a": [1]}),
        ({1: "a", None: "b"}, {"1": "a", "null": "b"}),
        (object(), "[object]"),
        ("a\u2028b\u0000\x0b", "a\u2028b\u0000\x0b"),
    ],
)
def test_forms(value: t.Any, form: t.Any) -> None:
    assert json.loads(dumps(value)) == form


def test_cycles_and_depth_end() -> None:
    loop: list[t.Any] = []
    loop.append(loop)
    assert b"[unserializable]" in dumps(loop)


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner),
    max_leaves=20,
)


@given(_values)
def test_whatever_it_is_it_is_one_line_of_strict_json(value: t.Any) -> None:
    def refuse(name: str) -> t.NoReturn:
        raise AssertionError(name)

    encoded = dumps(value)
    assert b"\n" not in encoded
    assert b"\r" not in encoded
    assert json.loads(encoded.decode(), parse_constant=refuse) == json.loads(dumps(plain(value)))
