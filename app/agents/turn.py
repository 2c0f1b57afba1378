"""One model turn: make the call, put what it says into the stream, return what it came to.

Law of this room: the token path. Per delta nothing but one event and one ``emit``; one ``flush`` per
batch. What the model's capability does not declare is not shown.
"""

from __future__ import annotations

import logging
import random
import typing as t
from contextlib import closing

import gevent

from app import events as ev
from app.agents.loop import TurnResult
from app.agents.output import report_usage
from plugins.spec import BlockContext, ResolvedModel
from providers import spec

log = logging.getLogger("studio.agents")

_RETRYABLE = {"provider_rate_limited", "provider_overloaded", "provider_unavailable", "provider_bad_stream"}
_MAX_BACKOFF_S = 30.0


class TurnFailed(Exception):
    """A model call failed; ``shown``: something of it had reached the stream."""

    def __init__(self, error: spec.ProviderError, shown: bool) -> None:
        super().__init__(error.message)
        self.error = error
        self.shown = shown


def ask(
    context: BlockContext,
    resolved: ResolvedModel,
    request: spec.ModelRequest,
    turn: int,
    retries: int,
) -> TurnResult:
    """Make model call ``turn``, repeating it up to ``retries`` times while nothing of it was shown.

    :raises TurnFailed: the call failed for good.
    """
    attempt = 0
    while True:
        try:
            return _attempt(context, resolved, request, turn)
        except TurnFailed as failed:
            error = failed.error
            log.warning(
                "model call failed run=%s block=%s family=%s model=%s code=%s status=%s",
                context.run_id,
                context.block,
                resolved.family.id,
                resolved.model,
                error.code,
                error.status,
            )
            if failed.shown or attempt >= retries or error.code not in _RETRYABLE:
                raise
            attempt += 1
            with context.waits.wait():
                gevent.sleep(_backoff(attempt, error.retry_after))


def _backoff(attempt: int, retry_after: float | None) -> float:
    """Seconds to wait: what the vendor asked for, else full jitter over a doubling bound."""
    if retry_after is not None:
        return min(retry_after, _MAX_BACKOFF_S)
    return random.uniform(0, min(_MAX_BACKOFF_S, 0.5 * 2**attempt))


class _Shown:
    """What of a turn reached the stream, and what is kept for its result."""

    __slots__ = ("announced", "calls", "finished", "first_at", "shown", "text", "usage")

    def __init__(self) -> None:
        self.text: list[str] = []
        self.announced: set[str] = set()
        self.calls: dict[str, spec.ToolCallReady] = {}
        self.finished: spec.ModelFinished | None = None
        self.first_at: int | None = None
        self.shown = False
        self.usage: spec.Usage | None = None


def _attempt(
    context: BlockContext, resolved: ResolvedModel, request: spec.ModelRequest, turn: int
) -> TurnResult:
    started = context.now_ms()
    seen = _Shown()
    # Also without tools: a model that calls all the same must not be asked for ever.
    tools_off = request.tool_choice == "none"
    can_call = bool(request.tools) and not tools_off
    try:
        with closing(
            t.cast(t.Any, resolved.wire.stream(request, resolved.connection, context.waits))
        ) as stream:
            _relay(context, stream, turn, not can_call, _shows(resolved), seen)
    except spec.ProviderError as error:
        raise TurnFailed(error, seen.shown) from error
    finally:
        if seen.finished is None:  # failed or stopped: what was stated by then was used all the same
            report_usage(context, resolved, seen.usage)
    finished = seen.finished
    if finished is None:
        early = spec.ProviderError("provider_bad_stream", "The model's answer ended early; try again.")
        raise TurnFailed(early, seen.shown)
    return TurnResult(
        "".join(seen.text),
        tuple(seen.calls.values()),
        finished.reason,
        finished.usage,
        finished.replay,
        resolved.wire.name,
        finished.model,
        started,
        seen.first_at,
        context.now_ms(),
        tools_off,
    )


def _shows(resolved: ResolvedModel) -> bool:
    """Whether the model's capability declares any exposed thinking."""
    return resolved.capabilities.thinking not in ("none", "hidden")


def _relay(
    context: BlockContext,
    stream: t.Iterable[list[spec.ModelEvent]],
    turn: int,
    final: bool,
    show_thinking: bool,
    seen: _Shown,
) -> None:
    """Put model events into the run's stream as they come. ``final``: this turn cannot call tools."""
    emit, flush, block = context.emit, context.flush, context.block
    text_delta, thinking_delta = spec.TextDelta, spec.ThinkingDelta
    make_text, keep = ev.TextDelta, seen.text.append
    for batch in stream:
        if not seen.shown and type(batch[-1]) is not spec.UsageStated:
            seen.first_at = context.now_ms()
            seen.shown = True
        for event in batch:
            kind = type(event)
            if kind is text_delta:
                keep(event.text)  # type: ignore[attr-defined]  # narrowed by identity: isinstance costs on the token path
                emit(make_text(block, turn, event.text, final))  # type: ignore[attr-defined]
            elif kind is thinking_delta:
                if show_thinking:
                    emit(ev.ThinkingDelta(block, turn, event.text, event.redacted))  # type: ignore[attr-defined]
            else:
                _other(context, event, turn, seen)
        flush()


def _other(context: BlockContext, event: spec.ModelEvent, turn: int, seen: _Shown) -> None:
    """The events that come a few times a turn.

    A plugin's wire may preview a call before it confirms it: it is announced once, and its last word counts.
    """
    if isinstance(event, (spec.ToolCallStarted, spec.ToolCallReady)) and event.id not in seen.announced:
        seen.announced.add(event.id)
        context.emit(ev.ToolStarted(context.block, turn, event.id, event.name, context.now_ms()))
    if isinstance(event, spec.UsageStated):
        seen.usage = event.usage
    elif isinstance(event, spec.ToolCallReady):
        seen.calls[event.id] = event
    elif isinstance(event, spec.ModelFinished):
        seen.finished = event
