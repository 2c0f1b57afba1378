"""What a run's state is made of: one entry for a block instance, one for each of its calls.

Law of this room: values; they are changed by the fold alone.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping

import msgspec

from app import events as ev
from app.clock import rfc3339

_INDEX = re.compile(r"\[\d+\]")


def plain(instance: str) -> str:
    """An instance path without the indexes of blocks that run several times at once."""
    return _INDEX.sub("", instance) if "[" in instance else instance


class InvariantBroken(AssertionError):
    """An event that the stream's rules forbid at this point; a fault of ours, never of a client or vendor."""


class CallState(msgspec.Struct):
    """One tool call of a block."""

    id: str
    name: str
    turn: int
    started_at: int
    status: str | None = None
    arguments: t.Any = None
    result: t.Any = None
    ended_at: int | None = None
    executing: bool = False

    def entry(self) -> dict[str, t.Any]:
        """See :func:`call_entry`."""
        ended = self.ended_at if self.ended_at is not None else self.started_at
        return call_entry(
            self.id, self.name, self.arguments, self.result, self.status, self.started_at, ended
        )


def call_entry(
    id: str, name: str, arguments: t.Any, result: t.Any, status: str | None, started_at: int, ended_at: int
) -> dict[str, t.Any]:
    """A call as ``toolCalls.list`` shows it to those allowed (contract section 2)."""
    return {
        "id": id,
        "name": name,
        "arguments": arguments,
        "result": result,
        "status": status,
        "startTime": rfc3339(started_at),
        "endTime": rfc3339(ended_at),
        "duration": ended_at - started_at,
    }


class BlockState(msgspec.Struct):
    """One block instance. ``live``: text of the open turn; ``turn`` is -1 before the first and between turns.

    ``spoke``: an agent inside of it said something, or voted, for all to see. ``step``: the agent of a sequence that
    has begun; ``debate``: the round of a debate that goes on. None when there is none. ``given``: what it runs with,
    in draft runs.
    """

    block: str
    type: str
    name: str
    status: str = "running"
    execution: int = 1
    started_at: int | None = None
    ended_at: int | None = None
    duration_ms: int = 0
    output: Mapping[str, t.Any] | None = None
    code: str | None = None
    message: str | None = None
    turn: int = -1
    live: list[str] = msgspec.field(default_factory=list)
    final_text: str | None = None
    partial: str = ""
    settled: str | None = None
    calls: dict[str, CallState] = msgspec.field(default_factory=dict)
    spoke: bool = False
    step: ev.SequenceStep | None = None
    debate: int | None = None
    given: t.Any = None

    def standing_text(self) -> str:
        """The text of the block as a reader has it who is shown all of it."""
        return self.streamed_text() if self.settled is None else self.settled

    def streamed_text(self) -> str:
        """What of the text came live and was not taken back; some of it may have been lost on the way."""
        return self.final_text if self.final_text is not None else self.partial + "".join(self.live)
