"""Schemas made from dataclasses."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from marshmallow import fields as ma

from app.schemas.derive import describe, load, schema_for
from app.schemas.fields import MOST_TOLD


@dataclass(frozen=True)
class Inner:
    """A part."""

    size: int = field(metadata={"doc": "How big.", "low": 1, "high": 3})


@dataclass(frozen=True)
class Shape:
    """All kinds."""

    name: str = field(metadata={"doc": "What it is called.", "nonempty": True, "most": 5})
    flag: bool = False
    ratio: float = field(default=1.0, metadata={"above": 0})
    mode: t.Literal["fast", "slow"] = "fast"
    level: str | int | None = None
    words: tuple[str, ...] = ()
    parts: list[Inner] = field(default_factory=list)
    part: Inner | None = None
    table: Mapping[str, int] = field(default_factory=dict)
    free: t.Any = None
    shown_as: str = field(default="", metadata={"key": "shownAs"})
    own: t.Any = field(default=None, metadata={"field": ma.Integer(strict=True)})


def shape(**more: t.Any) -> dict[str, t.Any]:
    return {"name": "x", **more}


def test_good_values_become_an_instance():
    data = shape(
        flag=True, ratio=2, mode="slow", level=3, words=["a"], parts=[{"size": 1}], part={"size": 2},
        table={"a": 1}, free={"x": None}, shownAs="y", own=4,
    )  # fmt: skip
    made, problems = load(Shape, data)
    assert problems == []
    assert made == Shape("x", True, 2, "slow", 3, ("a",), [Inner(1)], Inner(2), {"a": 1}, {"x": None}, "y", 4)


def test_null_is_unset_or_a_problem():
    nulls = shape(flag=None, mode=None, level=None, words=None, part=None, table=None, free=None)
    assert load(Shape, nulls) == (Shape("x"), [])
    assert [p.path for p in load(Shape, {"name": None})[1]] == ["name"]
    strict = [p.path for p in load(Shape, nulls, null_unset=False)[1]]
    assert strict == ["flag", "mode", "words", "table"]


@pytest.mark.parametrize(
    ("data", "path", "cure"),
    [
        ({}, "at.name", "required"),
        (shape(name=""), "at.name", "empty"),
        (shape(name="sixsix"), "at.name", "at most 5"),
        (shape(name=1), "at.name", "text, not 1"),
        (shape(flag="true"), "at.flag", 'true or false, not "true"'),
        (shape(flag=1), "at.flag", "true or false"),
        (shape(ratio=True), "at.ratio", "number"),
        (shape(ratio=0), "at.ratio", "above 0"),
        (shape(ratio="1"), "at.ratio", "number"),
        (shape(ratio=float("nan")), "at.ratio", "number"),
        (shape(mode="fsat"), "at.mode", 'Did you mean "fast"?'),
        (shape(mode=1), "at.mode", "fast | slow"),
        (shape(level=[]), "at.level", "text or a whole number"),
        (shape(level=True), "at.level", "text or a whole number"),
        (shape(words="a"), "at.words", "list"),
        (shape(words=["a", 1]), "at.words[1]", "text"),
        (shape(parts=[{"size": 1}, {"size": 9}]), "at.parts[1].size", "from 1 to 3"),
        (shape(parts=[{"size": 1.0}]), "at.parts[0].size", "whole number"),
        (shape(part={"sise": 1, "size": 1}), "at.part.sise", 'Did you mean "size"'),
        (shape(part=3), "at.part", "object"),
        (shape(table={"a b": "x"}), 'at.table["a b"]', "whole number"),
        (shape(table=[]), "at.table", "object"),
        (shape(shown_as="x"), "at.shown_as", 'Did you mean "shownAs"'),
        (shape(own="4"), "at.own", ""),
        ([], "at", "object, not a list"),
        (None, "at", "object, not null"),
    ],
)
def test_a_problem_has_its_path_and_cure(data, path, cure):
    made, problems = load(Shape, data, "at")
    assert made is None
    assert [p.path for p in problems] == [path]
    assert cure in problems[0].message


def test_all_problems_at_once():
    _, problems = load(Shape, {"flag": 1, "words": [1, 2], "x": 1})
    assert {p.path for p in problems} == {"name", "flag", "words[0]", "words[1]", "x"}


@pytest.mark.parametrize(
    ("data", "first", "last"),
    [
        (shape(**{f"x{n}": n for n in range(100_000)}), "x0", ""),
        (shape(words=[1] * 100_000), "words[0]", "words[49]"),
        (shape(parts=[{"size": 9}] * 100_000), "parts[0].size", "parts[49].size"),
        (shape(table={f"x{n}": "" for n in range(100_000)}), "table.x0", "table.x49"),
    ],
    ids=["unknown keys", "list", "list of objects", "table"],
)
def test_a_great_many_problems_are_not_all_told(data, first, last):
    _, problems = load(Shape, data)
    assert (problems[0].path, problems[-1].path) == (first, last)
    assert len(problems) == MOST_TOLD + (last == "")
    assert last or problems[-1].message == "has 99950 more keys that are not known here"


def test_the_schema_class_is_made_once():
    assert schema_for(Shape) is schema_for(Shape)
    assert schema_for(Shape).__name__ == "ShapeSchema"


def test_rows_for_a_reference():
    rows = {row.name: row for row in describe(Shape)}
    assert (rows["name"].required, rows["name"].type, rows["name"].doc) == (
        True,
        "text",
        "What it is called.",
    )
    assert (rows["mode"].type, rows["mode"].default) == ("fast | slow", "fast")
    assert rows["level"].type == "text or a whole number"
    assert rows["words"].type == "a list of text"
    assert rows["shownAs"].default == ""
    assert rows["parts"].default == []


def test_a_type_without_a_rule_is_an_error_of_the_programmer():
    @dataclass(frozen=True)
    class Odd:
        when: complex

    with pytest.raises((TypeError, NameError)):
        schema_for(Odd)
