"""The built-in tools ``clock`` and ``calculator``.

Law of this room: a tool reads no file, no network and no environment unless its description says so,
is bounded in time and memory whatever its arguments are, and says no by :class:`ToolFailed` with a
sentence the model can act on.
"""

from __future__ import annotations

import ast
import datetime as dt
import math
import operator
import re
import typing as t
import zoneinfo
from collections.abc import Callable, Mapping

from plugins.spec.tools import Tool, ToolContext, ToolFailed

#: Longest expression, in characters, and most operations in it.
_MAX_LENGTH = 500
_MAX_NODES = 200
#: Integers of more bits, and exponents beyond this, are refused: each step stays below a millisecond.
_MAX_BITS = 4096
_MAX_EXPONENT = 4096
#: round() of an integer to minus n digits computes ten to the power of n.
_MAX_DIGITS = 300
_ZONE = re.compile(r"[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+){0,3}")

_Number = int | float


def _round(value: _Number, digits: _Number = 0) -> _Number:
    if not isinstance(digits, int) or abs(digits) > _MAX_DIGITS:
        raise ToolFailed(f"round takes a whole number of digits, at most {_MAX_DIGITS}.")
    return round(value, digits) if digits else round(value)


_BINARY: Mapping[type[ast.operator], Callable[[t.Any, t.Any], t.Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_UNARY: Mapping[type[ast.unaryop], Callable[[t.Any], t.Any]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}
_CONSTANTS: Mapping[str, float] = {"pi": math.pi, "e": math.e, "tau": math.tau}
_FUNCTIONS: Mapping[str, Callable[..., t.Any]] = {
    "abs": abs,
    "round": _round,
    "min": min,
    "max": max,
    "sqrt": math.sqrt,
    "exp": math.exp,
    "log": math.log,
    "log2": math.log2,
    "log10": math.log10,
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "floor": math.floor,
    "ceil": math.ceil,
}


def _clock(arguments: dict[str, t.Any], context: ToolContext) -> dict[str, str]:
    name = arguments.get("timezone") or "UTC"
    # ZoneInfo opens a file below the zone folders: the pattern keeps names from climbing out.
    if not isinstance(name, str) or not _ZONE.fullmatch(name):
        raise ToolFailed(_unknown_zone(name))
    try:
        # UTC also where the machine has no time zone data.
        zone: dt.tzinfo = dt.UTC if name == "UTC" else zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise ToolFailed(_unknown_zone(name)) from None
    now = dt.datetime.fromtimestamp(context.now_ms() / 1000, zone)
    return {"time": now.isoformat(timespec="seconds"), "timezone": name, "weekday": now.strftime("%A")}


def _unknown_zone(name: object) -> str:
    return f"Unknown timezone {str(name)[:64]!r}; use an IANA name such as Europe/Lisbon, or leave it out for UTC."


def _calculator(arguments: dict[str, t.Any], context: ToolContext) -> dict[str, _Number]:
    return {"result": calculate(arguments["expression"])}


def calculate(expression: str) -> _Number:
    """The value of an arithmetic ``expression``: ``+ - * / // % **``, brackets, ``pi e tau`` and a few functions.

    ``^`` is taken for a power. Cost is bounded by limits on length, depth and size of numbers.

    :raises ToolFailed: it is something else, too large, or undefined.
    """
    if len(expression) > _MAX_LENGTH:
        raise ToolFailed(
            f"The expression has {len(expression)} characters; at most {_MAX_LENGTH} are allowed."
        )
    try:
        tree = ast.parse(expression.strip().replace("^", "**"), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ToolFailed(f"{expression!r} is not an arithmetic expression.") from None
    if sum(1 for _ in ast.walk(tree)) > _MAX_NODES:
        raise ToolFailed("The expression has too many parts; split it into several calls.")
    try:
        value = _evaluate(tree.body)
    except ZeroDivisionError:
        raise ToolFailed("Division by zero.") from None
    except (OverflowError, ValueError, TypeError) as error:
        raise ToolFailed(f"The expression cannot be calculated: {error}.") from None
    if isinstance(value, float) and not math.isfinite(value):
        raise ToolFailed("The result is too large or not a number.")
    return value


def _evaluate(node: ast.expr) -> _Number:
    match node:
        case ast.Constant(value=value) if type(value) in (int, float):
            return _bounded(t.cast(_Number, value))
        case ast.Name(id=name) if name in _CONSTANTS:
            return _CONSTANTS[name]
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
            return _bounded(_UNARY[type(op)](_evaluate(operand)))
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return _power(_evaluate(left), _evaluate(right))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _bounded(_BINARY[type(op)](_evaluate(left), _evaluate(right)))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS and args:
            return _bounded(_FUNCTIONS[name](*map(_evaluate, args)))
    raise ToolFailed(
        f"{ast.unparse(node)!r} is not allowed; use numbers, + - * / // % **, brackets, "
        f"{', '.join(_CONSTANTS)} and {', '.join(_FUNCTIONS)}."
    )


def _power(base: _Number, exponent: _Number) -> _Number:
    if abs(exponent) > _MAX_EXPONENT:
        raise ToolFailed(f"The exponent {exponent} is too large; at most {_MAX_EXPONENT} is allowed.")
    if isinstance(base, int) and isinstance(exponent, int) and base.bit_length() * abs(exponent) > _MAX_BITS:
        raise ToolFailed("The result is too large; use floating-point numbers, e.g. 2.0 ** 900.")
    value = base**exponent
    if isinstance(value, complex):
        raise ToolFailed("The result is not a real number.")
    return _bounded(t.cast(_Number, value))


def _bounded(value: _Number) -> _Number:
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        raise ToolFailed("A number in the expression is too large.")
    return value


CLOCK = Tool(
    name="clock",
    description="The current date and time, ISO 8601 with UTC offset, and the weekday.",
    parameters={
        "type": "object",
        "properties": {
            "timezone": {
                "type": "string",
                "description": "IANA name such as Europe/Lisbon. Default: UTC.",
            }
        },
        "additionalProperties": False,
    },
    run=_clock,
    idempotent=True,
)

CALCULATOR = Tool(
    name="calculator",
    description="The value of an arithmetic expression, e.g. (3 + 4) * 2 ** 0.5 or round(10 / 3, 2).",
    parameters={
        "type": "object",
        "properties": {"expression": {"type": "string", "description": "The expression."}},
        "required": ["expression"],
        "additionalProperties": False,
    },
    run=_calculator,
    idempotent=True,
)

TOOLS = (CLOCK, CALCULATOR)
