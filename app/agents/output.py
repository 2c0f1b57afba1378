"""An agent's output and what it used (contract section 2).

Law of this room: built from rows only; segments never hold thinking or tool payloads, counts a
vendor did not state are absent.
"""

from __future__ import annotations

import typing as t

from app import events as ev
from app.agents import loop
from app.clock import rfc3339
from app.state import call_entry
from plugins.spec import BlockContext, ResolvedModel
from providers.spec import Usage

_COUNTS = (
    ("input", "input"),
    ("output", "output"),
    ("total", "total"),
    ("cache_read", "cacheRead"),
    ("cache_write", "cacheWrite"),
    ("reasoning", "reasoning"),
)


def token_counts(usage: Usage) -> dict[str, int]:
    """Vendor counts in the contract's spelling; ``total`` is filled when both parts are known."""
    counts = {name: value for attr, name in _COUNTS if (value := getattr(usage, attr)) is not None}
    if "total" not in counts and "input" in counts and "output" in counts:
        counts["total"] = counts["input"] + counts["output"]
    return {name: counts[name] for _, name in _COUNTS if name in counts}


def report_usage(context: BlockContext, resolved: ResolvedModel, usage: Usage | None) -> None:
    """Put one model call's usage into the stream, when the vendor stated any."""
    if usage is None:
        return
    counts = token_counts(usage)
    if not counts:
        return
    price = _price(resolved, counts)
    context.emit(
        ev.UsageReported(
            context.block,
            f"{resolved.family.id}/{resolved.model}",
            counts,
            None if price is None else price[0] + price[1],
        )
    )


def _price(resolved: ResolvedModel, counts: t.Mapping[str, int]) -> tuple[float, float] | None:
    rates = resolved.capabilities.price
    if rates is None:
        return None
    return counts.get("input", 0) * rates[0] / 1e6, counts.get("output", 0) * rates[1] / 1e6


def agent_output(
    context: BlockContext, resolved: ResolvedModel, rows: t.Sequence[t.Any], started: int
) -> dict[str, t.Any]:
    """``content, model, finishReason, tokens, toolCalls, providerTiming, cost`` of a finished agent."""
    turns = sorted((r for r in rows if r.kind == loop.TURN and r.state == "done"), key=lambda r: r.turn)
    answer: loop.TurnResult = turns[-1].value
    results: dict[tuple[int, str], loop.CallResult] = {
        (r.turn, r.key): r.value for r in rows if r.kind == "tool" and r.value is not None
    }
    reason = "stop" if answer.reason == "tool_calls" else answer.reason  # refused calls of the synthesis turn
    output: dict[str, t.Any] = {
        "content": answer.text,
        "model": answer.model or resolved.model,
        "finishReason": reason,
    }
    counts: dict[str, int] = {}
    for row in turns:
        if row.value.usage is not None:
            for name, value in token_counts(row.value.usage).items():
                counts[name] = counts.get(name, 0) + value
    if counts:
        output["tokens"] = counts
    entries = [_entry(call, results[row.turn, call.id]) for row in turns for call in row.value.calls]
    output["toolCalls"] = {"list": entries, "count": len(entries)}
    output["providerTiming"] = _timing(resolved, turns, results, started, context.now_ms())
    price = _price(resolved, counts) if counts else None
    if price is not None:
        output["cost"] = {"input": price[0], "output": price[1], "total": sum(price), "currency": "USD"}
    return output


def _entry(call: t.Any, result: loop.CallResult) -> dict[str, t.Any]:
    return call_entry(
        call.id,
        call.name,
        call.arguments if call.arguments is not None else call.raw,
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


def _timing(
    resolved: ResolvedModel,
    turns: list[t.Any],
    results: dict[tuple[int, str], loop.CallResult],
    started: int,
    ended: int,
) -> dict[str, t.Any]:
    segments: list[dict[str, t.Any]] = []
    model_ms = tools_ms = 0
    for row in turns:
        turn: loop.TurnResult = row.value
        segments.append(_segment("model", resolved.model, turn.started_at, turn.ended_at))
        model_ms += turn.ended_at - turn.started_at
        batch = [results[row.turn, call.id] for call in turn.calls]
        segments += [
            {**_segment("tool", r.name, r.started_at, r.ended_at), "toolCallId": r.id}
            for r in sorted(batch, key=lambda r: r.ended_at)
        ]
        if batch:  # concurrent calls count once
            tools_ms += max(r.ended_at for r in batch) - min(r.started_at for r in batch)
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
