"""Events of the run, its blocks, the ways between them, and their answers."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence

from app.events.base import BlockInfo, ResetReason, RunEvent

BlockStatus = t.Literal["executed", "skipped", "failed"]


class RunStarted(RunEvent, frozen=True, gc=False):
    """First event of every run. ``blocks`` in document order; ``edges`` are (source, handle, target)."""

    run_id: str
    workflow_id: str
    blocks: Sequence[BlockInfo]
    edges: Sequence[tuple[str, str, str]]


class ChildStarted(RunEvent, frozen=True, gc=False):
    """The workflow that ``block`` runs begins. Its blocks' paths are ``<block>/<id>``; see :class:`RunStarted`."""

    block: str
    workflow_id: str
    version: int | None
    blocks: Sequence[BlockInfo]
    edges: Sequence[tuple[str, str, str]]


class BlockStarted(RunEvent, frozen=True, gc=False):
    """A block instance began. ``execution`` counts from 1 (a loop runs a block again). ``given``: what it runs with, in
    draft runs.
    """

    block: str
    type: str
    name: str
    execution: int = 1
    given: t.Any = None


class BlockFinished(RunEvent, frozen=True, gc=False):
    """A block instance ended: exactly one per start, and one without a start for a skipped block."""

    block: str
    status: BlockStatus
    output: Mapping[str, t.Any] | None = None
    code: str | None = None
    message: str | None = None
    duration_ms: int = 0
    execution: int = 1


class LoopIteration(RunEvent, frozen=True, gc=False):
    """A loop runs its body (``loop``, before the body's first block) or is over (``exit``, once; ``iteration`` is how
    many were done). ``iteration`` counts from 1.
    """

    block: str
    iteration: int
    path: t.Literal["loop", "exit"]


class RouteChosen(RunEvent, frozen=True, gc=False):
    """A condition or router chose where to go on. ``reason``: why, in words, where a model chose."""

    block: str
    route: str
    reason: str | None = None


class FlowChanged(RunEvent, frozen=True, gc=False):
    """Where the next message of the thread enters: at block ``pinned``, or at the start (None)."""

    pinned: str | None


class StreamFailed(RunEvent, frozen=True, gc=False):
    """A block's live text was lost and the run goes on; at most one per block instance."""

    block: str
    message: str


class AnswerSettled(RunEvent, frozen=True, gc=False):
    """The block's answer is final for this run: once per instance, when it can no longer run again."""

    block: str
    text: str


class AnswerRetracted(RunEvent, frozen=True, gc=False):
    """Standing text of an earlier execution or attempt no longer stands.

    Never for ``tool_turn``: that is :class:`TurnEnded`.
    """

    block: str
    reason: ResetReason
