"""Values that are known, such as stored secrets, in text that comes piece by piece.

Law of this room: the forms of :mod:`app.redaction.values`, found by how they begin, so that what is no secret costs a
look-up for each character and nothing for each secret.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator

from app.redaction.values import MASK, SHORTEST, cores_of, forms_of

#: Up to so many beginnings, each is searched by itself in a long text; that is quicker than to look at each character.
_FEW, _LONG = 400, 200


class KnownValues:
    """See :class:`app.redaction.finders.Finder`."""

    __slots__ = ("_begins", "_clean", "_heads", "longest", "mask", "reach")

    def __init__(self, values: Iterable[str]) -> None:
        long_enough = {value for value in values if len(value) >= SHORTEST}
        forms = {form for value in long_enough for form in (*forms_of(value), *cores_of(value))}
        begins: dict[str, list[str]] = {}
        for form in sorted(forms, key=len, reverse=True):  # the longest first
            if len(form) >= SHORTEST:
                begins.setdefault(form[:SHORTEST], []).append(form)
        self._begins = begins
        #: The last text in which none was found to begin: it is asked for twice.
        self._clean = ""
        self._heads = frozenset(head[:size] for head in begins for size in range(1, SHORTEST))
        self.longest = max(map(len, forms), default=0)
        self.mask = MASK
        self.reach = 0

    def __bool__(self) -> bool:
        return bool(self._begins)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """See :class:`app.redaction.finders.Finder`."""
        found: list[tuple[int, int]] = []
        if text == self._clean:
            return found
        for place in self._candidates(text):
            for form in self._begins[text[place : place + SHORTEST]]:
                if text.startswith(form, place):
                    found.append((place, place + len(form)))
                    break
        found.sort()
        return found

    def hold(self, text: str) -> int:
        """See :class:`app.redaction.finders.Finder`."""
        size, begins, heads = len(text), self._begins, self._heads
        first = max(0, size - self.longest)
        clean = not first
        for place in range(first, size - SHORTEST + 1):
            forms = begins.get(text[place : place + SHORTEST])
            if forms is not None:
                clean = False
                rest = text[place:]
                if any(len(form) > len(rest) and form.startswith(rest) for form in forms):
                    return place
        if clean:
            self._clean = text
        for place in range(max(0, size - SHORTEST + 1), size):
            if text[place:] in heads:
                return place
        return size

    def _candidates(self, text: str) -> Iterator[int]:
        begins = self._begins
        if len(text) < _LONG or len(begins) > _FEW:
            for place in range(len(text) - SHORTEST + 1):
                if text[place : place + SHORTEST] in begins:
                    yield place
            return
        for head in begins:
            place = text.find(head)
            while place >= 0:
                yield place
                place = text.find(head, place + 1)


def known_values(values: Iterable[str]) -> KnownValues:
    """The finder of some values; that of the same ones is made once."""
    return _made(frozenset(values))


@functools.lru_cache(maxsize=8)
def _made(values: frozenset[str]) -> KnownValues:
    return KnownValues(values)
