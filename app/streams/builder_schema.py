"""The frames of builder events as types: what their JSON Schema is generated from (contract section 4).

Law of this room: one class for the ``data`` of each type, members as :mod:`app.streams.builder` writes them; a test
holds every frame of generated streams to them. Clients ignore types and members they do not know, so the published
schema leaves objects open.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

import msgspec
from msgspec import UNSET, Meta, UnsetType

from app.events import CancelCause, GapReason, ToolStatus
from app.streams.agent_events_schema import Instant, Milliseconds, Resume, Usage
from app.streams.schema_document import schema_document

Number = t.Annotated[int, Meta(ge=1)]
Text = t.Annotated[str, Meta(min_length=1)]


class Told(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """Base of every object on this surface."""


class Started(Told):
    """A run begins."""


class Execution(Told):
    """One execution of a block. `blockId` has an index where several run at once, and the block it runs in before a
    slash. `executionOrder` counts the executions of the run from 1; `iteration` is that of the loop it lies in.
    """

    block_id: str
    block_name: str
    block_type: str
    execution_order: Number
    iteration: Number | UnsetType = UNSET


class BlockStarted(Execution):
    """It begins."""


class BlockCompleted(Execution, kw_only=True):
    """It has ended well. `input`: its config as it was rendered, in draft runs. `output` is what counts, whatever was
    streamed before.
    """

    input: t.Any | UnsetType = UNSET
    output: t.Any
    duration_ms: Milliseconds


class BlockError(Execution, kw_only=True):
    """It has failed, or was given up."""

    input: t.Any | UnsetType = UNSET
    error: str
    code: str
    duration_ms: Milliseconds


class Chunk(Told):
    """A piece of text as it is written; it may be taken back."""

    block_id: str
    chunk: Text


class Block(Told):
    """Which block."""

    block_id: str


class ChunkReset(Block):
    """What stands of its text does not stand any more."""


class Thinking(Told):
    """A piece of a model's thinking; `truncated`: the last one that is told."""

    block_id: str
    text: str
    truncated: t.Literal[True] | UnsetType = UNSET


class Tool(Told):
    """A call of a tool begins, or has ended with `status`."""

    block_id: str
    phase: t.Literal["start", "end"]
    id: str
    name: str
    status: ToolStatus | UnsetType = UNSET


class Done(Block):
    """Nothing more of this execution is streamed."""


class Log(Told, kw_only=True):
    """One execution, as its events told it. One that was `skipped` has no order, `running` and `paused` are those of a
    run that waits. Of a long run the first are left out, and so is what is large: a reference stands in its place.
    """

    block_id: str
    block_name: str
    block_type: str
    execution_order: Number | UnsetType = UNSET
    iteration: Number | UnsetType = UNSET
    status: t.Literal["completed", "failed", "skipped", "running", "paused"]
    started_at: Instant | UnsetType = UNSET
    ended_at: Instant | UnsetType = UNSET
    input: t.Any | UnsetType = UNSET
    output: t.Any | UnsetType = UNSET
    error: str | UnsetType = UNSET
    code: str | UnsetType = UNSET
    duration_ms: Milliseconds | UnsetType = UNSET


class Ended(Told):
    """What every end says."""

    duration_ms: Milliseconds
    usage: Usage
    final_block_logs: list[Log]


class Completed(Ended, kw_only=True):
    """The run has reached its end. `error` comes with `success` false: an error edge or a response ended it."""

    success: bool
    output: t.Any
    error: str | UnsetType = UNSET


class Question(Told):
    """What a person has to decide. `review` is what they are shown."""

    pause_id: str
    block_id: str
    tool_call_id: str | UnsetType = UNSET
    review: dict[str, t.Any] | UnsetType = UNSET
    expires_at: Instant | UnsetType = UNSET


class Paused(Ended, kw_only=True):
    """Nothing can go on before a person has decided. The stream ends, the run does not."""

    pauses: list[Question]
    resume: Resume


class Failed(Ended, kw_only=True):
    """The run failed. `blockId` is at fault, absent when none is."""

    error: str
    code: str
    cause: str
    block_id: str | UnsetType = UNSET


class Cancelled(Ended):
    """The run was stopped."""

    error: str
    code: t.Literal["cancelled"]
    cause: CancelCause


class TimedOut(Ended):
    """The run's own time limit passed."""

    error: str
    code: t.Literal["timed_out"]


class Missing(Told):
    """Only for those who attach: the events between cannot be told any more. What you show does not stand; what
    stands follows, and `executionOrder` counts anew.
    """

    first: Number = msgspec.field(name="from")
    last: Number = msgspec.field(name="to")
    reason: GapReason


class Detached(Told):
    """In place of an end: the run goes on in another process. Attach again, after `retryMs`; no sentinel follows."""

    retry_ms: Milliseconds


#: Type of event to the class of its ``data``.
DATA: Mapping[str, type[Told]] = {
    "execution:started": Started,
    "block:started": BlockStarted,
    "block:completed": BlockCompleted,
    "block:error": BlockError,
    "stream:chunk": Chunk,
    "stream:chunk_reset": ChunkReset,
    "stream:thinking": Thinking,
    "stream:tool": Tool,
    "stream:done": Done,
    "execution:completed": Completed,
    "execution:paused": Paused,
    "execution:error": Failed,
    "execution:cancelled": Cancelled,
    "execution:timed_out": TimedOut,
    "gap": Missing,
    "detached": Detached,
}
#: Those that end a stream, before the sentinel.
ENDS = tuple(kind for kind, data in DATA.items() if issubclass(data, Ended))


def _frame(kind: str, data: type[Told]) -> type[t.Any]:
    """The class of one kind of frame."""
    name = "".join(part.title() for part in kind.replace(":", "_").split("_"))
    fields: list[t.Any] = [
        ("timestamp", Instant),
        ("runId", str),
        ("workflowId", str),
        ("data", data),
        ("eventId", Number | UnsetType, UNSET),
    ]
    return msgspec.defstruct(
        f"{name}Event",
        fields,
        tag_field="type",
        tag=kind,
        forbid_unknown_fields=True,
        kw_only=True,
        namespace={"__doc__": data.__doc__},
    )


def builder_events(*, closed: bool = False) -> dict[str, t.Any]:
    """The JSON Schema of one frame's data, the sentinel aside.

    :param closed: forbid members that are not described, to hold the server to the description.
    """
    return schema_document(
        "builder",
        __name__,
        "Data of one frame of POST /api/workflows/{id}/draft/run; the last frame's data is [DONE], which is no JSON. "
        "Ignore types and members you do not know. Frames carry `id: <runId>:<seq>`.",
        [_frame(kind, data) for kind, data in DATA.items()],
        closed=closed,
    )
