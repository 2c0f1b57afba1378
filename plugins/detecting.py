"""What the built-in detectors are made of: patterns that begin with a sign texts have little of, and what they hold.

Law of this room: a pattern begins with the sign that is looked for, then says what may stand before it. Where it
matches it takes that one sign, so that what begins inside of a match is found as well; groups say where matches end.
What it looks at is bounded, and can be read in one way only; so it needs no RE2, whose every match costs several times
as much.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass

#: A letter or digit of any script; that none is before the one sign that was taken; that none follows.
SIGN = r"[^\W_]"
ALONE = rf"(?<!{SIGN}.)"
END = rf"(?!{SIGN})"


class Lazy:
    """A pattern that is compiled when it is first used: most servers redact nothing."""

    __slots__ = ("_compiled", "_source")

    def __init__(self, source: str) -> None:
        self._source = source
        self._compiled: re.Pattern[str] | None = None

    def __call__(self) -> re.Pattern[str]:
        """It."""
        if self._compiled is None:
            self._compiled = re.compile(self._source, re.DOTALL)
        return self._compiled


#: From where on the end of a text may be the beginning of a match, which has so many characters at most.
Holds = Callable[[str, int], int]


def made_of(signs: str, first: str) -> Holds:
    """Of matches made of ``signs`` alone, which begin with one of ``first``."""
    rest = "".join(sign for sign in signs if sign not in first)

    def holds(text: str, longest: int) -> int:
        tail = text[-longest - 1 :]
        return len(text) - len(tail[len(tail.rstrip(signs)) :].lstrip(rest))

    return holds


def within_word(text: str, longest: int) -> int:
    """Of matches without white space."""
    tail = text[-longest - 1 :]
    if not tail or tail[-1].isspace():
        return len(text)
    return len(text) - len(tail.rsplit(None, 1)[-1])


@dataclass(frozen=True, slots=True)
class PatternDetector:
    """What has a shape and passes a check.

    :ivar longest: most characters of a match.
    :ivar pattern: see the module; its group takes the rest of a match.
    :ivar begins: see :data:`Holds`. :ivar fewest: every match has so many digits.
    :ivar check: whether a text is what it looks like.
    """

    name: str
    longest: int
    pattern: Lazy
    begins: Holds
    fewest: int
    check: Callable[[str], bool]
    signs: str = string.digits

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """See :class:`plugins.spec.Detector`."""
        for match in self.pattern().finditer(text):
            start, end = match.start(), match.end(1)
            if self.check(text[start:end]):
                yield start, end

    def holds(self, text: str) -> int:
        """See :class:`plugins.spec.Detector`."""
        return self.begins(text, self.longest)
