"""The answer to one turn (contract section 6): the JSON body of ``/chat``, and the data of ``turn_completed``.

Law of this room: one function makes it, so that the two are the same bytes. It is made from the end, or the pause, of
a run and from what a fold has kept of the events; what a reader may not see is stripped first.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from app import encoding
from app import events as ev
from app.clock import rfc3339
from app.errors import RunError
from app.streams.final import OUTPUT_LIMIT
from app.streams.rights import Rights, strip_output

RETRIEVE, GUARDRAIL = "retrieve", "guardrail"


@dataclass(frozen=True, slots=True)
class Turn:
    """Which turn it is.

    :ivar index: how many came before it in its thread.
    """

    run_id: str
    thread_id: str
    trace_id: str
    index: int


@dataclass(slots=True)
class Known:
    """What the events of a turn have told so far.

    :ivar path: ``{node, status, duration_ms}`` of every execution, in order of their ends.
    :ivar types: of the block instances that ran. :ivar open: what people are asked, by pause id, oldest first.
    """

    path: list[dict[str, t.Any]] = field(default_factory=list)
    types: dict[str, str] = field(default_factory=dict)
    open: dict[str, dict[str, t.Any]] = field(default_factory=dict)


def chat_response(turn: Turn, known: Known, end: ev.RunCompleted | ev.RunPaused, rights: Rights) -> bytes:
    """The response as JSON.

    :raises RunError: ``output_too_large``.
    """
    outputs = strip_output(end.outputs, rights)
    output = strip_output(end.output, rights) if isinstance(end, ev.RunCompleted) else None
    body: dict[str, t.Any] = {
        "thread_id": turn.thread_id,
        "run_id": turn.run_id,
        "content": content_of(output),
        "citations": _citations(output, outputs, known),
        "guardrail_decisions": [
            {"node": block, **decision} for block, decision in _given(GUARDRAIL, "decisions", outputs, known)
        ],
        "cost": cost_of(end.usage),
        "status": "complete" if isinstance(end, ev.RunCompleted) else "paused_for_review",
    }
    if isinstance(end, ev.RunPaused):
        body |= _reviews(end, known)
    body |= {"path": known.path, "trace_id": turn.trace_id, "turn_index": turn.index}
    encoded = encoding.dumps(body)
    if len(encoded) > OUTPUT_LIMIT:
        message = f"The answer has {len(encoded)} bytes; at most {OUTPUT_LIMIT} can be sent."
        raise RunError("output_too_large", message)
    return encoded


def with_wait(response: bytes, human_wait_ms: int | None) -> bytes:
    """A response as the envelope has it: with how long the run has waited for people, if it has."""
    return response if human_wait_ms is None else b'%b,"human_wait_ms":%d}' % (response[:-1], human_wait_ms)


def content_of(output: t.Any) -> str:
    """What a run's output says: its text, or the text under ``content``; anything else as JSON."""
    if isinstance(output, Mapping) and isinstance(output.get("content"), str):
        output = output["content"]
    if output is None:
        return ""
    return encoding.clean_text(output) if isinstance(output, str) else encoding.dumps(output).decode()


def cost_of(usage: Mapping[str, t.Any]) -> dict[str, t.Any]:
    """What a turn cost; without ``total`` where the price of a model is unknown, or is not told."""
    cost = usage.get("cost")
    if cost is not None:
        return {"total": cost["total"], "currency": cost["currency"]}
    used = usage.get("byModel") or any(usage.get("tokens", {}).values())
    return {"currency": "USD"} if used else {"total": 0.0, "currency": "USD"}


def _citations(output: t.Any, outputs: Mapping[str, t.Any], known: Known) -> list[t.Any]:
    """Those that the output names, else all that was found."""
    if isinstance(output, Mapping) and isinstance(output.get("citations"), (list, tuple)):
        return list(output["citations"])
    return [citation for _, citation in _given(RETRIEVE, "citations", outputs, known)]


def _given(kind: str, member: str, outputs: Mapping[str, t.Any], known: Known) -> Iterator[tuple[str, t.Any]]:
    """What blocks of one kind list under a name, each with its block."""
    for block, output in outputs.items():
        if known.types.get(block) == kind:
            yield from ((block, item) for item in output.get(member, ()))


def _reviews(end: ev.RunPaused, known: Known) -> dict[str, t.Any]:
    """What people are asked: the oldest question, and the others if there are more."""
    first, *others = open_reviews(end, known)
    review = {"pause_id": first["pause_id"], "node": first["node"], **first["review"]}
    if "expires_at" in first:
        review["expires_at"] = first["expires_at"]
    return {"review": review, **({"others": others} if others else {})}


def open_reviews(end: ev.RunPaused, known: Known) -> list[dict[str, t.Any]]:
    """``{pause_id, node, review, expires_at?}`` of every open question, oldest first."""
    return [
        known.open.get(pause_id, {"pause_id": pause_id, "node": block, "review": {}})
        for pause_id, block in end.pauses
    ]


def review_of(event: ev.DecisionRequested, node: str, rights: Rights) -> dict[str, t.Any]:
    """A question as this reader may see it."""
    review = dict(event.review)
    if not rights.payloads:
        for inner in ("arguments", "show"):
            review.pop(inner, None)
    review.setdefault("reasons", [])
    asked = {"pause_id": event.pause_id, "node": node, "review": review}
    if event.expires_at is not None:
        asked["expires_at"] = rfc3339(event.expires_at)
    return asked
