"""Whether anything was told to somebody who may not know it.

Law of this room: independent of the program: it knows marks, personal data and the table.
"""

from __future__ import annotations

from tests.leaks.marks import marks_in, pieces_in, spoken
from tests.leaks.told import Played, Told


def leaks(played: Played) -> list[str]:
    """A line for everything that is where it must not be."""
    found: dict[str, str] = {}
    for told in played.told:
        for letter, around in _leaks_of(told, played):
            found.setdefault(f"{told.reader} / {told.where} / {letter}", around)
    return [f"{where}: …{around}…" for where, around in found.items()]


def _leaks_of(told: Told, played: Played) -> list[tuple[str, str]]:
    may = told.may
    found = []
    for text in dict.fromkeys((told.text, spoken(told.text))):
        found += marks_in(text, may)
        if not told.documents:
            found += pieces_in(text, played.hidden)
    return [(each.letter, each.around) for each in found]
