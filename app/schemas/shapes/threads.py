"""What is answered about threads, their memory, and what runs ask people.

Law of this room: see :mod:`app.schemas.shapes`.
"""

from __future__ import annotations

import typing as t
from typing import Annotated, NotRequired, TypedDict

from app.schemas.shapes.common import Cursor, Instant, Page


class Thread(TypedDict):
    """Whose run is in a thread, and where the next one enters."""

    threadId: str
    workflowId: str
    conversationId: NotRequired[Annotated[str, {"doc": "The caller's own name for it."}]]
    status: t.Literal["idle", "running", "paused"]
    runId: NotRequired[Annotated[str, {"doc": "The run that is, or was last, in it."}]]
    runStatus: NotRequired[str]
    pauseIds: NotRequired[Annotated[list[str], {"doc": "What has to be decided before it goes on."}]]
    pinnedNode: NotRequired[Annotated[str, {"doc": "The agent that keeps the thread."}]]
    createdAt: Instant


class ThreadList(TypedDict):
    """Threads, newest first."""

    items: list[Thread]
    nextCursor: NotRequired[Cursor]


class ThreadQuery(Page):
    """Which threads are listed."""

    workflowId: NotRequired[Annotated[str, {"doc": "Threads of this workflow.", "nonempty": True}]]
    conversationId: NotRequired[Annotated[str, {"doc": "Threads of this name.", "nonempty": True}]]


class Memory(TypedDict):
    """One exchange that an agent remembers; without `answer` when it was stopped before it had one."""

    key: str
    message: str
    answer: NotRequired[str]
    blockId: NotRequired[str]
    runId: NotRequired[str]
    createdAt: Instant


class MemoryList(TypedDict):
    """Exchanges, newest first."""

    items: list[Memory]
    nextCursor: NotRequired[Cursor]


class MemoryKey(TypedDict):
    """Which memory is meant."""

    key: NotRequired[
        Annotated[str, {"doc": "One memory of the thread; all of them without.", "nonempty": True}]
    ]


class MemoryQuery(Page):
    """Which exchanges are listed."""

    key: NotRequired[Annotated[str, {"doc": "Exchanges of this memory only.", "nonempty": True}]]


class Forgotten(TypedDict):
    """How much was deleted."""

    deleted: Annotated[int, {"doc": "Exchanges.", "low": 0}]


class Review(TypedDict):
    """What a person is asked: to release a text (`answer`), or a call (`tool`)."""

    kind: t.Literal["answer", "tool"]
    draft: NotRequired[Annotated[str, {"doc": "The text."}]]
    tool: NotRequired[Annotated[str, {"doc": "The tool."}]]
    arguments: NotRequired[Annotated[t.Any, {"doc": "What it is called with."}]]
    reasons: NotRequired[list[str]]
    prompt: NotRequired[str]
    show: NotRequired[Annotated[dict[str, t.Any], {"doc": "What else to look at."}]]


class Decided(TypedDict):
    """What was answered."""

    decision: t.Literal["approve", "edit", "reject"]
    text: NotRequired[str]
    arguments: NotRequired[Annotated[dict[str, t.Any], {}]]
    reason: NotRequired[str]
    remember: NotRequired[bool]


class Decision(TypedDict):
    """What a run asks people, and what they said."""

    id: str
    status: t.Literal["open", "answered", "expired", "cancelled"]
    runId: str
    threadId: NotRequired[str]
    workflowId: str
    blockId: str
    toolCallId: NotRequired[str]
    review: Review
    parameters: NotRequired[Annotated[dict[str, t.Any], {"doc": "JSON Schema of the call's arguments."}]]
    canRemember: NotRequired[Annotated[bool, {"doc": "The tool can be approved for the rest of the thread."}]]
    createdAt: Instant
    expiresAt: NotRequired[Instant]
    answer: NotRequired[Decided]
    answeredBy: NotRequired[Annotated[str, {"doc": "A key's id, `link` or `visitor`."}]]
    answeredAt: NotRequired[Instant]


class DecisionList(TypedDict):
    """Decisions, newest first."""

    items: list[Decision]
    nextCursor: NotRequired[Cursor]


class DecisionQuery(Page):
    """Which decisions are listed."""

    status: NotRequired[t.Literal["open", "answered", "expired", "cancelled"]]
    workflowId: NotRequired[Annotated[str, {"doc": "Those of this workflow.", "nonempty": True}]]
    threadId: NotRequired[Annotated[str, {"doc": "Those of this thread.", "nonempty": True}]]
    runId: NotRequired[Annotated[str, {"doc": "Those of this run.", "nonempty": True}]]


class DecisionLink(TypedDict):
    """A link by which one person without a key may answer, once."""

    url: str
    expiresAt: NotRequired[Instant]


class DecideForm(TypedDict):
    """What the page behind a link sends."""

    decision: t.Literal["approve", "edit", "reject"]
    text: NotRequired[Annotated[str, {"doc": "With `edit`, of a text."}]]
    arguments: NotRequired[Annotated[str, {"doc": "With `edit`, of a call: JSON."}]]
    reason: NotRequired[str]
    remember: NotRequired[Annotated[str, {"doc": "Sent at all: for the rest of the thread."}]]
