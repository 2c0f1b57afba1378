"""The frames of run events as types: what their JSON Schema is generated from (contract section 5).

Law of this room: one class for the ``data`` of each row of :data:`app.streams.run_event_levels.EVENTS`, members as
:mod:`app.streams.run_events` writes them; a test holds every frame of generated streams to them. Clients ignore types
and members they do not know, so the published schema leaves objects open.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

import msgspec
from msgspec import UNSET, Meta, UnsetType

from app.events import GapReason, RunStatus, ToolStatus
from app.streams.agent_events_schema import Count, Instant, Milliseconds
from app.streams.run_event_data import MIRRORED
from app.streams.run_event_levels import EVENTS
from app.streams.schema_document import schema_document

Index = Count


class Data(msgspec.Struct, forbid_unknown_fields=True):
    """Base of every object on this surface."""


class Sender(Data):
    """Who says it."""

    name: str


class Context(Data):
    """Where it is said."""

    node_id: str


class Participant(Data):
    """One who takes part in a debate."""

    index: Index
    name: str


class RunTokens(Data):
    """Token counts; what nobody knows is absent."""

    input: Count | UnsetType = UNSET
    output: Count | UnsetType = UNSET
    total: Count | UnsetType = UNSET
    cache_read: Count | UnsetType = UNSET
    cache_write: Count | UnsetType = UNSET
    reasoning: Count | UnsetType = UNSET


class RunShare(Data):
    """The usage of one block or model. `cost` is absent when a price is unknown."""

    tokens: RunTokens
    cost: t.Annotated[float, Meta(ge=0)] | UnsetType = UNSET
    currency: str | UnsetType = UNSET
    estimated: bool | UnsetType = UNSET


class RunUsage(RunShare):
    """The usage of the run."""

    duration_ms: Milliseconds | UnsetType = UNSET
    active_ms: Milliseconds | UnsetType = UNSET
    queued_ms: Milliseconds | UnsetType = UNSET
    human_wait_ms: Milliseconds | UnsetType = UNSET
    by_block: dict[str, RunShare] | UnsetType = UNSET
    by_model: dict[str, RunShare] | UnsetType = UNSET


class ThreadData(Data):
    """The thread this run belongs to; send it to continue."""

    thread_id: str


class Missing(Data):
    """The numbers of the first and the last event that cannot be told; what stands after them follows."""

    first: t.Annotated[int, Meta(ge=1)] = msgspec.field(name="from")
    last: t.Annotated[int, Meta(ge=1)] = msgspec.field(name="to")
    reason: GapReason


class NodeData(Data):
    """Which block."""

    node_id: str


class NodeStart(Data):
    """Which execution of which block; `node_run_id` is the same at its end."""

    node_id: str
    node_type: str
    node_name: str
    node_run_id: str


class NodeEnd(NodeStart, kw_only=True):
    """How it ended. `skipped`: it never began, for no path led to it."""

    success: bool
    duration_ms: Milliseconds
    error: str | UnsetType = UNSET
    skipped: bool | UnsetType = UNSET


class Loop(Data):
    """`iteration` counts from 1; with `exit` it is how many were done."""

    node_id: str
    iteration: Count
    path: t.Literal["loop", "exit"]


class Message(Data):
    """What was said, whole. `round`: of a debate."""

    content: t.Annotated[str, Meta(min_length=1)]
    sender: Sender
    context: Context
    round: t.Annotated[int, Meta(ge=1)] | UnsetType = UNSET


class Chunk(Data):
    """A piece of the answer; its pieces in order are the whole."""

    content: t.Annotated[str, Meta(min_length=1)]
    node_id: str


class Call(Data):
    """Which call."""

    tool_call_id: str
    node_id: str
    tool_name: str


class ToolUse(Call):
    """`tool_input`: the arguments as an object, or their text when they were none."""

    tool_input: t.Any = UNSET


class ToolRuns(Call):
    """It runs."""

    status: t.Literal["running"]


class ToolResult(Call, kw_only=True):
    """What came of it. `truncated`: `output` is the beginning of its text; `size`: all of its bytes."""

    status: ToolStatus
    output: t.Any = UNSET
    truncated: bool | UnsetType = UNSET
    size: Count | UnsetType = UNSET


class Routing(Data):
    """Where it goes on; `reason` where a model chose."""

    node_id: str
    route: str
    reason: str | UnsetType = UNSET


class Step(Data):
    """An agent of a sequence, from 0."""

    node_id: str
    agent_index: Index
    name: str


class DebateStart(Data):
    """`rounds`: at most."""

    node_id: str
    participants: list[Participant]
    rounds: Count


class DebateRound(Data):
    """From 1; 0 at the end of a debate in which none began."""

    node_id: str
    round: Count


class DebateEnd(DebateRound):
    """`consensus`: they agreed."""

    consensus: bool


class Ballot(Data):
    """`vote` is one of the options; `abstained` stands in its place."""

    node_id: str
    voter_index: int
    vote: str | UnsetType = UNSET
    abstained: bool | UnsetType = UNSET
    sender: Sender | UnsetType = UNSET


class VoteResult(Data):
    """`winner` is null when nobody has won; `has_majority`: more than half."""

    node_id: str
    votes: dict[str, Count]
    winner: str | None
    has_majority: bool
    abstained: Count


class Thinks(Data):
    """`chars`: so far. `text` only with `includeThinking`."""

    node_id: str
    state: t.Literal["started", "thinking", "finished"]
    chars: Count
    text: str | UnsetType = UNSET


class Searched(Data):
    """How the search ended."""

    node_id: str
    success: bool


class Review(Data):
    """What is to be decided: with `answer` the text `draft` is released, with `tool` the call of `tool` with
    `arguments` is made. `show` holds further values for whoever decides. Callers without a key get `kind` and
    `tool` only.
    """

    kind: t.Literal["answer", "tool"]
    draft: str | UnsetType = UNSET
    tool: str | UnsetType = UNSET
    arguments: t.Any = UNSET
    reasons: list[str] | UnsetType = UNSET
    prompt: str | UnsetType = UNSET
    show: dict[str, t.Any] | UnsetType = UNSET


class Pause(Data):
    """`pause_id` names the decision everywhere; `tool_call_id` is the call that waits for it; `expires_at` is when its
    time is up.
    """

    node_id: str
    pause_id: str
    review: Review
    tool_call_id: str | UnsetType = UNSET
    expires_at: Instant | UnsetType = UNSET


class Decided(Data):
    """How it was decided."""

    node_id: str
    pause_id: str
    decision: t.Literal["approve", "edit", "reject", "expired"]


class Detached(Data):
    """When to attach again."""

    retry_ms: Milliseconds


class Flow(Data):
    """Null when the next message enters at the start."""

    pinned_node: str | None
    pinned_agent: str | None


class Stopped(Data):
    """What would have run next: the first in document order, and all of them when there are several."""

    node_id: str | UnsetType = UNSET
    node_ids: list[str] | UnsetType = UNSET


class Failure(Data):
    """`code` is stable, `error` is for people."""

    error: str
    code: str


class NodeFailure(Failure):
    """The block at fault."""

    node_id: str


class Done(Data):
    """`cause` says why a run did not complete. One that is `paused` waits for people."""

    usage: RunUsage
    status: RunStatus | t.Literal["paused"]
    cause: str | UnsetType = UNSET


#: Type of event to the class of its ``data``.
DATA: Mapping[str, type[Data]] = {
    "thread": ThreadData,
    "gap": Missing,
    "workflow_node_start": NodeStart,
    "workflow_node_end": NodeEnd,
    "workflow_loop": Loop,
    "agent_message": Message,
    "chat_chunk": Chunk,
    "tool_use": ToolUse,
    "tool_executing": ToolRuns,
    "tool_result": ToolResult,
    "routing_decision": Routing,
    "sequential_start": Step,
    "sequential_end": Step,
    "debate_start": DebateStart,
    "debate_round": DebateRound,
    "debate_end": DebateEnd,
    "vote_cast": Ballot,
    "vote_result": VoteResult,
    "llm_thinking": Thinks,
    "search_started": NodeData,
    "search_finished": Searched,
    "processing_final_response": NodeData,
    "decision_requested": Pause,
    "decision_settled": Decided,
    "workflow_paused": Pause,
    "flow_state": Flow,
    "workflow_stopped": Stopped,
    "workflow_error": NodeFailure,
    "error": Failure,
    "detached": Detached,
    "done": Done,
}


def _frame(kind: str, when: str) -> type[t.Any]:
    """The class of one kind of frame."""
    data = DATA[kind]
    hints = t.get_type_hints(data, include_extras=True)
    fields: list[t.Any] = [
        ("seq", t.Annotated[int, Meta(ge=1)]),
        ("ts", Instant),
        ("run_id", str),
        ("thread_id", str),
        ("data", data),
    ]
    optional = dict(zip(data.__struct_fields__[::-1], data.__struct_defaults__[::-1], strict=False))
    for name in MIRRORED:
        if name in hints:
            fields.append((name, hints[name], UNSET) if name in optional else (name, hints[name]))
    name = "".join(part.title() for part in kind.split("_"))
    return msgspec.defstruct(
        f"{name}Frame",
        fields,
        tag_field="type",
        tag=kind,
        forbid_unknown_fields=True,
        kw_only=True,
        namespace={"__doc__": when},
    )


def run_events(*, closed: bool = False) -> dict[str, t.Any]:
    """The JSON Schema of one frame's data.

    :param closed: forbid members that are not described, to hold the server to the description.
    """
    frames = [_frame(row.type, row.when) for row in EVENTS]
    return schema_document(
        "runs",
        __name__,
        "Data of one frame of POST /api/workflows/{id}/runs. Ignore types and members you do not know. "
        "Frames carry `id: <runId>:<seq>`; there is no `event:` line.",
        frames,
        closed=closed,
    )
