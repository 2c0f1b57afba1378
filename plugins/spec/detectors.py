"""What a detector of personal data is."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable


@t.runtime_checkable
class Detector(t.Protocol):
    """Finds one kind of personal data in text.

    A detector is pure and quick: the same text gives the same spans, in time linear in its length. It may be handed
    a piece of a longer text and therefore says how far a match can reach.
    """

    @property
    def name(self) -> str:
        """Its id, 1 to 64 letters, digits, ``_`` or ``-``, e.g. ``email``."""

    @property
    def longest(self) -> int:
        """The most characters a match can have; a positive number. Whoever releases text piece by piece holds this
        much back."""

    def find(self, text: str) -> Iterable[tuple[int, int]]:
        """The spans ``(start, end)`` of ``text`` that hold such data, in order, none overlapping another."""
