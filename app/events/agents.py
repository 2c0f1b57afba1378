"""Events of an agent: what its models say, which tools it calls, what that used."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from app.events.base import ResetReason, RunEvent

ToolStatus = t.Literal["success", "error", "cancelled"]


class TextDelta(RunEvent, frozen=True, gc=False):
    """Live answer text of turn ``turn`` (from 0). ``final``: this turn cannot call tools; else pending."""

    block: str
    turn: int
    text: str
    final: bool


class ThinkingDelta(RunEvent, frozen=True, gc=False):
    """Live thinking.

    ``redacted``: withheld by the vendor, no text. ``truncated``: the cap was reached; the last one.
    """

    block: str
    turn: int
    text: str
    redacted: bool = False
    truncated: bool = False


class TurnEnded(RunEvent, frozen=True, gc=False):
    """The turn boundary. ``final``: its text is the answer. ``intermediate``: its text is retracted, since tools run
    next (``tool_turn``), or since its model failed and the next one is asked for the same turn (``fallback``).
    ``aborted``: it failed or was stopped; its text stays shown and is only ``partialText``. Turns of agents inside a
    composite show no text and end ``intermediate``; an agent's last one has no reason.
    """

    block: str
    turn: int
    kind: t.Literal["intermediate", "final", "aborted"]
    reason: ResetReason | None = None


class ToolStarted(RunEvent, frozen=True, gc=False):
    """A call was announced: id and name are known and frozen. ``at``: epoch ms."""

    block: str
    turn: int
    id: str
    name: str
    at: int


class ToolExecuting(RunEvent, frozen=True, gc=False):
    """A call that was announced is now made. Calls that cannot run have none."""

    block: str
    turn: int
    id: str
    name: str
    arguments: t.Any
    at: int


class ToolFinished(RunEvent, frozen=True, gc=False):
    """A call was settled; same id as its start. ``arguments``: the parsed object, or the raw text when it was none."""

    block: str
    turn: int
    id: str
    name: str
    status: ToolStatus
    arguments: t.Any
    result: t.Any
    at: int
    started_at: int


class UsageReported(RunEvent, frozen=True, gc=False):
    """What one model call used.

    ``tokens`` has the counts of ``providers.spec.Usage`` in the contract's spelling; ``cost`` is in
    ``currency``, None when the price is unknown.
    """

    block: str
    model: str
    tokens: Mapping[str, int]
    cost: float | None = None
    currency: str = "USD"
    estimated: bool = False


class ModelCallFailed(RunEvent, frozen=True, gc=False):
    """One attempt at a model call failed, whether it is repeated, given to the next model, or ends the block.

    For the run's record; no surface shows it. ``attempt`` counts from 1 for each model of a turn.
    """

    block: str
    model: str
    code: str
    attempt: int
    status: int | None = None
