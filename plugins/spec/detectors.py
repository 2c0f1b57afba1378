"""What a detector of personal data is."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable


@t.runtime_checkable
class Detector(t.Protocol):
    """Finds one kind of personal data in text.

    A detector is pure, quick and local. Pure and quick: the same text gives the same spans, in time linear in its
    length. Local: whether a span that begins at ``i`` is one depends on nothing but the characters from ``i - 1`` to
    ``i + longest``, both included; so it is found in any piece of the text that holds them, and a text that comes piece
    by piece can be let go piece by piece. Where the same characters can be read in several ways, all are given: spans
    may overlap and lie inside one another. Spans with characters in common count as one find.

    It may also have

    * ``holds(text) -> int``: the place in ``text``, the beginning of a longer one, from which on it may still become
      part of a match; ``len(text)`` when none is under way. Without it that is taken to be ``longest`` + 1 characters
      before the end, so that whoever reads a redacted text as it is written is always that much behind. It may hold
      back too much, never too little. ``text`` may begin anywhere.
    * ``signs`` and ``fewest``: characters of which every match has at least so many (1 unless it says), such as
      ``"@"``. Text that has fewer is not looked at, which is what makes prose cheap.
    """

    @property
    def name(self) -> str:
        """Its id, 1 to 64 letters, digits, ``_`` or ``-``, e.g. ``email``."""

    @property
    def longest(self) -> int:
        """The most characters a match can have; a positive number. Whoever releases text piece by piece holds this
        much back."""

    def find(self, text: str) -> Iterable[tuple[int, int]]:
        """The spans ``(start, end)`` of ``text`` that hold such data, in order of their starts."""


def finds(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans in order of their starts, those with characters in common made one."""
    found: list[tuple[int, int]] = []
    for start, end in spans:
        if found and start < found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found


@t.runtime_checkable
class HoldsBack(Detector, t.Protocol):
    """A detector that says how much of a text it needs to hold back; see :class:`Detector`."""

    def holds(self, text: str) -> int:
        """From which place on ``text`` may still become part of a match."""
