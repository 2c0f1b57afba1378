"""Votes: what a ballot says, how ballots are counted, how they are shuffled. Pure.

Law of this room: a ballot names an option, abstains, or is none; nothing is guessed from a longer text. Of shuffled
ballots neither place nor number tells whose they were.
"""

from __future__ import annotations

import random
import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

#: What a voter writes who abstains.
ABSTAIN = "ABSTAIN"
#: Marks that models put around a word.
_DECORATION = "\"'`*_“”‘’«»„."


class Unreadable(ValueError):
    """A voter's answer that is no ballot."""


def plain(text: str) -> str:
    """``text`` as ballots are compared: without case, outer space and the marks models put around a word."""
    return " ".join(text.split()).strip(_DECORATION).strip().casefold()


def read(answer: str, options: Sequence[str]) -> str | None:
    """The option an answer names; None when it abstains.

    The whole answer, or its last line alone, has to be the option (or ``ABSTAIN``), apart from case and quotes.

    :raises Unreadable: it is neither.
    """
    lines = [line for line in answer.splitlines() if line.strip()]
    for text in dict.fromkeys((answer, lines[-1] if lines else "")):
        for same in (lambda one: " ".join(one.split()).casefold(), plain):
            for option in options:
                if same(text) == same(option):
                    return option
        if plain(text) == plain(ABSTAIN):
            return None
    raise Unreadable(answer)


@dataclass(frozen=True, slots=True)
class Tally:
    """A count.

    :ivar votes: by option, in the order of the options. :ivar leaders: the options with most votes; none without any.
    :ivar cast: ballots that name an option.
    """

    votes: Mapping[str, int]
    leaders: tuple[str, ...]
    cast: int
    abstained: int

    @property
    def majority(self) -> bool:
        """One option has more than half of the ballots that name one."""
        return len(self.leaders) == 1 and 2 * self.votes[self.leaders[0]] > self.cast


def count(ballots: Sequence[str | None], options: Sequence[str]) -> Tally:
    """Count ballots; None has abstained."""
    votes = {option: ballots.count(option) for option in options}
    most = max(votes.values(), default=0)
    leaders = tuple(option for option in options if most and votes[option] == most)
    cast = sum(votes.values())
    return Tally(votes, leaders, cast, len(ballots) - cast)


_T = t.TypeVar("_T")


def shuffled(ballots: Sequence[_T], source: random.Random) -> list[tuple[_T, int]]:
    """The ballots in random order, each with a random number from 0; order and numbers know nothing of each other.

    :param source: for a real vote one that nobody can predict (``random.SystemRandom``).
    """
    mixed = list(ballots)
    numbers = list(range(len(mixed)))
    source.shuffle(mixed)
    source.shuffle(numbers)
    return list(zip(mixed, numbers, strict=True))
