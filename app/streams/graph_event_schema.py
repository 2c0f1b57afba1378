"""The frames of graph events as types: what their JSON Schema, and the table on their page, are made from (contract
section 6).

Law of this room: one row for each event, members as :mod:`app.streams.graph_events` writes them; a test holds the
frames of generated streams to them. Clients ignore events and members they do not know, so the published schema leaves
objects open.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

import msgspec
from msgspec import UNSET, Meta, UnsetType

from app.streams.agent_events_schema import Count, Instant, Milliseconds
from app.streams.run_event_schema import Missing
from app.streams.schema_document import schema_document


class GraphData(msgspec.Struct, forbid_unknown_fields=True):
    """Base of every object on this surface."""


class Node(GraphData):
    """A block of the workflow. `label`: its name."""

    id: str
    type: str
    label: str


class GraphEdge(GraphData):
    """From node to node. `label`: the way out of its source, such as `true`; `conditional`: it may not be taken."""

    source: str
    target: str
    label: str | UnsetType = UNSET
    conditional: bool | UnsetType = UNSET


class Body(GraphData):
    """The nodes that the block `node` runs behind its way out `handle`, as a loop does."""

    node: str
    handle: str
    nodes: list[str]


class Flags(GraphData):
    """Where a run begins, where it may end, and where it may wait for a person."""

    entry: str
    exits: list[str]
    pauses: list[str] | UnsetType = UNSET
    bodies: list[Body] | UnsetType = UNSET


class GraphTopology(GraphData):
    """The workflow as a graph, in the order of its document."""

    nodes: list[Node]
    edges: list[GraphEdge]
    flags: Flags


class NodeStarted(GraphData):
    """A node runs. `iteration`: how often it has, from 1; `instance`: which one of several at once."""

    node: str
    run_id: str
    ts_ms: Milliseconds
    iteration: Count | UnsetType = UNSET
    instance: str | UnsetType = UNSET


class NodeCompleted(GraphData):
    """How it ended."""

    node: str
    status: t.Literal["executed", "skipped", "failed"]
    duration_ms: Milliseconds
    error: str | UnsetType = UNSET
    iteration: Count | UnsetType = UNSET
    instance: str | UnsetType = UNSET


class Reviewed(GraphData, kw_only=True):
    """What a person is asked: to release a text (`answer`), or a call (`tool`)."""

    kind: t.Literal["answer", "tool"]
    draft: str | UnsetType = UNSET
    tool: str | UnsetType = UNSET
    arguments: t.Any = UNSET
    reasons: list[str]
    prompt: str | UnsetType = UNSET
    show: dict[str, t.Any] | UnsetType = UNSET


class Asked(GraphData, kw_only=True):
    """One open question."""

    pause_id: str
    node: str
    review: Reviewed
    expires_at: Instant | UnsetType = UNSET


class Paused(Asked, kw_only=True):
    """The oldest open question; `others`: there are more."""

    run_id: str
    thread_id: str
    others: list[Asked] | UnsetType = UNSET


class Failed(GraphData):
    """`retryable`: the same message may succeed a little later."""

    code: str
    message: str
    retryable: bool


class Detached(GraphData):
    """When to attach again, in milliseconds."""

    retry_ms: Milliseconds


class Review(Reviewed, kw_only=True):
    """The oldest open question, in the response."""

    pause_id: str
    node: str
    expires_at: Instant | UnsetType = UNSET


class Cost(GraphData):
    """`total` is absent when the price of a model is unknown."""

    total: t.Annotated[float, Meta(ge=0)] | UnsetType = UNSET
    currency: str | UnsetType = UNSET


class PathEntry(GraphData):
    """One execution of a node."""

    node: str
    status: t.Literal["executed", "skipped", "failed"]
    duration_ms: Milliseconds


class ChatResponse(GraphData, kw_only=True):
    """What the turn came to. `human_wait_ms`: of a turn that has waited for people, in the frame only."""

    thread_id: str
    run_id: str
    content: str
    citations: list[t.Any]
    guardrail_decisions: list[dict[str, t.Any]]
    cost: Cost
    status: t.Literal["complete", "paused_for_review"]
    review: Review | UnsetType = UNSET
    others: list[Asked] | UnsetType = UNSET
    path: list[PathEntry]
    trace_id: str
    turn_index: Count
    human_wait_ms: Milliseconds | UnsetType = UNSET


@dataclass(frozen=True, slots=True)
class GraphEventRow:
    """One kind of event.

    :ivar shown: the members of its data, for people; ``?`` marks those that may be absent.
    :ivar when: what it says and when it comes, for people.
    """

    event: str
    data: type[t.Any]
    shown: str
    when: str


#: Every event there is.
EVENTS: tuple[GraphEventRow, ...] = (
    GraphEventRow(
        "graph_topology",
        GraphTopology,
        "nodes[{id, type, label}], edges[{source, target, label?, conditional?}], "
        "flags{entry, exits, pauses?, bodies?}",
        "First, and once more where a run goes on after a pause: the graph to draw.",
    ),
    GraphEventRow(
        "node_started", NodeStarted, "node, run_id, ts_ms, iteration?, instance?", "A node begins to run."
    ),
    GraphEventRow(
        "node_completed",
        NodeCompleted,
        "node, status, duration_ms, error?, iteration?, instance?",
        "It has ended: `executed` or `failed`. Nodes that never ran come at the end of a completed turn, as `skipped`.",
    ),
    GraphEventRow(
        "paused",
        Paused,
        "run_id, thread_id, pause_id, node, review{kind, draft?, tool?, arguments?, reasons, prompt?, show?}, "
        "expires_at?, others?",
        "Last, when the turn waits for a person. [Answer it](#answering), and it goes on.",
    ),
    GraphEventRow(
        "turn_completed",
        ChatResponse,
        "[the response](#the-response), `human_wait_ms?`",
        "Last, when the turn is complete.",
    ),
    GraphEventRow(
        "error",
        Failed,
        "code, message, retryable",
        "Last, when the turn has failed, was stopped, or its time was up.",
    ),
    GraphEventRow(
        "detached",
        Detached,
        "retry_ms",
        "Last, when the server shuts down and the run goes on at another one: [attach](#attaching) to it.",
    ),
    GraphEventRow(
        "gap",
        Missing,
        "from, to, reason",
        "The events between cannot be told any more, to those who [attach](#attaching) late, or whose server died. "
        "What stands follows.",
    ),
)


def graph_events(*, closed: bool = False) -> dict[str, t.Any]:
    """The JSON Schema of one frame, as ``{event, data}``.

    :param closed: forbid members that are not described, to hold the server to the description.
    """
    frames = [
        msgspec.defstruct(
            f"{''.join(part.title() for part in row.event.split('_'))}Frame",
            [("data", row.data)],
            tag_field="event",
            tag=row.event,
            forbid_unknown_fields=True,
            namespace={"__doc__": row.when},
        )
        for row in EVENTS
    ]
    return schema_document(
        "graph",
        __name__,
        "One frame of POST /chat: the name on its `event:` line, and the data. Ignore events and members you do not "
        "know. Frames carry `id: <runId>:<seq>`.",
        frames,
        closed=closed,
    )
