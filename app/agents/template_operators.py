"""Arithmetic and text of templates: the size of a result is known to be small before it is computed."""

from __future__ import annotations

import operator
import re
import typing as t
from collections.abc import Callable, Iterator, Mapping

from jinja2.runtime import Undefined

from app import encoding
from app.agents.template_budget import Meter, Refused, current

OPERATORS = ("+", "-", "*", "/", "//", "%", "**")
#: Largest number: 1024 bits, about 308 digits; what a float can hold.
_BITS = 1024
#: ``%5.2f`` with a width and a precision of at most three digits; no ``*``, which takes the width from a value.
_DIRECTIVE = re.compile(r"%(?:\([^()]*\))?[#0\- +]*(\d*)(?:\.(\d*))?[hlL]?(.?)", re.DOTALL)

_PLAIN: dict[str, Callable[[t.Any, t.Any], t.Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
}


def apply(symbol: str, left: t.Any, right: t.Any, meter: Meter) -> t.Any:
    """``left symbol right``.

    :raises Refused: the result would be too large, or the operator is not for these values.
    """
    meter.spend(1)
    if isinstance(left, str) and symbol == "%":
        return printf(left, right, meter)
    if symbol == "+":
        _check_sum(left, right, meter)
    elif symbol == "*":
        _check_product(left, right, meter)
    elif symbol == "**":
        _check_power(left, right)
    return _PLAIN[symbol](left, right)


def _bits(number: t.Any) -> int:
    return number.bit_length() if isinstance(number, int) else 0


def _check_sum(left: t.Any, right: t.Any, meter: Meter) -> None:
    if isinstance(left, str) and isinstance(right, str):
        meter.make(len(left) + len(right))
    elif isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        size = len(left) + len(right)
        meter.list_fits(size)
        meter.spend(size // 16)
    elif max(_bits(left), _bits(right)) > _BITS:
        raise Refused("a number is too large")


def _check_product(left: t.Any, right: t.Any, meter: Meter) -> None:
    for one, other in ((left, right), (right, left)):
        if isinstance(one, str):
            meter.make(len(one) * _times(other))
            return
        if isinstance(one, (list, tuple)):
            size = len(one) * _times(other)
            meter.list_fits(size)
            meter.spend(size // 16)
            return
    if _bits(left) + _bits(right) > _BITS:
        raise Refused("a number is too large")


def _times(count: t.Any) -> int:
    return max(count, 0) if isinstance(count, int) else 0


def _check_power(base: t.Any, exponent: t.Any) -> None:
    if isinstance(base, int) and isinstance(exponent, int):
        # A negative exponent of a huge base is as dear as a positive one: the power is made first.
        if abs(base) > 1 and _bits(base) * abs(exponent) > _BITS:
            raise Refused("a number is too large")
    elif _bits(base) > _BITS or _bits(exponent) > _BITS:
        raise Refused("a number is too large")


def printf(pattern: str, values: t.Any, meter: Meter) -> str:
    """``pattern % values`` with narrow fields only.

    :raises Refused: a width or precision above 999, or one taken from a value.
    """
    meter.spend(len(pattern) // 8)
    fields = 0
    for match in _DIRECTIVE.finditer(pattern):
        width, precision, kind = match.groups()
        if kind == "(":
            raise Refused("a key in a format may not hold brackets")
        if kind == "*":
            raise Refused("a format may not take its width from a value; write it out")
        if len(width) > 3 or len(precision or "") > 3:
            raise Refused("a format is wider than 999 characters")
        if kind in ("r", "a"):
            raise Refused("the formats %r and %a are not available; use %s")
        fields += 1
    meter.weigh(values)
    # Each field is its value's text once or, from a mapping, any number of times: the longest text counts for each.
    meter.make(len(pattern) + fields * (1000 + _longest(values)))
    return str(pattern % _prepared(values))


def _longest(values: t.Any) -> int:
    if isinstance(values, str):
        return len(values)
    if isinstance(values, dict):
        return max(map(_longest, values.values()), default=0)
    if isinstance(values, (list, tuple)):
        return max(map(_longest, values), default=0)
    return 0


def _prepared(values: t.Any) -> t.Any:
    """Values for ``%s``: what is no text or number is written as everywhere else, not as Python would."""
    if isinstance(values, tuple):
        return tuple(_for_percent(value) for value in values)
    if isinstance(values, Mapping):
        return {key: _for_percent(value) for key, value in values.items()}
    return _for_percent(values)


def _for_percent(value: t.Any) -> t.Any:
    return value if isinstance(value, (str, int, float)) and not isinstance(value, bool) else text(value)


def text(value: t.Any) -> str:
    """The one text of a value in templates: JSON for objects and lists, ``true``/``false``, nothing for null."""
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, Undefined):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    written = settled(value)
    return written if isinstance(written, str) else encoding.dumps(written).decode()


def settled(value: t.Any) -> t.Any:
    """A value as JSON has it: missing ones are null, lazy ones are lists."""
    if isinstance(value, Iterator):
        value = list(value)
    return value if current.get().weigh(value) else encoding.plain(_without_missing(value))


def _without_missing(value: t.Any) -> t.Any:
    if isinstance(value, Undefined):
        return None
    if isinstance(value, Mapping):
        return {key: _without_missing(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, Iterator)):
        return [_without_missing(item) for item in value]
    return value
