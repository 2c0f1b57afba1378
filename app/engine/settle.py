"""Closing what is open, and what an end means.

Law of this room: parts and blocks close before a terminal; tools still open are settled ``cancelled``
on stop, disconnect, shutdown and timeout, ``error`` when the run or its upstream failed (contract 1.9).
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Mapping

import msgspec

from app import events as ev
from app.engine.emitter import Emitter
from app.state import BlockState, RunState
from app.workflows.compiled import RESPONSE, CompiledWorkflow

#: What is told of blocks that are given up since their run is to end here.
ENOUGH_TEXT = "The run ended before it."


def turn(emitter: Emitter, state: BlockState) -> None:
    """End the open turn of a block: its attempt is over."""
    open_turn = emitter.turn_of(state)
    if open_turn >= 0:
        emitter.emit(ev.TurnEnded(state.block, open_turn, "aborted"))


def block(emitter: Emitter, state: BlockState, tool_status: ev.ToolStatus, now: Callable[[], int]) -> None:
    """End the open turn of a block, its open calls, and what it announced that has an end."""
    turn(emitter, state)
    for call in list(state.calls.values()):
        if call.status is None:
            at = now()
            emitter.emit(
                ev.ToolFinished(
                    state.block, call.turn, call.id, call.name, tool_status, None, None, at, call.started_at
                )
            )
    if state.step is not None:
        emitter.emit(msgspec.structs.replace(state.step, phase="end"))
    if state.debate is not None:
        emitter.emit(ev.DebateEnded(state.block, state.debate))


def run(emitter: Emitter, state: RunState, terminal: ev.Terminal, now: Callable[[], int]) -> None:
    """End everything a run left open, so that ``terminal`` may come."""
    stopped = not isinstance(terminal, ev.RunFailed)
    status: ev.ToolStatus = "cancelled" if stopped else "error"
    for left in state.open_blocks():
        block(emitter, left, status, now)
        code, message = reason(terminal)
        duration = now() - (left.started_at or now())
        emitter.emit(ev.BlockFinished(left.block, "failed", None, code, message, duration, left.execution))
    emitter.flush()


def reason(terminal: ev.Terminal) -> tuple[str, str]:
    """Stable code and fixed text of an end that is no completion."""
    if isinstance(terminal, ev.RunFailed):
        return terminal.code, terminal.message
    if isinstance(terminal, ev.RunCancelled):
        return "cancelled", ev.cancel_text(terminal.cause)
    if isinstance(terminal, ev.RunTimedOut):
        return "timed_out", ev.TIMEOUT_TEXT
    return "cancelled", ENOUGH_TEXT  # of what went on when a run had what it was to come to


def status_of(terminal: ev.Terminal) -> ev.RunStatus:
    """The status an end means (contract 1.8)."""
    if isinstance(terminal, ev.RunCompleted):
        return "completed"
    if isinstance(terminal, ev.RunCancelled):
        return "cancelled"
    if isinstance(terminal, ev.RunTimedOut):
        return "timed_out"
    return "failed"


def cause_of(terminal: ev.Terminal) -> str | None:
    """Why a run ended (contract 1.8); None for a completed one."""
    if isinstance(terminal, ev.RunCancelled):
        return terminal.cause
    if isinstance(terminal, ev.RunTimedOut):
        return "execution_timeout"
    if isinstance(terminal, ev.RunFailed):
        return ev.failure_cause(terminal.code)
    return None


def usage_of(terminal: ev.Terminal) -> Mapping[str, t.Any]:
    """The usage object of an end; every kind of end has one."""
    return t.cast("Mapping[str, t.Any]", terminal.usage)  # type: ignore[attr-defined]  # each has it


def with_usage(terminal: ev.Terminal, usage: Mapping[str, t.Any]) -> ev.Terminal:
    """The terminal with the final usage object."""
    return msgspec.structs.replace(terminal, usage=usage)


def run_output(
    workflow: CompiledWorkflow, outputs: Mapping[str, Mapping[str, t.Any]], last: tuple[str, ...]
) -> t.Any:
    """The ``response`` block's body, else the output of the last blocks reached (several: keyed by id)."""
    for name, compiled in workflow.blocks.items():
        if compiled.type.type_name == RESPONSE and name in outputs:
            return outputs[name].get("body")
    if len(last) == 1:
        return outputs.get(last[0])
    return {name: outputs[name] for name in last if name in outputs}
