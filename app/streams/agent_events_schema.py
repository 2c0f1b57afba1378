"""The frames of agent events as types: what their JSON Schemas are generated from (contract 3.2, 3.5).

Law of this room: one class per row of the contract's table, its members as :mod:`app.streams.agent_events`
writes them. The projection writes bytes by hand because a token may not cost an object; a test holds every
frame of generated streams to these classes, so the two cannot drift apart.

Clients that negotiated have to ignore members and events they do not know, so their schema leaves objects
open; for clients without the header nothing is ever added, so theirs is closed (contract 1.13).
"""

from __future__ import annotations

import typing as t

import msgspec
from msgspec import UNSET, Meta, UnsetType

from app.events import GapReason, ResetReason, ToolStatus
from app.streams.schema_document import schema_document

Instant = t.Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
Milliseconds = t.Annotated[int, Meta(ge=0)]
Count = t.Annotated[int, Meta(ge=0)]


class Frame(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Base of every object on the wire of this surface."""


class AnswerText(Frame):
    """A piece of a block's answer: the only frame without `event`."""

    block_id: str
    chunk: t.Annotated[str, Meta(min_length=1)]


class Retraction(Frame, tag_field="event", tag="chunk_reset"):
    """Everything shown for the block since its last retraction does not stand."""

    block_id: str
    reason: ResetReason


class Thinking(Frame, tag_field="event", tag="thinking"):
    """A piece of the model's thinking. `truncated` is true on the last one when the cap cut it."""

    block_id: str
    data: str
    truncated: bool | UnsetType = UNSET


class ToolStart(Frame, tag_field="event", tag="tool"):
    """A tool call was announced; id and name never change."""

    block_id: str
    phase: t.Literal["start"]
    id: str
    name: str


class ToolEnd(Frame, tag_field="event", tag="tool"):
    """A tool call was settled; same id and name as its start."""

    block_id: str
    phase: t.Literal["end"]
    id: str
    name: str
    status: ToolStatus


class SoftFailure(Frame, tag_field="event", tag="stream_error"):
    """The live text of a block was lost and the run goes on; not the end."""

    error: str
    block_id: str | UnsetType = UNSET


class Working(Frame, tag_field="event", tag="status"):
    """To visitors of chats, at most every five seconds of silence: the run goes on."""

    state: t.Literal["working"]


class Missing(Frame, tag_field="event", tag="gap"):
    """For those who attach: the events from number `from` to number `to` cannot be told any more. No text and no open
    tool that is shown stands; the text that does follows, and the tools that are open.
    """

    first: t.Annotated[int, Meta(ge=1)] = msgspec.field(name="from")
    last: t.Annotated[int, Meta(ge=1)] = msgspec.field(name="to")
    reason: GapReason


class ToolCall(Frame):
    """A call as `toolCalls` lists it. `arguments` and `result` are for callers with a key."""

    id: str
    name: str
    status: ToolStatus
    start_time: Instant
    end_time: Instant
    duration: Milliseconds
    arguments: t.Any = UNSET
    result: t.Any = UNSET


class ToolCalls(Frame):
    """The calls of one agent, in order of their announcement."""

    entries: list[ToolCall] = msgspec.field(name="list")
    count: Count


class Tokens(Frame):
    """Token counts: the vendor's, or counted by us where it states none. What neither knows is absent."""

    input: Count | UnsetType = UNSET
    output: Count | UnsetType = UNSET
    total: Count | UnsetType = UNSET
    cache_read: Count | UnsetType = UNSET
    cache_write: Count | UnsetType = UNSET
    reasoning: Count | UnsetType = UNSET


class Cost(Frame):
    """What it cost. `estimated`: some of the counts are ours, not the vendor's."""

    total: t.Annotated[float, Meta(ge=0)]
    currency: str
    estimated: bool


class Share(Frame):
    """The usage of one block or model."""

    tokens: Tokens
    cost: Cost | UnsetType = UNSET


class Usage(Frame):
    """The usage of the run. `cost` is absent when the price of a call is unknown, `byModel` for visitors of chats."""

    tokens: Tokens
    duration_ms: Milliseconds
    active_ms: Milliseconds
    queued_ms: Milliseconds
    human_wait_ms: Milliseconds
    by_block: dict[str, Share]
    by_model: dict[str, Share] | UnsetType = UNSET
    cost: Cost | UnsetType = UNSET


class Detached(Frame, tag_field="event", tag="detached"):
    """The stream ends although the run goes on: another process of the server takes it over. Attach again, after
    `retryMs`, which the line `retry:` says as well; no sentinel follows.
    """

    retry_ms: Milliseconds


class Resume(Frame):
    """How a paused run is continued. `threadId` is empty for a run in no thread. Of several open decisions `pauseId`
    is the oldest.
    """

    url: str
    pause_id: str
    thread_id: str
    expires_at: Instant | UnsetType = UNSET


class FinalData(Frame):
    """What a run hands over that has finished, or that waits for people: `status` "paused", with `resume`.

    `output`: the run's output, or the map of selections that were not sent as text; of a paused run those of them that
    are there, else empty. `error` comes with `success` false.
    """

    success: bool
    run_id: str
    status: t.Literal["completed", "paused"]
    output: t.Any
    tool_calls: dict[str, ToolCalls]
    usage: Usage
    error: str | UnsetType = UNSET
    resume: Resume | UnsetType = UNSET


class Final(Frame, tag_field="event", tag="final"):
    """The end of a run that reached its end, or the end of the stream of one that waits for people."""

    data: FinalData


class Error(Frame, tag_field="event", tag="error"):
    """The end of a run that failed, was stopped or ran out of time."""

    error: str
    code: str
    block_id: str | UnsetType = UNSET


class SettledError(Frame, tag_field="event", tag="error"):
    """The end of a run that failed, was stopped or ran out of time; clients without the header get no code."""

    error: str
    block_id: str | UnsetType = UNSET


Sentinel = t.Annotated[t.Literal["[DONE]"], Meta(description="Always last; then the body ends.")]

_NEGOTIATED = (
    AnswerText,
    Retraction,
    Thinking,
    ToolStart,
    ToolEnd,
    SoftFailure,
    Working,
    Missing,
    Detached,
    Final,
    Error,
    Sentinel,
)
_SETTLED = (AnswerText, SoftFailure, Final, SettledError, Sentinel)


def agent_events(*, closed: bool = False) -> dict[str, t.Any]:
    """The JSON Schema of one frame's data for clients that sent the protocol header.

    :param closed: forbid members that are not described, to hold the server to the description.
    """
    schema = schema_document(
        "agent-events-v1",
        __name__,
        "Data of one frame, for clients that sent X-Studio-Stream-Protocol. Ignore events and members you do not "
        "know; `seq` and `turn` are reserved. Frames carry `id: <runId>:<seq>`.",
        _NEGOTIATED,
        closed=closed,
    )
    if not closed:
        # Open objects would let an event that is not known pass for answer text.
        schema["$defs"]["AnswerText"]["properties"]["event"] = False
    return schema


def agent_text() -> dict[str, t.Any]:
    """The JSON Schema of one frame's data for clients without the protocol header."""
    return schema_document(
        "agent-text",
        __name__,
        "Data of one frame, for clients without a protocol header: settled text only. Nothing is ever added.",
        _SETTLED,
        closed=True,
    )
