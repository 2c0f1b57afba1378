"""The clock tells the time of the run; the calculator calculates and is bounded."""

from __future__ import annotations

import math
import typing as t

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engine.scope import RunScope
from plugins.spec import ToolContext, ToolFailed
from plugins.tools import CALCULATOR, CLOCK, TOOLS, calculate

NOON = 1_767_268_800_000  # 2026-01-01T12:00:00Z, a Thursday


def context(now_ms: int = NOON) -> ToolContext:
    return ToolContext(RunScope(), "run_1", "call_1", 10.0, now_ms=lambda: now_ms)


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_parameters_are_a_json_schema_of_an_object(tool: t.Any) -> None:
    jsonschema.Draft202012Validator.check_schema(tool.parameters)
    assert tool.parameters["type"] == "object"


def test_the_clock_tells_the_time() -> None:
    assert CLOCK.run({}, context()) == {
        "time": "2026-01-01T12:00:00+00:00",
        "timezone": "UTC",
        "weekday": "Thursday",
    }
    assert CLOCK.run({"timezone": "Asia/Kolkata"}, context())["time"] == "2026-01-01T17:30:00+05:30"


@pytest.mark.parametrize(
    "zone", ["Mars/Base", "../../etc/passwd", "/etc/localtime", "UTC\x00", "Europe", "a" * 500]
)
def test_an_unknown_zone_is_told_an_example(zone: str) -> None:
    with pytest.raises(ToolFailed, match="Europe/Lisbon"):
        CLOCK.run({"timezone": zone}, context())


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("2 ** 10", 1024),
        ("2 ^ 10", 1024),
        ("-2 ** 2", -4),
        ("7 / 2", 3.5),
        ("7 // 2", 3),
        ("7 % 4", 3),
        ("1e3", 1000.0),
        ("round(10 / 3, 2)", 3.33),
        ("sqrt(16) + abs(-1)", 5.0),
        ("max(1, 2, 3)", 3),
        (" 1 ", 1),
        ("pi", math.pi),
        ("0xff", 255),
    ],
)
def test_the_calculator_calculates(expression: str, value: float) -> None:
    assert CALCULATOR.run({"expression": expression}, context()) == {"result": value}


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "1 +",
        "a",
        "__import__('os')",
        "(1).__class__",
        "'a' * 9",
        "[1] * 9",
        "1 if 1 else 2",
        "lambda: 1",
        "True",
        "1j",
        "f(1)",
        "sqrt()",
        "round(1.5, ndigits=1)",
        "max(*[1])",
        "1; 2",
        "1 / 0",
        "5 % 0",
        "sqrt(-1)",
        "log(0)",
        "(-8) ** 0.5",
        "1e308 * 10",
        "10.0 ** 400",
        "9 ** 9 ** 9",
        "9 ** 99999999",
        "2 ** -5000",
        "(10 ** 1000) ** 1000",
        "exp(1000)",
        "1 << 3",
        "~1",
        "0 if (x := 1) else 1",
        "\x00",
        "9" * 501,
        "(" * 300 + "1" + ")" * 200,
        "+".join("1" * 200),
        "-" * 400 + "1",
        "round(1, 10 ** 30)",
        "round(12345, -10 ** 9)",
        "round(1, 0.5)",
    ],
)
def test_what_is_not_arithmetic_or_too_large_is_refused(expression: str) -> None:
    with pytest.raises(ToolFailed) as caught:
        calculate(expression)
    assert str(caught.value)


@given(st.text(alphabet="0123456789+-*/%^(). e,minaxroud", max_size=60))
def test_any_text_gives_a_finite_number_or_a_refusal(expression: str) -> None:
    try:
        value = calculate(expression)
    except ToolFailed:
        return
    assert isinstance(value, (int, float))
    assert math.isfinite(value) if isinstance(value, float) else value.bit_length() <= 4096
