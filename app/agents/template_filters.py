"""Filters, tests and methods of templates. What is not here cannot be reached.

Law of this room: each one charges what it looks at and knows the size of what it makes before it makes
it. Python's own form of a value never shows: texts are made by ``template_operators.text``.
"""

from __future__ import annotations

import base64
import functools
import json
import typing as t
from collections.abc import Callable, Iterable, Iterator, Mapping

from jinja2 import filters as builtin
from jinja2 import pass_environment
from jinja2.runtime import Undefined

from app import encoding
from app.agents.citations import cited
from app.agents.template_budget import Refused, current
from app.agents.template_operators import printf, settled, text
from app.workflows.template_syntax import FILTERS, TESTS, words

_MAX_WIDTH = 10_000
_MAX_WRAPPED = 200_000
_MAX_SPLIT = 1_000_000
_F = t.TypeVar("_F", bound=Callable[..., t.Any])


def key(value: t.Any) -> t.Any:
    """A key of an object: text, number, true, false or null. Hashing anything deeper can take for ever."""
    if value is None or isinstance(value, (str, int, float)):
        return value
    raise Refused("a key must be a text or a number")


def entries(value: t.Any) -> list[t.Any]:
    """What is iterated over as a list of bounded length."""
    meter = current.get()
    if isinstance(value, (str, list, tuple, Mapping, range)):
        meter.list_fits(len(value))
        meter.spend(len(value) // 16)
    made = list(value)
    meter.list_fits(len(made))
    return made


def counted(values: Iterable[t.Any], cost: int = 1) -> Iterator[t.Any]:
    """``values`` one by one, each charged."""
    meter = current.get()
    for value in values:
        meter.spend(cost)
        yield value


def make_range(*bounds: int) -> range:
    """``range(...)`` of at most as many numbers as a list may have."""
    made = range(*bounds)
    # len() of a range beyond 64 bits raises OverflowError, which is a refusal as well.
    current.get().list_fits(len(made))
    return made


# -- filters that jinja has not, or not within limits --------------------------------------------


def _width(value: t.Any) -> int:
    if not isinstance(value, int) or abs(value) > _MAX_WIDTH:
        raise Refused(f"a width must be a number of at most {_MAX_WIDTH}")
    return int(value)


def _slow(value: str) -> str:
    """A text that Python looks at word by word: dearer than one it scans."""
    current.get().spend(len(value) // 16)
    return value


def _center(value: t.Any, width: int = 80) -> str:
    return text(value).center(_width(width))


def _indent(value: t.Any, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    source = text(value)
    step = width if isinstance(width, str) else " " * _width(width)
    current.get().make(len(source) + (source.count("\n") + 1) * len(step))
    lines = source.split("\n")
    indented = [
        step + line if (line or blank) and (index or first) else line for index, line in enumerate(lines)
    ]
    return "\n".join(indented)


@pass_environment
def _wordwrap(environment: t.Any, value: t.Any, width: int = 79, break_long_words: bool = True) -> str:
    source = text(value)
    if len(source) > _MAX_WRAPPED or _width(width) < 1:
        raise Refused(f"wordwrap takes texts of up to {_MAX_WRAPPED} characters and a width of at least 1")
    current.get().spend(len(source) // 8)
    return builtin.do_wordwrap(environment, source, width, break_long_words, "\n")


def _format(value: t.Any, *args: t.Any, **kwargs: t.Any) -> str:
    return printf(text(value), kwargs or args, current.get())


def _join(value: t.Any, separator: t.Any = "", attribute: str | int | None = None) -> str:
    members = [text(member) for member in _attributes(value, attribute)]
    between = text(separator)
    current.get().make(sum(map(len, members)) + len(between) * max(len(members) - 1, 0))
    return between.join(members)


def _attributes(value: t.Any, attribute: str | int | None) -> list[t.Any]:
    members = entries(value)
    if attribute is None:
        return members
    steps = [int(s) if s.isdecimal() and len(s) < 10 else s for s in str(attribute).split(".")]
    return [_follow(member, steps) for member in members]


def _follow(value: t.Any, steps: list[int | str]) -> t.Any:
    for step in steps:
        if isinstance(value, Mapping):
            value = value.get(step, value.get(str(step)))
        elif isinstance(value, (list, tuple)) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return value


def _replace(value: t.Any, old: t.Any, new: t.Any, count: int | None = None) -> str:
    source, out, into = text(value), text(old), text(new)
    times = source.count(out) if count is None or count < 0 else min(source.count(out), count)
    current.get().make(len(source) + times * len(into))
    return source.replace(out, into, times)


def _sum(value: t.Any, attribute: str | int | None = None, start: t.Any = 0) -> t.Any:
    numbers = [start, *_attributes(value, attribute)]
    if not all(isinstance(n, (int, float)) for n in numbers):
        raise Refused("sum is for numbers")
    return sum(numbers)


def _int(value: t.Any, default: int = 0, base: int = 10) -> int:
    if isinstance(value, str) and len(value) > 300:
        return default
    return builtin.do_int(value, default, base)


def _round(value: float, precision: t.Any = 0, method: t.Any = "common") -> float:
    if not isinstance(precision, int) or abs(precision) > 30:
        raise Refused("round takes at most 30 digits")
    return builtin.do_round(value, precision, method)


def _batch(value: t.Any, size: int, fill: t.Any = None) -> list[list[t.Any]]:
    return list(builtin.do_batch(entries(value), max(_width(size), 1), fill))


def _slice(value: t.Any, count: int, fill: t.Any = None) -> list[list[t.Any]]:
    members = entries(value)
    count = max(_width(count), 1)
    size, longer = divmod(len(members), count)
    parts = []
    start = 0
    for index in range(count):
        end = start + size + (index < longer)
        part = members[start:end]
        if fill is not None and index >= longer and longer:
            part.append(fill)
        parts.append(part)
        start = end
    return parts


def _tojson(value: t.Any, indent: t.Any = None) -> str:
    value = settled(value)
    if indent is None:
        return encoding.dumps(value).decode()
    if not isinstance(indent, int) or not 0 <= indent <= 8:
        raise Refused("tojson takes an indent of 0 to 8")
    return json.dumps(encoding.plain(value), indent=indent, ensure_ascii=False)


def _length(value: t.Any) -> int:
    return len(entries(value)) if isinstance(value, Iterator) else len(value)


def _truncate(
    value: t.Any, length: int = 255, killwords: bool = False, end: str = "...", leeway: int = 5
) -> str:
    source, tail = text(value), text(end)
    if length < len(tail):
        raise Refused("truncate takes a length of at least that of its end")
    if len(source) <= length + leeway:
        return source
    cut = source[: length - len(tail)]
    return (cut if killwords else cut.rsplit(" ", 1)[0]) + tail


def _urlencode(value: t.Any) -> str:
    if not isinstance(value, Mapping):
        value = text(value)
        current.get().make(len(value.encode(errors="replace")) * 3)
    return builtin.do_urlencode(value)


def _b64encode(value: t.Any) -> str:
    """What the Basic scheme sends: ``{{ (user ~ ':' ~ password)|b64encode }}``."""
    data = text(value).encode("utf-8", "replace")
    current.get().make(len(data) * 4 // 3 + 4)
    return base64.b64encode(data).decode()


def _cited(value: t.Any, passages: t.Any = None) -> list[t.Any]:
    """The passages a text cites: ``{{ blocks.answer.content | cited(blocks.find.results) }}``."""
    if isinstance(value, Undefined) or not isinstance(passages, (list, tuple)):
        return []
    return cited(_slow(text(value)), passages)


#: Filters of one text.
_TEXT: dict[str, Callable[..., t.Any]] = {
    "capitalize": lambda value: text(value).capitalize(),
    "lower": lambda value: text(value).lower(),
    "upper": lambda value: text(value).upper(),
    "trim": lambda value, chars=None: text(value).strip(chars),
    "title": lambda value: builtin.do_title(_slow(text(value))),
    "wordcount": lambda value: builtin.do_wordcount(_slow(text(value))),
    "string": text,
    "center": _center,
    "indent": _indent,
    "wordwrap": _wordwrap,
    "format": _format,
    "replace": _replace,
    "truncate": _truncate,
    "urlencode": _urlencode,
    "b64encode": _b64encode,
    "cited": _cited,
}
#: Filters that look at everything in a list: it is made whole and weighed first.
_WHOLE: dict[str, Callable[..., t.Any]] = {
    **{name: builtin.FILTERS[name] for name in ("groupby", "max", "min", "sort", "unique")},
    "batch": _batch,
    "join": _join,
    "list": entries,
    "slice": _slice,
    "sum": _sum,
}
_LAZY = words("abs d default first float items last map reject rejectattr reverse select selectattr")
#: Filters that look at little or go through a list lazily.
_LIGHT: dict[str, Callable[..., t.Any]] = {
    **{name: builtin.FILTERS[name] for name in _LAZY},
    "count": _length,
    "length": _length,
    "int": _int,
    "round": _round,
    "tojson": _tojson,
    "dictsort": builtin.do_dictsort,
}


def _metered(function: _F, whole: bool) -> _F:
    """``function`` with its arguments charged before and its result after.

    :param whole: the value is made a list first and weighed in all its depth.
    """
    first = 1 if hasattr(function, "jinja_pass_arg") else 0

    @functools.wraps(function)
    def metered(*args: t.Any, **kwargs: t.Any) -> t.Any:
        meter = current.get()
        meter.spend(1)
        given = list(args)
        if whole:
            given[first] = entries(given[first])
        for value in given[first if whole or isinstance(given[first], (str, Mapping)) else first + 1 :]:
            meter.weigh(value)
        for value in kwargs.values():
            meter.weigh(value)
        result = function(*given, **kwargs)
        if isinstance(result, str):
            meter.make(len(result))
        elif isinstance(result, list):
            meter.list_fits(len(result))
        elif isinstance(result, Iterator):
            return counted(result)
        return result

    return t.cast(_F, metered)


def _turns(value: t.Any, cost: int) -> Iterator[t.Any]:
    return counted(value, cost)


def _weighed(value: t.Any) -> t.Any:
    current.get().weigh(value)
    return value


def _sliced(value: t.Any) -> t.Any:
    if isinstance(value, Undefined):
        return ""
    if not isinstance(value, (str, list, tuple)):
        raise Refused("only texts and lists have parts [a:b]")
    current.get().spend(1 + len(value) // 16)
    return value


def _concat(values: list[t.Any]) -> str:
    parts = [text(value) for value in values]
    current.get().make(sum(map(len, parts)))
    return "".join(parts)


def filters() -> dict[str, Callable[..., t.Any]]:
    """Every filter by name; those that begin with ``_`` are put in by ``templates`` and cannot be written."""
    made = {name: _metered(function, False) for name, function in {**_TEXT, **_LIGHT}.items()}
    made |= {name: _metered(function, True) for name, function in _WHOLE.items()}
    assert made.keys() == FILTERS, made.keys() ^ FILTERS
    return {**made, "_turns": _turns, "_weigh": _weighed, "_sliced": _sliced, "_key": key, "_concat": _concat}


def tests(known: Mapping[str, Callable[..., t.Any]]) -> dict[str, Callable[..., t.Any]]:
    """The tests of ``known`` that templates have, with their arguments weighed."""

    def metered(function: Callable[..., t.Any]) -> Callable[..., t.Any]:
        @functools.wraps(function)
        def test(*args: t.Any) -> t.Any:
            meter = current.get()
            meter.spend(1)
            for value in args:
                meter.weigh(value)
            return function(*args)

        return test

    return {name: metered(known[name]) for name in TESTS}


# -- methods ---------------------------------------------------------------------------------------

_TEXT_METHODS = words(
    "upper lower strip lstrip rstrip title capitalize casefold swapcase startswith endswith find rfind "
    "index count isdigit isdecimal isnumeric isalpha isalnum isspace islower isupper removeprefix "
    "removesuffix partition rpartition"
)
_SPLITS = frozenset({"split", "rsplit", "splitlines"})
_LIST_METHODS = frozenset({"index", "count"})
_OBJECT_METHODS = frozenset({"get", "items", "keys", "values"})


class Method:
    """A method that may be called, bound to its value. Arguments were weighed by whoever calls it."""

    __slots__ = ("_function", "_owner")

    def __init__(self, owner: t.Any, function: Callable[..., t.Any]) -> None:
        self._owner = owner
        self._function = function

    def __call__(self, *args: t.Any, **kwargs: t.Any) -> t.Any:
        """Charge the value the method looks at, then run it."""
        meter = current.get()
        if isinstance(self._owner, (str, list, tuple)):
            meter.weigh(self._owner)
        result = self._function(*args, **kwargs)
        if isinstance(result, list):
            meter.list_fits(len(result))
        return result


def method(owner: t.Any, name: str) -> Method | None:
    """``owner.name`` where it is listed for the type of ``owner``."""
    if isinstance(owner, str):
        if name in _TEXT_METHODS:
            return Method(owner, getattr(owner, name))
        if name in _SPLITS and len(owner) <= _MAX_SPLIT:
            return Method(owner, getattr(owner, name))
        if name == "replace":
            return Method(owner, functools.partial(_replace, owner))
        if name == "join":
            return Method(owner, lambda values: _join(values, owner))
    elif isinstance(owner, Mapping):
        if name == "get":
            return Method(owner, lambda wanted, default=None: owner.get(key(wanted), default))
        if name in _OBJECT_METHODS:
            return Method(owner, lambda: entries(getattr(owner, name)()))
    elif isinstance(owner, (list, tuple)) and name in _LIST_METHODS:
        return Method(owner, getattr(owner, name))
    return None
