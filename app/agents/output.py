"""An agent's output and what it used (contract section 2).

Law of this room: built from rows only; segments never hold thinking or tool payloads, counts that nobody
stated are absent.
"""

from __future__ import annotations

import typing as t

from app.agents import loop, usage
from app.clock import rfc3339
from app.state import call_entry
from plugins.spec import BlockContext


def agent_output(context: BlockContext, rows: t.Sequence[t.Any], started: int) -> dict[str, t.Any]:
    """``content, model, finishReason, tokens, toolCalls, providerTiming, cost`` of a finished agent.

    ``model`` is what the vendor calls itself, which may say more than what was asked for (a date, what a router
    chose); segments and usage name what was asked, ``<family>/<model>``.
    """
    turns = sorted((r for r in rows if r.kind == loop.TURN and r.state == "done"), key=lambda r: r.turn)
    answer: loop.TurnResult = turns[-1].value
    results: dict[tuple[int, str], loop.CallResult] = {
        (r.turn, r.key): r.value for r in rows if r.kind == "tool" and r.value is not None
    }
    reason = "stop" if answer.reason == "tool_calls" else answer.reason  # refused calls of the synthesis turn
    output: dict[str, t.Any] = {
        "content": answer.text,
        "model": answer.model or answer.asked,
        "finishReason": reason,
    }
    calls = [spent for row in turns for spent in row.value.spent]
    if counts := usage.total(spent.tokens for spent in calls):
        output["tokens"] = counts
    entries = [_entry(call, results[row.turn, call.id]) for row in turns for call in row.value.calls]
    output["toolCalls"] = {"list": entries, "count": len(entries)}
    output["providerTiming"] = _timing(turns, results, started, context.now_ms())
    if (cost := usage.total_cost(calls)) is not None:
        output["cost"] = cost
    return output


def _entry(call: t.Any, result: loop.CallResult) -> dict[str, t.Any]:
    made = call.arguments if result.changed is None else result.changed
    return call_entry(
        call.id,
        call.name,
        made if made is not None else call.raw,
        result.result,
        "error" if result.is_error else "success",
        result.started_at,
        result.ended_at,
    )


def _segment(kind: str, name: str, start: int, end: int) -> dict[str, t.Any]:
    return {
        "type": kind,
        "name": name,
        "startTime": rfc3339(start),
        "endTime": rfc3339(end),
        "duration": end - start,
    }


def _covered(spans: t.Iterable[tuple[int, int]]) -> int:
    """What spans of time cover together: concurrent calls count once, and what is between them does not."""
    covered = until = 0
    for start, end in sorted(spans):
        covered += max(0, end - max(start, until))
        until = max(until, end)
    return covered


def _timing(
    turns: list[t.Any],
    results: dict[tuple[int, str], loop.CallResult],
    started: int,
    ended: int,
) -> dict[str, t.Any]:
    segments: list[dict[str, t.Any]] = []
    model_ms = tools_ms = 0
    for row in turns:
        turn: loop.TurnResult = row.value
        segments.append(_segment("model", turn.asked, turn.started_at, turn.ended_at))
        model_ms += turn.ended_at - turn.started_at
        batch = [results[row.turn, call.id] for call in turn.calls]
        segments += [
            {**_segment("tool", r.name, r.started_at, r.ended_at), "toolCallId": r.id}
            for r in sorted(batch, key=lambda r: r.ended_at)
        ]
        tools_ms += _covered([(r.started_at, r.ended_at) for r in batch])
    first = turns[0].value.first_at
    timing: dict[str, t.Any] = {
        "startTime": rfc3339(started),
        "endTime": rfc3339(ended),
        "duration": ended - started,
    }
    if first is not None:
        timing["firstTokenMs"] = first - turns[0].value.started_at
    return timing | {
        "modelTime": model_ms,
        "toolsTime": tools_ms,
        "iterations": len(turns),
        "timeSegments": segments,
    }
