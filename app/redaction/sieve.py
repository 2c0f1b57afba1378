"""Text that comes piece by piece, and what of it may be let go.

Law of this room: a character is let go once it is known whether it is part of a match, whatever follows; so what comes
out does not depend on where the text was cut, and a whole text is filtered by the same code. Matches that overlap are
one, and have one mask. What is held is bounded by the longest match.
"""

from __future__ import annotations

import typing as t
from collections.abc import Sequence

if t.TYPE_CHECKING:
    from app.redaction.finders import Finder

#: Characters of a part that ended which are looked at again with the one after it.
_REMEMBERED = 4096


class Sieve:
    """One text of unknown length. Every method raises :class:`app.redaction.finders.DetectorFailed`."""

    __slots__ = ("_before", "_cover", "_cut", "_finders", "_held", "_reach")

    def __init__(self, finders: Sequence[Finder]) -> None:
        self._finders = finders
        self._reach = max((finder.reach for finder in finders), default=0)
        #: What was decided last, for matches that look at what is beside them.
        self._before = ""
        #: Something came before that, so that what begins with it cannot be told.
        self._cut = 0
        self._held = ""
        #: Characters of what is held that belong to a match whose mask is out already.
        self._cover = 0

    def feed(self, text: str) -> str:
        """What may be let go now that ``text`` has come."""
        self._held += text
        whole = self._before + self._held
        upto = len(whole)
        for finder in self._finders:
            place = finder.hold(whole)
            if place < upto:
                upto = place
        upto -= len(self._before)
        return self._decide(whole, upto) if upto > 0 else ""

    def end(self) -> str:
        """Nothing follows in this part: the rest. A match that the next part would complete is masked there."""
        longest = max((finder.longest for finder in self._finders), default=0)
        self._reach, reach = min(longest + 1, _REMEMBERED), self._reach
        rest = self._decide(self._before + self._held, len(self._held))
        self._reach, self._cover = reach, 0
        return rest

    def drop(self) -> None:
        """What is held is not let go at all, and what follows has nothing to do with it."""
        self._before = self._held = ""
        self._cover = self._cut = 0

    def _decide(self, whole: str, upto: int) -> str:
        """Let the first ``upto`` held characters go."""
        before = len(self._before)
        held, end = self._held, self._cover
        place, out = min(end, upto), []
        for start, stop, mask in self._spans(whole, before):
            if start >= upto:
                break
            if stop <= end:
                continue
            if start >= end or not end:  # else it overlaps one whose mask is out
                if start > place:
                    out.append(held[place:start])
                out.append(mask)
            end = stop
            place = min(end, upto)
        out.append(held[place:upto])
        self._cover = max(0, end - upto)
        decided = before + upto
        first = max(0, decided - self._reach)
        self._cut = self._cut or min(first, 1)
        self._before = whole[first:decided]
        self._held = held[upto:]
        return "".join(out)

    def _spans(self, whole: str, before: int) -> list[tuple[int, int, str]]:
        """The matches that reach into what is held, by their starts there; of those at the same place the longest."""
        cut = min(self._cut, before)
        found = [
            (start - before, before - stop, rank, finder.mask)
            for rank, finder in enumerate(self._finders)
            for start, stop in finder.spans(whole)
            if stop > before and start >= cut
        ]
        found.sort()
        return [(start, -stop, mask) for start, stop, _, mask in found]


def sieved(finders: Sequence[Finder], text: str) -> str:
    """A whole text, as a :class:`Sieve` would let it go."""
    sieve = Sieve(finders)
    sieve._held = text
    return sieve._decide(text, len(text))
