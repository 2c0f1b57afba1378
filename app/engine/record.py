"""The run record: rows for the store, built from the one fold.

Law of this room: stored text is final-turn text; what never became final stands in ``partial_text`` alone.
"""

from __future__ import annotations

import os
import typing as t

from app import events as ev
from app.engine import settle
from app.redaction.secrets import known_secrets, mask
from app.state import RunState

if t.TYPE_CHECKING:
    from app.engine.run import Run


def run_row(run: Run, terminal: ev.Terminal | None) -> dict[str, t.Any]:
    """The columns of the ``runs`` row. ``terminal`` None: the run goes on."""
    request, state = run.request, run.state
    usage = run.usage() if terminal is None else settle.usage_of(terminal)
    row: dict[str, t.Any] = {
        "id": run.id,
        "workflow_id": request.workflow_id,
        "version": request.version,
        "key_id": request.key_id,
        "conversation_id": _asked(run, request.conversation_id),
        "thread_id": request.thread_id,
        "status": "running" if terminal is None else settle.status_of(terminal),
        "cause": None if terminal is None else settle.cause_of(terminal),
        "input": _asked(run, request.input),
        "output": terminal.output if isinstance(terminal, ev.RunCompleted) else None,
        "partial_text": state.partial_text() or None,
        "error": _error(run, terminal),
        "usage": usage,
        "tool_calls": state.tool_calls(),
        "created_at": run.created_at,
        "started_at": state.started_at,
        "ended_at": None if terminal is None else run.services.clock.now_ms(),
        "queued_ms": usage["queuedMs"],
        "active_ms": usage["activeMs"],
        "human_wait_ms": usage["humanWaitMs"],
        "owner_id": run.services.store.owner_id,
        "owner_epoch": 1 if run.durable is None else run.durable.keeper.epoch,
        # At its end the run says with which number: what is told of it later goes on from there.
        "seq_reserved": _reserved(run) if terminal is None else run.log.last + 1,
        "model_failures": _model_failures(state) or None,
        "durable": int(run.durable is not None),
        # Of others nobody asks.
        "origin": request.origin if request.workflow.durable else None,
    }
    return row


def _asked(run: Run, value: t.Any) -> t.Any:
    """What was asked, as it may be kept."""
    return value if run.redaction is None or value is None else run.redaction.asked(value)


def _reserved(run: Run) -> int:
    return 0 if run.durable is None else run.durable.keeper.reserved


def _error(run: Run, terminal: ev.Terminal | None) -> dict[str, t.Any] | None:
    if isinstance(terminal, ev.RunCompleted):
        failure = terminal.error or "The run failed."
        return None if terminal.success else {"code": "block_failed", "message": failure}
    if terminal is None:
        return None
    code, message = settle.reason(terminal)
    error = {"code": code, "message": message}
    if isinstance(terminal, ev.RunFailed) and terminal.block is not None:
        error["blockId"] = terminal.block
    if run.failed_model:
        error["model"] = run.failed_model
    if run.detail:
        detail = mask(run.detail, (*known_secrets(os.environ), *run.services.store.secrets.opened()))
        error["detail"] = detail if run.redaction is None else run.redaction.text(detail)
    return error


def _model_failures(state: RunState) -> list[dict[str, t.Any]]:
    return [
        {
            "block": failed.block,
            "model": failed.model,
            "code": failed.code,
            "status": failed.status,
            "attempt": failed.attempt,
            "at": at,
        }
        for at, failed in state.model_failures
    ]


def usage_rows(state: RunState) -> list[dict[str, t.Any]]:
    """One row per model call of which something is known."""
    return [
        {
            "block": report.block,
            "model": report.model,
            "tokens": report.tokens,
            "cost": report.cost,
            "currency": report.currency,
            "estimated": report.estimated,
        }
        for report in state.usages
    ]


def block_rows(state: RunState) -> list[dict[str, t.Any]]:
    """One row per block instance, in order of start."""
    return [
        {
            "block": block.block,
            "execution": block.execution,
            "type": block.type,
            "name": block.name,
            "status": block.status,
            "started_at": block.started_at,
            "ended_at": block.ended_at,
            "duration_ms": block.duration_ms,
            "output": block.output,
            "error": {"code": block.code, "message": block.message} if block.code else None,
        }
        for block in state.blocks.values()
    ]
