"""A run's log as far as its record tells it: how it stood before its end, and its end.

Law of this room: pure; what the record does not hold (thinking, single tokens, what would have run next after a
stop) is not made up. The text that stands is the record's.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Mapping

from app import events as ev
from app.engine.run_log import RunLog
from app.state import BlockState, RunState

#: The number of the end of a run whose process died: nobody knows how far it had counted, but not that far.
LOST_SEQ = 1_000_000_000


def rebuilt(
    row: Mapping[str, t.Any], infos: Iterable[ev.BlockInfo] = (), pinned: str | None = None
) -> RunLog:
    """The log of a run that has ended.

    :param row: as ``store.runs.get`` gives it. :param infos: its workflow's blocks, where they are known.
    :param pinned: where the next message of its thread enters.
    """
    state = RunState()
    rows = row["blocks"]
    known = [ev.BlockInfo(block["block"], block["type"], block["name"]) for block in rows]
    started = ev.RunStarted(row["id"], row["workflow_id"], [*known, *infos], [])
    state.apply(ev.Envelope(1, row["started_at"] or row["created_at"], started))
    partial = row["partial_text"] or {}
    state.blocks = {block["block"]: _block(block, partial.get(block["block"], "")) for block in rows}
    state.pinned = pinned
    last = row["seq_reserved"] or LOST_SEQ
    reason: ev.GapReason = "worker_lost" if row["cause"] == "worker_lost" else "evicted"
    return RunLog.rebuilt(state, ev.Envelope(last, row["ended_at"], _end(row)), reason)


def _block(row: Mapping[str, t.Any], partial: str) -> BlockState:
    state = BlockState(row["block"], row["type"], row["name"], row["status"], row["execution"])
    state.started_at, state.ended_at = row["started_at"], row["ended_at"]
    state.duration_ms = row["duration_ms"] or 0
    state.output, state.partial = row["output"], partial
    content = (row["output"] or {}).get("content") if row["status"] == "executed" else None
    if isinstance(content, str):
        state.settled = content
    return state


def _end(row: Mapping[str, t.Any]) -> ev.Terminal:
    error, usage = row["error"] or {}, row["usage"] or {}
    if row["status"] == "completed":
        outputs = {
            block["block"]: block["output"]
            for block in row["blocks"]
            if block["status"] == "executed" and block["output"] is not None
        }
        calls = row["tool_calls"] or {}
        return ev.RunCompleted(row["output"], outputs, calls, usage, not error, error.get("message"))
    if row["status"] == "cancelled":
        return ev.RunCancelled(row["cause"], usage)
    if row["status"] == "timed_out":
        return ev.RunTimedOut(usage)
    return ev.RunFailed(
        error.get("code", "internal"), error.get("message", "The run failed."), error.get("blockId"), usage
    )
