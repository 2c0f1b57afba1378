"""What is answered about chats, and to their visitors.

Law of this room: see :mod:`app.schemas.shapes`.
"""

from __future__ import annotations

import typing as t
from typing import Annotated, NotRequired, TypedDict

from app.schemas.shapes.common import Cursor, ErrorDetail, Instant, Page, Problem
from app.schemas.shapes.management import Budget, Rate, Spent
from app.schemas.shapes.runs import RunFailure
from app.schemas.shapes.threads import Review

AuthType = t.Literal["public", "password", "email", "sso"]


class Chat(TypedDict):
    """A chat as its owner sees it; never its password."""

    id: str
    workflowId: str
    slug: str
    title: str
    description: NotRequired[str]
    welcomeMessage: NotRequired[str]
    authType: AuthType
    hasPassword: bool
    allowedEmails: NotRequired[list[str]]
    outputs: NotRequired[list[str]]
    includeThinking: bool
    includeToolCalls: bool
    customization: NotRequired[dict[str, t.Any]]
    allowedOrigins: NotRequired[list[str]]
    rateLimit: NotRequired[Rate]
    budget: NotRequired[Budget]
    spent: NotRequired[Spent]
    redact: NotRequired[dict[str, t.Any]]
    active: bool
    version: NotRequired[Annotated[int, {"doc": "The version that answers; absent: none does.", "low": 1}]]
    draftDiffers: Annotated[bool, {"doc": "The draft is another document than what answers."}]
    problems: NotRequired[
        Annotated[list[Problem], {"doc": "What the live version lacks of what visitors are to get."}]
    ]
    createdAt: Instant
    updatedAt: Instant


class ChatList(TypedDict):
    """Chats, newest first."""

    items: list[Chat]
    nextCursor: NotRequired[Cursor]


class ChatQuery(Page):
    """Which chats are listed."""

    workflowId: NotRequired[Annotated[str, {"doc": "Chats of this workflow.", "nonempty": True}]]


class ChatError(TypedDict):
    """The body of every error of a chat's routes: that of all others, and its code and message once more."""

    error: ErrorDetail
    message: str
    code: Annotated[str, {"doc": "As `error.code`, in capitals.", "pattern": "^[A-Z][A-Z0-9_]*$"}]


class ChatConfig(TypedDict):
    """What everybody who is let in may know of a chat."""

    title: str
    description: NotRequired[str]
    welcomeMessage: NotRequired[str]
    authType: AuthType
    includeThinking: bool
    includeToolCalls: bool
    files: Annotated[bool, {"doc": "Files may come with a message."}]
    customization: NotRequired[dict[str, t.Any]]


class VisitorPause(TypedDict):
    """One thing that is to be decided."""

    pauseId: str
    review: Review
    expiresAt: NotRequired[Instant]
    yours: Annotated[bool, {"doc": "The visitor may decide it."}]


class VisitorResume(TypedDict):
    """How it goes on once that is decided."""

    url: str
    pauseId: str
    threadId: str
    expiresAt: NotRequired[Instant]
    pauseIds: list[str]


class VisitorRun(TypedDict):
    """How a visitor's run stands."""

    runId: str
    conversationId: NotRequired[str]
    status: str
    createdAt: Instant
    endedAt: NotRequired[Instant]
    error: NotRequired[RunFailure]
    resume: NotRequired[VisitorResume]
    pauses: NotRequired[list[VisitorPause]]


class SaidFile(TypedDict):
    """A file that came with a message."""

    name: str | None
    type: str | None


class SaidAnswer(TypedDict):
    """A text that was answered."""

    blockId: str
    text: str


class Said(VisitorRun):
    """A message, and what was answered."""

    input: str
    files: NotRequired[list[SaidFile]]
    answers: list[SaidAnswer]
    output: NotRequired[Annotated[dict[str, dict[str, t.Any]], {"doc": "What else visitors get, by block."}]]


class SaidList(TypedDict):
    """What was said in a conversation, newest first."""

    items: list[Said]
    nextCursor: NotRequired[Cursor]


class VisitorEventsQuery(TypedDict):
    """How a run is told, and from where on."""

    protocol: NotRequired[
        Annotated[t.Literal["agent-events-v1", "agent-text"], {"default": "agent-events-v1"}]
    ]
    after: NotRequired[Annotated[str, {"doc": "Id of the last event there is already."}]]


class CodeSent(TypedDict):
    """A code is on its way, if the address may get in."""

    message: str
    validMs: Annotated[int, {"doc": "How long it can be used.", "low": 0}]
    resendMs: Annotated[int, {"doc": "When the next one may be asked for.", "low": 0}]


class LetIn(TypedDict):
    """The visitor is in."""

    authType: NotRequired[AuthType]
    expiresAt: NotRequired[Annotated[Instant, {"doc": "Until when."}]]


class SignInReturnQuery(TypedDict):
    """What the OpenID provider sends a browser back with."""

    state: NotRequired[str]
    code: NotRequired[str]
    error: NotRequired[str]
    iss: NotRequired[str]
