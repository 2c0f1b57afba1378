"""A run's record as the API shows it. Pure: a row in, a body out.

Law of this room: time segments never hold thinking or tool payloads, for anyone (contract 3.5).
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from app.clock import rfc3339
from app.streams import references
from app.streams.final import RUNS_URL, referring_calls
from app.streams.rights import Rights, strip_output

if t.TYPE_CHECKING:
    from app.store.checkpoints import DecisionRow

#: Whoever may read a run has a key, so tool arguments and results stay; segments are stripped all the same.
_RIGHTS = Rights(thinking=False, tools=True, payloads=True)


def run_summary(row: Mapping[str, t.Any], *, details: bool) -> dict[str, t.Any]:
    """What an item of ``GET /api/runs`` says: nothing of what the run was asked or answered.

    :param row: a row of ``store.run_list.page`` (or ``Run.record``): snake_case, instants in epoch ms.
    :param details: also show the vendor's own (masked) words on an error.
    """
    body: dict[str, t.Any] = {
        "runId": row["id"],
        "workflowId": row["workflow_id"],
        "version": row["version"],
        "conversationId": row["conversation_id"],
        "threadId": row["thread_id"],
        "status": row["status"],
        "cause": row["cause"],
        "createdAt": _instant(row["created_at"]),
        "startedAt": _instant(row["started_at"]),
        "pausedAt": _instant(row.get("paused_at")) if row["status"] == "paused" else None,
        "endedAt": _instant(row["ended_at"]),
        "queuedMs": row["queued_ms"],
        "activeMs": row["active_ms"],
        "humanWaitMs": row["human_wait_ms"],
        "error": _error(row["error"], details),
        "usage": row["usage"],
    }
    return {name: value for name, value in body.items() if value is not None}


def run_body(row: Mapping[str, t.Any], *, details: bool) -> dict[str, t.Any]:
    """The body of ``GET /api/runs/{id}``.

    :param row: a row of ``store.runs.get`` (or ``Run.record``): snake_case, instants in epoch ms.
    :param details: also show the vendor's own (masked) words on an error, and which model calls failed.
    """
    body = run_summary(row, details=details)
    body["input"] = row["input"]
    if row["status"] == "completed":
        body["output"] = strip_output(row["output"], _RIGHTS)
    body["partialText"] = row["partial_text"] or {}
    body["toolCalls"] = _tool_calls(row["tool_calls"] or {})
    body["blocks"] = [_block(block, details) for block in row["blocks"]]
    body["modelCalls"] = [_model_call(call) for call in row["usages"]]
    if details and row["model_failures"]:
        body["modelFailures"] = [_model_failure(failed) for failed in row["model_failures"]]
    return body


def resume_block(
    row: Mapping[str, t.Any], asked: t.Sequence[DecisionRow], runs_url: str = RUNS_URL
) -> dict[str, t.Any]:
    """How a paused run is continued, as in the answer that said that it paused; ``pauseIds`` are all that are open.

    :param asked: its open decisions, oldest first. :param runs_url: where the caller finds runs.
    """
    body: dict[str, t.Any] = {
        "url": f"{runs_url}/{row['id']}/resume",
        "pauseId": asked[0].id if asked else "",
        "threadId": row["thread_id"] or "",
    }
    if asked and asked[0].expires_at is not None:
        body["expiresAt"] = rfc3339(asked[0].expires_at)
    return {**body, "pauseIds": [decision.id for decision in asked]}


def referring(body: dict[str, t.Any]) -> dict[str, t.Any]:
    """The body of a run with references for values that are too large to be told in it (contract 3.5)."""
    run_id = body["runId"]
    body = dict(body)
    for name in ("input", "output"):
        if name in body:
            body[name] = references.whole(run_id, body[name], (name,))
    body["toolCalls"] = referring_calls(run_id, body["toolCalls"])
    body["blocks"] = [
        {
            **block,
            "output": references.referring(run_id, block["output"], ("blocks", block["blockId"], "output")),
        }
        if "output" in block
        else block
        for block in body["blocks"]
    ]
    return body


def _model_failure(row: Mapping[str, t.Any]) -> dict[str, t.Any]:
    """One attempt that failed; ``status``: of the vendor's HTTP answer, when it gave one."""
    body = {"blockId": row["block"], "model": row["model"], "code": row["code"]}
    if row["status"] is not None:
        body["status"] = row["status"]
    return {**body, "attempt": row["attempt"], "at": rfc3339(row["at"])}


def _block(row: Mapping[str, t.Any], details: bool) -> dict[str, t.Any]:
    body: dict[str, t.Any] = {
        "blockId": row["block"],
        "type": row["type"],
        "name": row["name"],
        "execution": row["execution"],
        "status": row["status"],
        "startedAt": _instant(row["started_at"]),
        "endedAt": _instant(row["ended_at"]),
        "durationMs": row["duration_ms"],
        "output": None if row["output"] is None else strip_output(row["output"], _RIGHTS),
        "error": _error(row["error"], details),
    }
    return {name: value for name, value in body.items() if value is not None}


def _model_call(row: Mapping[str, t.Any]) -> dict[str, t.Any]:
    """What one model call used; ``estimated``: some of the counts are ours."""
    body = {"blockId": row["block"], "model": row["model"], "tokens": row["tokens"]}
    if row["cost"] is not None:
        body["cost"] = {"total": row["cost"], "currency": row["currency"]}
    return {**body, "estimated": row["estimated"]}


def _tool_calls(calls: Mapping[str, t.Any]) -> dict[str, t.Any]:
    return {
        block: {"list": [_call(entry) for entry in entries], "count": len(entries)}
        for block, entries in calls.items()
    }


def _call(entry: Mapping[str, t.Any]) -> Mapping[str, t.Any]:
    """A call; of one that is open, or held until somebody has decided, what is known."""
    if entry["status"] is not None:
        return entry
    return {name: entry[name] for name in ("id", "name", "startTime")}


def _error(error: Mapping[str, t.Any] | None, details: bool) -> dict[str, t.Any] | None:
    if not error:
        return None
    return {
        name: value
        for name, value in error.items()
        if value not in (None, "") and (details or name not in ("detail", "model"))
    }


def _instant(ms: int | None) -> str | None:
    return None if ms is None else rfc3339(ms)
