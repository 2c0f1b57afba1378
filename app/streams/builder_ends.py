"""How a builder session ends: the type of its last event, and what it says. Pure."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from app import encoding
from app import events as ev
from app.clock import rfc3339
from app.streams import references
from app.streams.final import resume_of
from app.streams.rights import Rights, strip_output

_RIGHTS = Rights(payloads=True)


def ending(run_id: str, event: ev.Terminal) -> tuple[str, dict[str, t.Any]]:
    """The type of a terminal event, and its own part of the data."""
    if isinstance(event, ev.RunCompleted):
        output = strip_output(event.output, _RIGHTS)
        if len(encoding.dumps(output)) > references.VALUE_LIMIT:
            output = references.whole(run_id, output, ("output",))
        data: dict[str, t.Any] = {"success": event.success, "output": output}
        return "execution:completed", data | ({} if event.success else {"error": event.error or "It failed."})
    if isinstance(event, ev.RunFailed):
        data = {"error": event.message, "code": event.code, "cause": ev.failure_cause(event.code)}
        return "execution:error", data | ({} if event.block is None else {"blockId": event.block})
    if isinstance(event, ev.RunTimedOut):
        return "execution:timed_out", {"error": ev.TIMEOUT_TEXT, "code": "timed_out"}
    assert isinstance(event, ev.RunCancelled)
    data = {"error": ev.cancel_text(event.cause), "code": "cancelled", "cause": event.cause}
    return "execution:cancelled", data


def pauses(
    run_id: str, thread_id: str, event: ev.RunPaused, asked: Mapping[str, ev.DecisionRequested]
) -> dict[str, t.Any]:
    """What people have to decide, oldest first, and how the run goes on then."""
    told = []
    for pause_id, block in event.pauses:
        question = asked.get(pause_id)
        body: dict[str, t.Any] = {"pauseId": pause_id, "blockId": block}
        if question is not None:
            body |= {} if question.call is None else {"toolCallId": question.call}
            body["review"] = question.review
            if question.expires_at is not None:
                body["expiresAt"] = rfc3339(question.expires_at)
        told.append(body)
    return {"pauses": told, "resume": resume_of(run_id, thread_id, event, asked.values())}
