"""What is answered about runs, and the queries of their lists.

Law of this room: see :mod:`app.schemas.shapes`.
"""

from __future__ import annotations

import typing as t
from typing import Annotated, NotRequired, TypedDict

from app.schemas.shapes.common import (
    Count,
    Cursor,
    Instant,
    Milliseconds,
    Page,
    Tokens,
    Usage,
)

RunId = Annotated[str, {"doc": "Id of the run.", "pattern": "^run_", "examples": ["run_01ABCDEF"]}]
_Value = Annotated[t.Any, {"doc": "Any JSON value; one that is too large is a reference instead."}]


class Resume(TypedDict):
    """How a paused run is continued."""

    url: Annotated[str, {"doc": "Where the answer goes."}]
    pauseId: Annotated[str, {"doc": "The oldest open decision."}]
    threadId: Annotated[str, {"doc": "Empty for a run in no thread."}]
    expiresAt: NotRequired[Instant]
    pauseIds: NotRequired[Annotated[list[str], {"doc": "All decisions that are open."}]]


class RunFailure(TypedDict):
    """Why a run, or a block of it, failed."""

    code: Annotated[str, {"doc": "Stable."}]
    message: str
    blockId: NotRequired[Annotated[str, {"doc": "The block at fault."}]]
    model: NotRequired[Annotated[str, {"doc": "The model whose call failed; for keys of scope `read`."}]]
    detail: NotRequired[Annotated[str, {"doc": "The vendor's own words, masked; for keys of scope `read`."}]]


class Executed(TypedDict):
    """The answer to a caller who waited. Once there is a run, a failure is in band."""

    success: bool
    runId: RunId
    status: t.Literal["completed", "failed", "cancelled", "timed_out", "paused"]
    output: NotRequired[
        Annotated[t.Any, {"doc": "The run's output, or `{blockId: {path: value}}` of the selections."}]
    ]
    error: NotRequired[RunFailure]
    usage: Usage
    resume: NotRequired[Resume]


class Accepted(TypedDict):
    """The run goes on by itself."""

    runId: RunId
    statusUrl: Annotated[str, {"doc": "Its record."}]
    eventsUrl: Annotated[str, {"doc": "Its events."}]


class RunItem(TypedDict):
    """A run, without what it was asked or answered."""

    runId: RunId
    workflowId: str
    version: NotRequired[Annotated[int, {"doc": "Which deployed version ran.", "low": 1}]]
    conversationId: NotRequired[str]
    threadId: NotRequired[str]
    status: t.Literal["queued", "running", "paused", "completed", "failed", "cancelled", "timed_out"]
    cause: NotRequired[Annotated[str, {"doc": "Why it ended otherwise than well."}]]
    createdAt: Instant
    startedAt: NotRequired[Instant]
    pausedAt: NotRequired[Instant]
    endedAt: NotRequired[Instant]
    queuedMs: NotRequired[Annotated[int, {"doc": "How long it stood in line for its models.", "low": 0}]]
    activeMs: NotRequired[Milliseconds]
    humanWaitMs: NotRequired[Annotated[int, {"doc": "How long it waited for people.", "low": 0}]]
    error: NotRequired[RunFailure]
    usage: NotRequired[Usage]
    resume: NotRequired[Resume]


class RunList(TypedDict):
    """Runs, newest first."""

    items: list[RunItem]
    nextCursor: NotRequired[Cursor]


class RunQuery(Page):
    """Which runs are listed."""

    status: NotRequired[
        Annotated[
            t.Literal["running", "paused", "completed", "failed", "cancelled", "timed_out"],
            {"doc": "Runs that stand so."},
        ]
    ]
    workflowId: NotRequired[Annotated[str, {"doc": "Runs of this workflow.", "nonempty": True}]]
    conversationId: NotRequired[Annotated[str, {"doc": "Runs started with this name.", "nonempty": True}]]
    threadId: NotRequired[Annotated[str, {"doc": "Runs of this thread.", "nonempty": True}]]


class ListedCall(TypedDict):
    """A call of a tool. One that is held, or still runs, has only its id, its name and its begin."""

    id: str
    name: str
    status: NotRequired[t.Literal["success", "error", "cancelled"]]
    startTime: Instant
    endTime: NotRequired[Instant]
    duration: NotRequired[Milliseconds]
    arguments: NotRequired[_Value]
    result: NotRequired[_Value]


class ListedCalls(TypedDict):
    """The calls of one agent, in the order they were announced."""

    list: list[ListedCall]
    count: Count


class BlockEntry(TypedDict):
    """One block of the run's log."""

    blockId: str
    type: str
    name: str
    execution: Annotated[int, {"doc": "How often it has run.", "low": 0}]
    status: str
    startedAt: NotRequired[Instant]
    endedAt: NotRequired[Instant]
    durationMs: NotRequired[Milliseconds]
    output: NotRequired[_Value]
    error: NotRequired[RunFailure]


class CallCost(TypedDict):
    """What one model call cost."""

    total: Annotated[float, {"low": 0}]
    currency: str


class ModelCall(TypedDict):
    """What one model call used."""

    blockId: str
    model: str
    tokens: Tokens
    cost: NotRequired[CallCost]
    estimated: Annotated[bool, {"doc": "Some of the counts are not the vendor's."}]


class ModelFailure(TypedDict):
    """An attempt at a model call that failed; for keys of scope `read`."""

    blockId: str
    model: str
    code: str
    status: NotRequired[Annotated[int, {"doc": "Of the vendor's HTTP answer."}]]
    attempt: Annotated[int, {"low": 0}]
    at: Instant


class RunRecord(RunItem):
    """All that is kept of a run."""

    input: _Value
    output: NotRequired[_Value]
    partialText: Annotated[
        dict[str, str], {"doc": "By block: text that was shown and never became an answer."}
    ]
    toolCalls: Annotated[dict[str, ListedCalls], {"doc": "By block."}]
    blocks: list[BlockEntry]
    modelCalls: list[ModelCall]
    modelFailures: NotRequired[list[ModelFailure]]


class Stopped(TypedDict):
    """Whether there was something to stop."""

    outcome: t.Literal["accepted", "already_finished"]
    status: Annotated[str, {"doc": "Of the run, as it was found."}]


class AttachedQuery(TypedDict):
    """Which surface, how much of it, and from where on."""

    protocol: NotRequired[
        Annotated[
            t.Literal["agent-events-v1", "agent-text", "builder", "runs", "graph"],
            {"doc": "In which events the run is told.", "default": "agent-events-v1"},
        ]
    ]
    includeThinking: NotRequired[
        Annotated[t.Literal["true", "false"], {"doc": "Send thinking; for `agent-events-v1` and `runs`."}]
    ]
    includeToolCalls: NotRequired[
        Annotated[t.Literal["true", "false"], {"doc": "Send tool frames; for `agent-events-v1`."}]
    ]
    events: NotRequired[
        Annotated[t.Literal["full", "messages", "minimal"], {"doc": "How much to tell; for `runs`."}]
    ]
    replay: NotRequired[
        Annotated[
            t.Literal["all", "durable"],
            {"doc": "`durable`: without what is provisional; for `builder`, which is for `admin` alone."},
        ]
    ]
    after: NotRequired[
        Annotated[
            str, {"doc": "Id of the last event there is already, as `Last-Event-ID`: `<runId>:<number>`."}
        ]
    ]
