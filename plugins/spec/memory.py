"""What an agent may remember of a conversation."""

from __future__ import annotations

import typing as t
from collections.abc import Sequence


class Exchange(t.NamedTuple):
    """A message and its answer. ``answer`` None: it was stopped before the answer was complete."""

    asked: str
    answer: str | None


class Memory(t.Protocol):
    """The exchanges of one conversation that are kept under one key, oldest first.

    Those of a thread outlive their run; outside of a thread they last as long as the run.
    """

    def read(self, most: int, most_bytes: int) -> Sequence[Exchange]:
        """The newest ``most`` exchanges, of them as many as fit into ``most_bytes``, the newest first to fit.

        :raises BlockError: ``memory_unavailable``.
        """

    def append(self, asked: str, answer: str) -> None:
        """Keep an exchange; when this returns, it is there for whoever reads next.

        :raises BlockError: ``memory_unavailable``.
        """

    def unanswered(self, asked: str) -> None:
        """Keep a message whose answer was cut off because the run is being stopped; otherwise nothing is kept."""
