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

#: Most characters of a part that are looked at again with the one after it.
_REMEMBERED = 4096
#: A match in what is held: from where to where, and its mask.
_Span = tuple[int, int, str]


class Sieve:
    """One text of unknown length, in parts. Every method raises :class:`app.redaction.finders.DetectorFailed`."""

    __slots__ = ("_before", "_cover", "_cut", "_finders", "_held", "_past", "_reach")

    def __init__(self, finders: Sequence[Finder]) -> None:
        self._finders = finders
        self._reach = max((finder.reach for finder in finders), default=0)
        #: What was decided last, for matches that look at what is beside them; ``_cut``: more came before that.
        self._before = ""
        self._cut = 0
        self._held = ""
        #: Characters of what is held that belong to a match whose mask is out already.
        self._cover = 0
        #: The end of the part before, until something of this one is decided.
        self._past = ""

    def feed(self, text: str) -> str:
        """What may be let go now that ``text`` has come."""
        self._held += text
        upto = self._hold(self._before)
        if self._past and upto > 0:
            upto = min(upto, self._hold(self._past))
        return self._decide(upto) if upto > 0 else ""

    def end(self) -> str:
        """Nothing follows in this part: the rest of it. What the next one says is also read as if it went on here, so
        that a value which is cut in two does not come together.
        """
        longest = max((finder.longest for finder in self._finders), default=0)
        past = f"{self._past or self._before}{self._held}"
        rest = self._decide(len(self._held))
        self.drop()
        # One more, so that what stands before a match is known.
        self._past = past[-min(longest + 1, _REMEMBERED) :] if longest else ""
        return rest

    def drop(self) -> None:
        """What is held is not let go at all, and what follows has nothing to do with it."""
        self._before = self._held = self._past = ""
        self._cover = self._cut = 0

    def _hold(self, before: str) -> int:
        """How much of what is held is decided, if ``before`` came before it."""
        whole = before + self._held
        upto = len(whole)
        for finder in self._finders:
            place = finder.hold(whole)
            if place < upto:
                upto = place
        return upto - len(before)

    def _decide(self, upto: int) -> str:
        """Let the first ``upto`` held characters go."""
        held, end = self._held, self._cover
        spans = self._spans()
        if not spans and not end:  # nearly always: once a token
            self._remember(upto)
            return held[:upto]
        place, out = min(end, upto), []
        for start, stop, mask in spans:
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
        self._remember(upto)
        return "".join(out)

    def _spans(self) -> list[_Span]:
        """The matches that reach into what is held, by their starts; of those at the same place the longest first."""
        found: list[tuple[int, int, int, str]] = []
        self._reach_into(found, self._before, min(self._cut, len(self._before)))
        if self._past:
            self._reach_into(found, self._past, 0)
        if not found:
            return []
        found.sort()
        return [(start, -stop, mask) for start, stop, _, mask in found]

    def _reach_into(self, found: list[tuple[int, int, int, str]], before: str, least: int) -> None:
        """With ``before`` before them. What begins before ``least`` is left out: what is beside it is not known."""
        whole, size = before + self._held, len(before)
        for rank, finder in enumerate(self._finders):
            for start, stop in finder.spans(whole):
                if stop > size and start >= least:
                    found.append((start - size, size - stop, rank, finder.mask))

    def _remember(self, upto: int) -> None:
        decided = self._before + self._held[:upto]
        first = len(decided) - self._reach
        if first > 0:
            self._cut = 1
            self._before = decided[first:]
        else:
            self._before = decided
        self._held = self._held[upto:]
        if upto:
            self._past = ""


def sieved(finders: Sequence[Finder], text: str) -> str:
    """A whole text, as a :class:`Sieve` would let it go."""
    sieve = Sieve(finders)
    sieve._held = text
    return sieve._decide(len(text))
