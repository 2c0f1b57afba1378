"""Searching, filtering and sorting the rows of the capability table.

Law of this room: pure, and the same for the page and the command line. A figure that is not known is last,
whichever way the rows are sorted.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace

from plugins.capabilities import VALUES

Row = Mapping[str, t.Any]

#: What rows can be narrowed by: the name in a query → the column.
FILTERS: Mapping[str, str] = {
    "family": "family",
    "thinking": "thinking",
    "tools": "tools",
    "structured": "structuredOutput",
    "input": "inputs",
}
#: The values of each filter but ``family``, whose values depend on the plugins.
CHOICES: Mapping[str, tuple[str, ...]] = {
    "thinking": VALUES["thinking"],
    "tools": VALUES["tools"],
    "structured": VALUES["structured_output"],
    "input": VALUES["inputs"],
}
MAX_SEARCH = 200
MAX_PAGE = 10_000


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked of the table; every member as in the page's address.

    :ivar q: words that all have to occur in a row.
    :ivar sort: one of :data:`SORTS`, with ``-`` before it for the other direction; empty: families as they are
        registered.
    :ivar page: from 1.
    """

    q: str = ""
    family: str = ""
    thinking: str = ""
    tools: str = ""
    structured: str = ""
    input: str = ""
    sort: str = ""
    page: int = 1

    def parameters(self) -> list[tuple[str, str]]:
        """The members that differ from the default, for an address."""
        default = Query()
        return [
            (entry.name, str(getattr(self, entry.name)))
            for entry in fields(self)
            if getattr(self, entry.name) != getattr(default, entry.name)
        ]

    def sorted_by(self, column: str) -> Query:
        """The same rows by ``column``, from the first; the other way round when they are by it already."""
        return replace(self, sort=f"-{column}" if self.sort == column else column, page=1)


def parse(given: Mapping[str, str], families: Collection[str]) -> tuple[Query, list[str]]:
    """The query in ``given``, and a sentence for every value that means nothing; such a value is left out."""
    found: dict[str, t.Any] = {"q": " ".join(given.get("q", "").split())[:MAX_SEARCH]}
    problems = []
    allowed: dict[str, Collection[str]] = {"family": families, **CHOICES, "sort": (*SORTS, *_reversed())}
    for name, choices in allowed.items():
        value = given.get(name, "").strip()
        if not value or value in choices:
            found[name] = value
        else:
            shown = [choice for choice in choices if not choice.startswith("-")]
            problems.append(f"There is no {name} “{value[:60]}”; there are {', '.join(shown)}.")
    page = given.get("page", "1").strip()
    number = int(page[:9]) if page.isascii() and page.isdigit() else 1
    found["page"] = min(max(number, 1), MAX_PAGE)
    return Query(**found), problems


def select(rows: Sequence[Row], query: Query, text_of: Callable[[Row], str] | None = None) -> list[Row]:
    """The rows that ``query`` asks for, in its order; pages are not cut.

    :param text_of: what :func:`searched` gives for a row, where it is kept.
    """
    found: Iterable[Row] = rows
    for name, column in FILTERS.items():
        wanted = getattr(query, name)
        if wanted:
            found = [row for row in found if _holds(row[column], wanted)]
    words = query.q.lower().split()
    if words:
        text_of = text_of or searched
        found = [row for row in found if all(word in text for text in (text_of(row),) for word in words)]
    return _ordered(found, query.sort)


def searched(row: Row) -> str:
    """The text of a row in which words are looked for."""
    return " ".join((row["id"], row["title"], row["notes"])).lower()


def _holds(value: t.Any, wanted: str) -> bool:
    return wanted in value if isinstance(value, list) else bool(value == wanted)


def _rank(field: str, column: str) -> Callable[[Row], t.Any]:
    order = VALUES[field]
    return lambda row: order.index(row[column])


def _input_price(row: Row) -> t.Any:
    return row["price"] and (row["price"]["input"], row["price"]["output"])


#: Column → what it is sorted by; None where it is not known.
SORTS: Mapping[str, Callable[[Row], t.Any]] = {
    "model": lambda row: row["id"],
    "thinking": _rank("thinking", "thinking"),
    "tools": _rank("tools", "tools"),
    "structured": _rank("structured_output", "structuredOutput"),
    "inputs": lambda row: len(row["inputs"]),
    "context": lambda row: row["contextWindow"],
    "output": lambda row: row["maxOutput"],
    "price": _input_price,
}


def _reversed() -> list[str]:
    return [f"-{name}" for name in SORTS]


def _ordered(rows: Iterable[Row], sort: str) -> list[Row]:
    if not sort:
        return list(rows)
    key = SORTS[sort.removeprefix("-")]
    known: list[tuple[t.Any, Row]] = []
    unknown: list[tuple[t.Any, Row]] = []
    for row in rows:
        value = key(row)
        (unknown if value is None else known).append((value, row))
    known.sort(key=lambda pair: pair[0], reverse=sort.startswith("-"))
    return [row for _, row in (*known, *unknown)]
