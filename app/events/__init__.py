"""The one union of run events: what a run says, as pure values.

Law of this room: no id, sequence number or time of day inside an event; those sit on the
:class:`Envelope` the emitter makes. ``block`` is always an instance path (``agent_1``,
``parallel_1[2]/agent_1``). Instants inside events are epoch milliseconds, spans are milliseconds.
"""

# Everybody imports from here, never from a module of this room: where an event is defined may change.
from __future__ import annotations

from app.events.agents import (
    ModelCallFailed,
    TextDelta,
    ThinkingDelta,
    ToolExecuting,
    ToolFinished,
    ToolStarted,
    ToolStatus,
    TurnEnded,
    UsageReported,
)
from app.events.base import (
    BlockInfo,
    Envelope,
    ResetReason,
    RunEvent,
)
from app.events.blocks import (
    AnswerRetracted,
    AnswerSettled,
    BlockFinished,
    BlockStarted,
    BlockStatus,
    ChildStarted,
    FlowChanged,
    LoopIteration,
    RouteChosen,
    RunStarted,
    StreamFailed,
)
from app.events.composites import (
    AgentMessage,
    DebateEnded,
    DebateRound,
    DebateStarted,
    SequenceStep,
    VoteCast,
    VoteClosed,
)
from app.events.ends import (
    SHUTDOWN_TEXT,
    STOPPED_TEXT,
    TIMEOUT_TEXT,
    CancelCause,
    Gap,
    GapReason,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunStatus,
    RunTimedOut,
    Terminal,
    cancel_text,
    failure_cause,
)
from app.events.people import (
    DecisionRequested,
    DecisionSettled,
    RunPaused,
    RunResumed,
)

__all__ = [
    "SHUTDOWN_TEXT",
    "STOPPED_TEXT",
    "TIMEOUT_TEXT",
    "AgentMessage",
    "AnswerRetracted",
    "AnswerSettled",
    "BlockFinished",
    "BlockInfo",
    "BlockStarted",
    "BlockStatus",
    "CancelCause",
    "ChildStarted",
    "DebateEnded",
    "DebateRound",
    "DebateStarted",
    "DecisionRequested",
    "DecisionSettled",
    "Envelope",
    "FlowChanged",
    "Gap",
    "GapReason",
    "LoopIteration",
    "ModelCallFailed",
    "ResetReason",
    "RouteChosen",
    "RunCancelled",
    "RunCompleted",
    "RunEvent",
    "RunFailed",
    "RunPaused",
    "RunResumed",
    "RunStarted",
    "RunStatus",
    "RunTimedOut",
    "SequenceStep",
    "StreamFailed",
    "Terminal",
    "TextDelta",
    "ThinkingDelta",
    "ToolExecuting",
    "ToolFinished",
    "ToolStarted",
    "ToolStatus",
    "TurnEnded",
    "UsageReported",
    "VoteCast",
    "VoteClosed",
    "cancel_text",
    "failure_cause",
]
