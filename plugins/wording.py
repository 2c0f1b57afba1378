"""Clauses that messages share: what was probably meant, and what there is."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

#: Characters of a mistyped name that are compared.
_COMPARED = 100


def near(name: str, known: Iterable[str]) -> list[str]:
    """The known names nearest to ``name``, the nearest first; at most three."""
    by_lower = {other.lower(): other for other in known}
    matches = difflib.get_close_matches(name[:_COMPARED].lower(), by_lower, 3, 0.6)
    return [by_lower[match] for match in matches]


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
