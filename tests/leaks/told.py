"""What was told, to whom and where."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.leaks.table import MAY


@dataclass(frozen=True)
class Told:
    """Something that was told. ``documents``: it holds workflows as they were written."""

    reader: str
    where: str
    text: str
    also: str = ""
    documents: bool = False

    @property
    def may(self) -> str:
        """The classes that may be in it."""
        return MAY[self.reader, self.where] + self.also


@dataclass
class Played:
    """What came of a case: all that was told, and the personal data that may not be in it."""

    told: list[Told] = field(default_factory=list)
    hidden: tuple[str, ...] = ()
    statuses: list[tuple[str, str, int]] = field(default_factory=list)
