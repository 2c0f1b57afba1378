"""Bodies of requests, as frozen dataclasses.

Law of this room: strict. An unknown key, a wrong type or a value out of range is a problem with its
path; what is documented but not built yet is refused by name, never ignored.
"""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Mapping
from dataclasses import dataclass

from app.errors import Problem, ValidationFailed
from app.schemas import derive
from app.schemas.paths import in_document_order


def _key(name: str, doc: str, **more: t.Any) -> dict[str, t.Any]:
    return {"key": name, "doc": doc, **more}


@dataclass(frozen=True, slots=True)
class ExecuteBody:
    """Body of ``POST /api/workflows/{id}/execute`` (contract 3.4)."""

    input: t.Any = dataclasses.field(
        default=None, metadata={"doc": "The run's input; text becomes {message}, nothing becomes {}."}
    )
    stream: bool = dataclasses.field(default=False, metadata={"doc": "Answer with a stream of agent events."})
    asynchronous: bool = dataclasses.field(
        default=False, metadata=_key("async", "Answer 202 at once; the run goes on by itself.")
    )
    selected_outputs: tuple[str, ...] | None = dataclasses.field(
        default=None,
        metadata=_key("selectedOutputs", "What to deliver, as block.path.", most=100, nonempty=True),
    )
    include_thinking: bool = dataclasses.field(
        default=False, metadata=_key("includeThinking", "Send thinking frames.")
    )
    include_tool_calls: bool = dataclasses.field(
        default=False, metadata=_key("includeToolCalls", "Send tool frames.")
    )
    conversation_id: str | None = dataclasses.field(
        default=None,
        metadata=_key("conversationId", "The conversation this run belongs to.", most=255, nonempty=True),
    )
    timeout_seconds: int | None = dataclasses.field(
        default=None,
        metadata=_key("timeoutSeconds", "Shortens the workflow's own limit (seconds).", low=1, high=604800),
    )
    version: int | None = dataclasses.field(
        default=None, metadata={"doc": "A deployed version; the live one when absent.", "low": 1}
    )


def load_execute(body: t.Any) -> ExecuteBody:
    """The body of an execute request.

    ``input`` of the result is what the run gets: a bare string as ``{"message": ...}``, none as ``{}``.

    :raises ValidationFailed: 400 with every problem.
    """
    parsed, problems = derive.load(ExecuteBody, body, null_unset=False)
    if parsed is None:
        raise ValidationFailed(in_document_order(body, problems))
    if parsed.asynchronous and parsed.stream:
        raise ValidationFailed([Problem("async", "stream and async exclude each other; send one of them")])
    if isinstance(parsed.input, Mapping):
        return parsed
    return dataclasses.replace(parsed, input=run_input(parsed.input))


@dataclass(frozen=True, slots=True)
class RunsBody:
    """Body of ``POST /api/workflows/{id}/runs`` (contract section 5)."""

    message: str | None = dataclasses.field(
        default=None, metadata={"doc": "What the user says; the run's input is {message}."}
    )
    input: t.Any = dataclasses.field(default=None, metadata={"doc": "The run's input, instead of a message."})
    thread_id: str | None = dataclasses.field(
        default=None, metadata={"doc": "The thread to continue; without it a new one is made.", "most": 255}
    )
    events: t.Literal["full", "messages", "minimal"] = dataclasses.field(
        default="full", metadata={"doc": "How much to tell."}
    )
    include_thinking: bool = dataclasses.field(
        default=False, metadata=_key("includeThinking", "Also send the text of the models' thinking.")
    )


def load_runs(body: Mapping[str, t.Any]) -> RunsBody:
    """The body of a request for run events; ``input`` of the result is what the run gets.

    :raises ValidationFailed: 400 with every problem.
    """
    parsed, problems = derive.load(RunsBody, body, null_unset=False)
    if "message" in body and "input" in body:
        problems.append(Problem("input", "message and input exclude each other; send one of them"))
    if parsed is None or problems:
        raise ValidationFailed(in_document_order(body, problems))
    return dataclasses.replace(
        parsed, input=run_input(parsed.input if parsed.message is None else parsed.message)
    )


@dataclass(frozen=True, slots=True)
class DraftRunBody:
    """Body of ``POST /api/workflows/{id}/draft/run`` (contract section 4)."""

    input: t.Any = dataclasses.field(
        default=None, metadata={"doc": "The run's input; text becomes {message}, nothing becomes {}."}
    )
    document: dict[str, t.Any] | None = dataclasses.field(
        default=None, metadata={"doc": "What to run: edits that are not saved. Default: the draft."}
    )
    input_from_run_id: str | None = dataclasses.field(
        default=None,
        metadata=_key("inputFromRunId", "Take the input of an earlier run of this workflow.", nonempty=True),
    )
    stop_after: str | None = dataclasses.field(
        default=None,
        metadata=_key("stopAfter", "Id of a block: with its end the run is over.", nonempty=True),
    )


def load_draft_run(body: Mapping[str, t.Any]) -> DraftRunBody:
    """The body of a request to run a draft; ``input`` of the result is what the run gets, unless it is another one's.

    :raises ValidationFailed: 400 with every problem.
    """
    parsed, problems = derive.load(DraftRunBody, body, null_unset=False)
    if "input" in body and "inputFromRunId" in body:
        message = "input and inputFromRunId exclude each other; send one of them"
        problems.append(Problem("inputFromRunId", message))
    if parsed is None or problems:
        raise ValidationFailed(in_document_order(body, problems))
    return dataclasses.replace(parsed, input=run_input(parsed.input))


def run_input(value: t.Any) -> t.Any:
    """What a run gets for an ``input`` as sent: text as ``{"message": ...}``, none as ``{}``, the rest as it is."""
    if value is None:
        return {}
    if isinstance(value, str):
        return {"message": value}
    return value
