"""How a run, or what can be told of it, ends; and the fixed words for it."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence

from app.events.base import RunEvent

RunStatus = t.Literal["completed", "failed", "cancelled", "timed_out"]
#: ``evicted``: no longer kept. ``worker_lost``: its process died.
GapReason = t.Literal["evicted", "worker_lost"]
CancelCause = t.Literal["client_disconnected", "stop_requested", "server_shutdown"]


class Gap(RunEvent, frozen=True, gc=False):
    """Envelopes ``first``..``last`` cannot be replayed."""

    first: int
    last: int
    reason: GapReason


class Terminal(RunEvent, frozen=True, gc=False):
    """Base of the four ends; exactly one per run, last. ``usage`` is the contract's one usage object."""


class RunCompleted(Terminal, frozen=True, gc=False):
    """The run reached its end.

    ``success`` is False when an error edge or response block ended a failed run with an output.

    ``tool_calls``: ``{block: [call]}`` with arguments and results; rights decide what a reader gets of it.
    ``outputs``: ``{block: output}`` of every executed block, for selections.
    """

    output: t.Any
    outputs: Mapping[str, Mapping[str, t.Any]]
    tool_calls: Mapping[str, Sequence[Mapping[str, t.Any]]]
    usage: Mapping[str, t.Any]
    success: bool = True
    error: str | None = None


class RunFailed(Terminal, frozen=True, gc=False):
    """The run failed. ``block`` is at fault, None when none is."""

    code: str
    message: str
    block: str | None
    usage: Mapping[str, t.Any]


class RunCancelled(Terminal, frozen=True, gc=False):
    """The run was stopped. ``following``: what would have run next, in document order."""

    cause: CancelCause
    usage: Mapping[str, t.Any]
    following: Sequence[str] = ()


class RunTimedOut(Terminal, frozen=True, gc=False):
    """The run's own deadline passed."""

    usage: Mapping[str, t.Any]


#: The three fixed texts of contract 3.6, since clients without the header see no code.
STOPPED_TEXT = "The run was stopped."
SHUTDOWN_TEXT = "The server is shutting down; the run was stopped."
TIMEOUT_TEXT = "The run exceeded its time limit."


def failure_cause(code: str) -> str:
    """Why a run failed, by the code of its failure (contract 1.8)."""
    known = code.startswith("provider_") or code in ("worker_lost", "budget_exceeded")
    return code if known else "block_failed"


def cancel_text(cause: CancelCause) -> str:
    """The fixed text for a cancelled run."""
    return SHUTDOWN_TEXT if cause == "server_shutdown" else STOPPED_TEXT
