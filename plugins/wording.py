"""Clauses that messages share: what was probably meant, and what there is.

Law of this room: to find the nearest of many names takes milliseconds, so whoever may have thousands of names to look
for says how many of them are worth it (:func:`at_most`).
"""

from __future__ import annotations

import difflib
import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

#: Characters of a mistyped name that are compared.
_COMPARED = 100
#: How like a name another one has to be, from 0 to 1; how many are named; how many are compared closely.
_LIKE, _NAMED, _CLOSELY = 0.6, 3, 40


class _Few:
    """The names nearest to some others, looked for a number of times; what was found is kept."""

    def __init__(self, most: int) -> None:
        self._left = most
        self._found: dict[tuple[str, ...], list[str]] = {}

    def near(self, name: str, by_lower: Mapping[str, str]) -> list[str]:
        asked = (name, *by_lower.values())
        found = self._found.get(asked)
        if found is None:
            if not self._left:
                return []
            self._left -= 1
            found = self._found[asked] = _near(name, by_lower)
        return found


_FEW: ContextVar[_Few | None] = ContextVar("studio_few_hints", default=None)


@contextmanager
def at_most(names: int) -> Iterator[None]:
    """While open, what is near is looked for of so many different names; of further ones nothing is."""
    token = _FEW.set(_Few(names))
    try:
        yield
    finally:
        _FEW.reset(token)


def near(name: str, known: Iterable[str]) -> list[str]:
    """The known names nearest to ``name``, the nearest first; at most three."""
    by_lower = {other.lower(): other for other in known}
    few, name = _FEW.get(), name[:_COMPARED].lower()
    return _near(name, by_lower) if few is None else few.near(name, by_lower)


def _near(name: str, by_lower: Mapping[str, str]) -> list[str]:
    """As of ``difflib.get_close_matches``, which compares closely whatever has the same letters."""
    matcher = difflib.SequenceMatcher()
    matcher.set_seq2(name)
    likely = []
    for other in by_lower:
        matcher.set_seq1(other)
        if matcher.real_quick_ratio() >= _LIKE and (like := matcher.quick_ratio()) >= _LIKE:
            likely.append((like, other))
    alike = []
    for _, other in heapq.nlargest(_CLOSELY, likely):
        matcher.set_seq1(other)
        if (like := matcher.ratio()) >= _LIKE:
            alike.append((like, other))
    return [by_lower[other] for _, other in heapq.nlargest(_NAMED, alike)]


def either(names: Iterable[str]) -> str:
    """``names`` in quotes, as alternatives."""
    return " or ".join(f'"{name}"' for name in names)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A clause in brackets, with a space before it; empty when nothing is near."""
    found = near(name, known)
    return f" (did you mean {either(found)}?)" if found else ""


def listed(names: Iterable[str], limit: int = 20) -> str:
    """``names`` by commas, and how many more there are."""
    known = list(names)
    more = f" and {len(known) - limit} more" if len(known) > limit else ""
    return (", ".join(known[:limit]) or "none") + more


def such_as(family_id: str, names: Sequence[str]) -> str:
    """A clause with the first of a family's models; empty when it has none to show."""
    return f', for example "{family_id}/{names[0]}"' if names else ""
