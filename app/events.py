"""The one union of run events: what a run says, as pure values.

Law of this room: no id, sequence number or time of day inside an event; those sit on the
:class:`Envelope` the emitter makes. ``block`` is always an instance path (``agent_1``,
``parallel_1[2]/agent_1``). Instants inside events are epoch milliseconds, spans are milliseconds.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence

import msgspec

BlockStatus = t.Literal["executed", "skipped", "failed"]
ToolStatus = t.Literal["success", "error", "cancelled"]
RunStatus = t.Literal["completed", "failed", "cancelled", "timed_out"]
ResetReason = t.Literal["tool_turn", "iteration", "fallback", "guardrail", "resumed"]
#: ``evicted``: no longer kept. ``worker_lost``: its process died.
GapReason = t.Literal["evicted", "worker_lost"]
CancelCause = t.Literal["client_disconnected", "stop_requested", "server_shutdown"]


class RunEvent(msgspec.Struct, frozen=True, gc=False, tag=True, tag_field="is"):
    """Base of the union. The tag names the class where events are stored."""


class BlockInfo(msgspec.Struct, frozen=True):
    """What a projection may know of a block. ``structured``: its text is never streamed live."""

    id: str
    type: str
    name: str
    structured: bool = False


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
    """A block instance began. ``execution`` counts from 1 (a loop runs a block again)."""

    block: str
    type: str
    name: str
    execution: int = 1


class BlockFinished(RunEvent, frozen=True, gc=False):
    """A block instance ended: exactly one per start, and one without a start for a skipped block."""

    block: str
    status: BlockStatus
    output: Mapping[str, t.Any] | None = None
    code: str | None = None
    message: str | None = None
    duration_ms: int = 0
    execution: int = 1


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


class StreamFailed(RunEvent, frozen=True, gc=False):
    """A block's live text was lost and the run goes on; at most one per block instance."""

    block: str
    message: str


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


class AgentMessage(RunEvent, frozen=True, gc=False):
    """An agent inside a composite said something, whole. ``sender`` is its name, ``round`` from 1 in a debate.

    ``answer``: the text is the block's ``content``, which :class:`AnswerSettled` states as well.
    """

    block: str
    content: str
    sender: str
    round: int | None = None
    answer: bool = False


class SequenceStep(RunEvent, frozen=True, gc=False):
    """An agent of a sequence, ``index`` from 0, begins or has ended; each start has its end, also in a failure."""

    block: str
    index: int
    name: str
    phase: t.Literal["start", "end"]


class DebateStarted(RunEvent, frozen=True, gc=False):
    """A debate begins. ``participants``: their names, in the order in which they speak; ``rounds``: most rounds."""

    block: str
    participants: Sequence[str]
    rounds: int


class DebateRound(RunEvent, frozen=True, gc=False):
    """Round ``round`` of a debate begins, from 1."""

    block: str
    round: int


class DebateEnded(RunEvent, frozen=True, gc=False):
    """A debate is over, also by a failure. ``round``: the last one that began (0: none); ``consensus``: they agreed."""

    block: str
    round: int
    consensus: bool = False


class VoteCast(RunEvent, frozen=True, gc=False):
    """A ballot. ``vote`` None: abstained.

    Open: it comes when the voter has voted; ``voter_index`` is the voter's place from 0, ``sender`` its name. Secret:
    all come together after the last voter, in random order; ``voter_index`` is a random number and ``sender`` None.
    """

    block: str
    vote: str | None
    voter_index: int
    sender: str | None = None


class VoteClosed(RunEvent, frozen=True, gc=False):
    """The result of a vote. ``votes``: count by option, in the order of the options; ``has_majority``: the winner has
    more than half of all votes for an option.
    """

    block: str
    votes: Mapping[str, int]
    winner: str | None
    has_majority: bool
    abstained: int


class DecisionRequested(RunEvent, frozen=True, gc=False):
    """A person has to decide, and is shown ``review``; what runs beside goes on.

    ``pause_id`` names the decision everywhere. ``review`` (contract section 6) has ``kind`` (``answer`` or
    ``tool``), ``draft`` or ``tool`` and ``arguments``, ``reasons``, and ``prompt`` where there is one. ``call`` is the
    id of the tool call that waits. ``expires_at``: epoch ms.
    """

    block: str
    pause_id: str
    review: Mapping[str, t.Any]
    call: str | None = None
    expires_at: int | None = None


class DecisionSettled(RunEvent, frozen=True, gc=False):
    """A decision was made, or its time was up, and the run has taken note of it.

    ``decision``: ``approve``, ``edit``, ``reject``, or ``expired``. ``by`` says who, for the record: a key's id, or how
    it was answered; None for nobody. ``at``: when the answer was accepted, epoch ms.
    """

    block: str
    pause_id: str
    decision: str
    at: int
    by: str | None = None
    reason: str | None = None


class RunPaused(RunEvent, frozen=True, gc=False):
    """Nothing can move before a person has decided. Not terminal; it ends the streams that are open, not the run.

    ``pauses``: (pause id, block) of the open decisions, oldest first. ``output`` is empty; ``tool_calls``, ``outputs``
    and ``usage`` are those of the run so far, as in :class:`RunCompleted`.
    """

    pauses: Sequence[tuple[str, str]]
    outputs: Mapping[str, Mapping[str, t.Any]]
    tool_calls: Mapping[str, Sequence[Mapping[str, t.Any]]]
    usage: Mapping[str, t.Any]


class RunResumed(RunEvent, frozen=True, gc=False):
    """A paused run, or one whose process has gone, goes on.

    ``human_wait_ms``: from the durable write of the pause to the acceptance of the answer; None where nobody was
    waited for.
    """

    human_wait_ms: int | None = None


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


class Envelope(msgspec.Struct, frozen=True, gc=False):
    """An event with its place (``seq`` from 1, gapless) and time (``ts``, epoch ms) in the run."""

    seq: int
    ts: int
    event: RunEvent


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
