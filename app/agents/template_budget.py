"""What rendering may spend.

Law of this room: limits are counted, not timed, so that a template fails on every machine or on none.
The clock is only the last resort against what the counting misjudges.
"""

from __future__ import annotations

import time
import typing as t
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass


class Refused(Exception):
    """A template asks for what it may not have; the text is ours and safe to show."""


@dataclass(frozen=True, slots=True)
class Budget:
    """:ivar work: units: a loop turn, a call, a filter, 1024 characters that are looked at, 4 values that are.
    :ivar text: characters of the output, and of any text on the way.
    :ivar items: entries of any list made on the way.
    :ivar seconds: last resort.
    """

    work: int = 100_000
    text: int = 12_000_000
    items: int = 100_000
    seconds: float = 0.5


#: More than the largest body (10 MiB) passes through; at most about 0.2 s of computing.
DEFAULT = Budget()
_CHARS = 1024
_VALUES = 4
#: How many units may pass between two looks at the clock.
_LOOK_EVERY = 512


class Meter:
    """What one rendering has left. Every charge may raise :class:`Refused`."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._left = budget.work
        self._output = 0
        self._look_at = budget.work - _LOOK_EVERY
        self._until = time.monotonic() + budget.seconds

    @staticmethod
    def units(characters: int) -> int:
        """What looking at a text of this length costs."""
        return characters // _CHARS

    def spend(self, units: int) -> None:
        """Charge work."""
        self._left -= units
        if self._left < 0:
            raise Refused(f"it takes more than {self._budget.work} steps; use smaller loops")
        if self._left < self._look_at:
            self._look_at = self._left - _LOOK_EVERY
            if time.monotonic() > self._until:
                raise Refused(f"it takes longer than {self._budget.seconds} s; use smaller loops")

    def fits(self, characters: int) -> None:
        """Refuse a text that would be too long, before it is made."""
        if characters > self._budget.text:
            raise Refused(f"it makes a text of more than {self._budget.text} characters")

    def list_fits(self, items: int) -> None:
        """Refuse a list that would be too long, before it is made."""
        if items > self._budget.items:
            raise Refused(f"it makes a list of more than {self._budget.items} entries")

    def make(self, characters: int) -> None:
        """Check and charge a text that is about to be made."""
        self.fits(characters)
        self.spend(1 + characters // _CHARS)

    def output(self, characters: int) -> None:
        """Charge what is written, also into parts that are thrown away again."""
        self._output += characters
        self.make(self._output if self._output > self._budget.text else characters)

    def weigh(self, value: t.Any) -> bool:
        """Charge looking at all of ``value``; shared parts count each time they are met, as they do in a comparison.

        :returns: whether it is made of JSON's types only.
        """
        if value is None or isinstance(value, (bool, int, float)):
            return True
        if isinstance(value, str):
            if len(value) >= _CHARS:
                self.spend(len(value) // _CHARS)
            return True
        return self._weigh_tree(value)

    def _weigh_tree(self, value: t.Any) -> bool:
        plain = True
        count = 0
        stack = [(value, 0)]
        while stack:
            here, depth = stack.pop()
            count += 1
            if count == _VALUES:
                count = 0
                self.spend(1)
            if isinstance(here, str):
                if len(here) >= _CHARS:
                    self.spend(len(here) // _CHARS)
            elif isinstance(here, (Mapping, list, tuple)):
                if depth > 150:
                    raise Refused("it nests values too deeply")
                plain = plain and isinstance(here, (dict, list))
                inner = here.values() if isinstance(here, Mapping) else here
                stack.extend((item, depth + 1) for item in inner)
            elif here is not None and not isinstance(here, (int, float)):
                plain = False
        return plain


#: The meter of the rendering in progress; rendering never switches greenlets, but threads render too.
current: ContextVar[Meter] = ContextVar("template_meter")
