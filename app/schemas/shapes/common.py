"""What many answers have in common: instants, durations, usage, pages, the error body.

Law of this room: see :mod:`app.schemas.shapes`.
"""

from __future__ import annotations

import typing as t
from typing import Annotated, NotRequired, TypedDict

Instant = Annotated[str, {"format": "date-time", "examples": ["2026-01-31T09:30:00.000Z"]}]
Milliseconds = Annotated[int, {"low": 0}]
Count = Annotated[int, {"low": 0}]
Cursor = Annotated[
    str, {"doc": "Send it as `cursor` for the next page; absent on the last one.", "nonempty": True}
]


class Page(TypedDict):
    """The parameters of every list."""

    limit: NotRequired[
        Annotated[int, {"doc": "How many items a page has at most.", "low": 1, "high": 100, "default": 50}]
    ]
    cursor: NotRequired[Annotated[str, {"doc": "`nextCursor` of the page before.", "nonempty": True}]]


class Problem(TypedDict):
    """One thing that is wrong with a request."""

    path: Annotated[str, {"doc": "JSON path, name of a parameter or header; empty for the whole body."}]
    message: Annotated[str, {"doc": "What is wrong, and what helps."}]


class ErrorDetail(TypedDict):
    """What went wrong before anything was done."""

    code: Annotated[str, {"doc": "Stable, never translated.", "pattern": "^[a-z][a-z0-9_]*$"}]
    message: Annotated[str, {"doc": "Names the thing and the cure, for people.", "nonempty": True}]
    details: NotRequired[Annotated[list[Problem], {"doc": "One entry per problem."}]]
    requestId: Annotated[
        str, {"doc": "As in the header `X-Request-Id`; the server's log has the rest under it."}
    ]


class Error(TypedDict):
    """The body of every error."""

    error: ErrorDetail


class Tokens(TypedDict):
    """Token counts: the vendor's, or counted here where it states none. What neither knows is absent."""

    input: NotRequired[Count]
    output: NotRequired[Count]
    total: NotRequired[Count]
    cacheRead: NotRequired[Count]
    cacheWrite: NotRequired[Count]
    reasoning: NotRequired[Count]


class Cost(TypedDict):
    """What it cost."""

    total: Annotated[float, {"low": 0}]
    currency: str
    estimated: Annotated[bool, {"doc": "Some of the counts are not the vendor's."}]


class Share(TypedDict):
    """The usage of one block or model. `cost` is absent when the price of a call is unknown."""

    tokens: Tokens
    cost: NotRequired[Cost]


class Usage(TypedDict):
    """The usage of a run. `cost` is absent when the price of a call is unknown."""

    tokens: Tokens
    cost: NotRequired[Cost]
    durationMs: Milliseconds
    activeMs: Milliseconds
    queuedMs: Annotated[int, {"doc": "How long it stood in line for its models.", "low": 0}]
    humanWaitMs: Annotated[int, {"doc": "How long it waited for people.", "low": 0}]
    byBlock: dict[str, Share]
    byModel: NotRequired[Annotated[dict[str, Share], {"doc": "Visitors of chats are not told."}]]


RunStatus = t.Literal["completed", "failed", "cancelled", "timed_out"]
