"""What the graph surface answers in JSON (snake_case there).

Law of this room: see :mod:`app.schemas.shapes`.
"""

from __future__ import annotations

import typing as t
from typing import Annotated, NotRequired, TypedDict

from app.schemas.shapes.common import Instant, Milliseconds, Problem


class GraphNode(TypedDict):
    """A block of the workflow."""

    id: str
    type: str
    label: Annotated[str, {"doc": "Its name."}]


class GraphEdge(TypedDict):
    """From node to node."""

    source: str
    target: str
    label: NotRequired[Annotated[str, {"doc": "The way out of its source, such as `true`."}]]
    conditional: NotRequired[Annotated[bool, {"doc": "It may not be taken."}]]


class GraphBody(TypedDict):
    """The nodes that a block runs behind one of its ways out, as a loop does."""

    node: str
    handle: str
    nodes: list[str]


class GraphFlags(TypedDict):
    """Where a run begins, where it may end, and where it may wait for a person."""

    entry: str
    exits: list[str]
    pauses: NotRequired[list[str]]
    bodies: NotRequired[list[GraphBody]]


class Graph(TypedDict):
    """A workflow as a graph, in the order of its document."""

    nodes: list[GraphNode]
    edges: list[GraphEdge]
    flags: GraphFlags


class TopologyQuery(TypedDict):
    """Of which workflow."""

    workflow: NotRequired[Annotated[str, {"doc": "Id of the workflow; default: the server's."}]]


class TurnReview(TypedDict):
    """The oldest open question of a turn that waits."""

    pause_id: str
    node: str
    kind: t.Literal["answer", "tool"]
    draft: NotRequired[str]
    tool: NotRequired[str]
    arguments: NotRequired[t.Any]
    reasons: list[str]
    prompt: NotRequired[str]
    show: NotRequired[dict[str, t.Any]]
    expires_at: NotRequired[Instant]


class OtherQuestion(TypedDict):
    """A further open question."""

    pause_id: str
    node: str
    review: Annotated[dict[str, t.Any], {}]
    expires_at: NotRequired[Instant]


class TurnCost(TypedDict):
    """What a turn cost; without `total` where the price of a model is unknown."""

    total: NotRequired[Annotated[float, {"low": 0}]]
    currency: NotRequired[str]


class PathEntry(TypedDict):
    """One execution of a node."""

    node: str
    status: t.Literal["executed", "skipped", "failed"]
    duration_ms: Milliseconds


class ChatResponse(TypedDict):
    """The answer to one turn."""

    thread_id: str
    run_id: str
    content: str
    citations: list[t.Any]
    guardrail_decisions: list[dict[str, t.Any]]
    cost: TurnCost
    status: t.Literal["complete", "paused_for_review"]
    review: NotRequired[TurnReview]
    others: NotRequired[list[OtherQuestion]]
    path: list[PathEntry]
    trace_id: str
    turn_index: Annotated[int, {"doc": "How many turns came before it in its thread.", "low": 0}]


class TurnGoesOn(TypedDict):
    """The turn goes on without this caller."""

    thread_id: str
    run_id: str
    status: t.Literal["running"]
    status_url: str
    events_url: str


class TurnErrorDetail(TypedDict):
    """Why there is no answer."""

    code: str
    message: str
    details: NotRequired[list[Problem]]
    retryable: NotRequired[Annotated[bool, {"doc": "The same message may well succeed a little later."}]]
    requestId: str


class TurnError(TypedDict):
    """The body of a turn that was refused, or (with `run_id`) came to no answer."""

    error: TurnErrorDetail
    run_id: NotRequired[str]
