"""Run rows as the engine hands them over."""

from __future__ import annotations

import itertools
import typing as t

from app.store.checkpoints import DecisionRow, StepRow

START_MS = 1_700_000_000_000


def started(run_id: str, **more: t.Any) -> dict[str, t.Any]:
    """The row of a run that starts."""
    return {
        "id": run_id,
        "workflow_id": "wf_1",
        "version": 2,
        "key_id": "key_1",
        "conversation_id": "c-1",
        "status": "running",
        "input": {"message": "hi"},
        "created_at": START_MS,
        "started_at": START_MS + 1,
        **more,
    }


def ended(run_id: str, **more: t.Any) -> dict[str, t.Any]:
    """The row of a run that completed."""
    return {
        **started(run_id),
        "status": "completed",
        "output": {"content": "héllo\0\ud800"},
        "usage": {"tokens": {"input": 1, "output": 2, "total": 3}},
        "tool_calls": {"agent_1": []},
        "ended_at": START_MS + 100,
        "queued_ms": 0,
        "active_ms": 99,
        "human_wait_ms": 0,
        **more,
    }


def block(name: str, **more: t.Any) -> dict[str, t.Any]:
    """A row of the block log."""
    return {
        "block": name,
        "execution": 1,
        "type": "agent",
        "name": name.title(),
        "status": "executed",
        "started_at": START_MS + 1,
        "ended_at": START_MS + 90,
        "duration_ms": 89,
        "output": {"content": "héllo"},
        "error": None,
        **more,
    }


_counted = itertools.count(1)


def new_id(prefix: str) -> str:
    """An id that no other test of this process uses; in the order of their making."""
    return f"{prefix}_{next(_counted):06}"


def step(key: str, position: int, **more: t.Any) -> StepRow:
    """A step of the block ``agent_1``."""
    values: dict[str, t.Any] = {
        "path": "agent_1",
        "execution": 1,
        "turn": 0,
        "kind": "tool",
        "state": "done",
        "input_hash": "h",
        "value": b"v",
        **more,
    }
    return StepRow(key=key, position=position, **values)


def ask(run_id: str, key: str, **more: t.Any) -> DecisionRow:
    """A question about a tool call of the block ``agent_1``."""
    values: dict[str, t.Any] = {
        "id": new_id("dec"),
        "workflow_id": "wf_1",
        "key_id": "key_1",
        "path": "agent_1",
        "execution": 1,
        "turn": 0,
        "node": "agent_1",
        "review": {"kind": "tool", "tool": "mail", "arguments": {"to": "ä"}},
        "input_hash": "h",
        "created_at": START_MS,
        **more,
    }
    return DecisionRow(run_id=run_id, key=key, **values)


USAGE = {
    "block": "agent_1",
    "model": "openai/x",
    "tokens": {"input": 1, "output": 2},
    "cost": 0.25,
    "currency": "USD",
    "estimated": True,
}
