"""One model call: make it, put what it says into the stream, return what it came to.

Law of this room: the token path. Per delta nothing but one event and one ``emit``; one ``flush`` per
batch. What the model's capability does not declare is not shown. However a call ends, what it used is said once.
"""

from __future__ import annotations

import typing as t
from contextlib import closing

from app import events as ev
from app.agents import estimate
from app.agents.loop import TurnResult, told_key
from app.agents.quiet import log
from app.agents.usage import Spent, spent
from plugins.spec import BlockContext, ResolvedModel
from plugins.spec.observer import CallEnd, SeenCall
from providers import spec


class CallTooLong(spec.ProviderError):
    """The call took longer than its limit. Asking again would take as long."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            "provider_unavailable",
            f"The model did not finish its answer within {seconds:g} s; raise call_timeout_s or STUDIO_MODEL_CALL_S.",
        )


class Heard:
    """What a call said so far.

    :ivar announced: ids of the calls that were announced, with name and instant.
    :ivar usage: what the vendor stated before the end.
    """

    __slots__ = ("announced", "calls", "finished", "first_at", "text", "thinking", "usage")

    def __init__(self) -> None:
        self.text: list[str] = []
        self.thinking: list[str] = []
        self.announced: dict[str, tuple[str, int]] = {}
        self.calls: dict[str, spec.ToolCallReady] = {}
        self.finished: spec.ModelFinished | None = None
        self.first_at: int | None = None
        self.usage: spec.Usage | None = None

    @property
    def shown(self) -> bool:
        """Something of it may be in the stream, so that a repetition would show it twice."""
        return bool(self.text or self.thinking or self.announced)

    def said(self) -> list[str]:
        """Everything the model generated, as far as it came."""
        calls = (f"{call.name}{call.raw}" for call in self.calls.values())
        return [*self.thinking, *self.text, *calls]


class TurnFailed(Exception):
    """A model call failed.

    :ivar heard: what it said before.
    :ivar spent: what it used, as far as that is known.
    """

    def __init__(self, error: spec.ProviderError, heard: Heard) -> None:
        super().__init__(error.message)
        self.error = error
        self.heard = heard
        self.spent: Spent | None = None


def call(
    context: BlockContext, model: ResolvedModel, request: spec.ModelRequest, turn: int, limit_s: float
) -> TurnResult:
    """Make model call ``turn`` once.

    :param limit_s: seconds it may take from the moment it has a slot of its family.
    :raises TurnFailed: the call failed.
    """
    heard = Heard()
    failed: TurnFailed | None = None
    used: spec.Usage | None = None
    seen: SeenCall | None = None
    started = context.now_ms()
    try:
        with context.slot(model) as queued:
            if queued:
                _log_queued(context, model, queued)
                started = context.now_ms()
            if context.observer is not None:
                seen = context.observer.model_call(context.block, model, request)
            with context.limited(limit_s, lambda: CallTooLong(limit_s)):
                finished = _listen(context, model, request, turn, heard)
        used = estimate.whole(context, model, request, heard.said(), _last_usage(heard))
    except spec.ProviderError as error:
        failed = TurnFailed(error, heard)
        raise failed from error
    finally:
        if used is None:  # failed or stopped: what was used by then was used all the same
            used = estimate.partial(request, heard.said(), _last_usage(heard))
        report = _report(context, model, used)
        if seen is not None:
            seen.ended(_end_of(heard, report, None if failed is None else failed.error))
        if failed is not None:
            failed.spent = report
            failed = None  # its traceback holds this frame
    times = started, heard.first_at, context.now_ms()
    tools_off = request.tool_choice == "none"
    return _result(model, heard, finished, used, times, tools_off, () if report is None else (report,))


def _result(
    model: ResolvedModel,
    heard: Heard,
    finished: spec.ModelFinished,
    used: spec.Usage | None,
    times: tuple[int, int | None, int],
    tools_off: bool,
    spent: tuple[Spent, ...],
) -> TurnResult:
    """What a call came to. ``times``: when it started, said its first, and ended."""
    started, first_at, ended = times
    return TurnResult(
        "".join(heard.text),
        tuple(heard.calls.values()),
        finished.reason,
        used,
        finished.replay,
        model.wire.name,
        finished.model,
        started,
        first_at,
        ended,
        tools_off,
        model_id(model),
        spent,
    )


def _end_of(heard: Heard, used: Spent | None, error: spec.ProviderError | None) -> CallEnd:
    tokens = None if used is None else used.tokens
    calls = tuple(heard.calls.values())
    return CallEnd(heard.finished, heard.first_at, tokens, error, heard.text, calls)


def model_id(model: ResolvedModel) -> str:
    """``<family>/<model>``."""
    return f"{model.family.id}/{model.model}"


def _log_queued(context: BlockContext, model: ResolvedModel, queued: int) -> None:
    log.info(
        "model call waited run=%s block=%s family=%s slots=%s queued_ms=%d",
        context.run_id,
        context.block,
        model.family.id,
        model.max_concurrency,
        queued,
    )


def _last_usage(heard: Heard) -> spec.Usage | None:
    return heard.usage if heard.finished is None else heard.finished.usage or heard.usage


def _report(context: BlockContext, model: ResolvedModel, used: spec.Usage | None) -> Spent | None:
    """Put what a call used into the stream, when anything is known of it."""
    counted = None if used is None else spent(model_id(model), used, model.capabilities)
    if counted is not None:
        cost = None if counted.cost is None else sum(counted.cost)
        context.emit(
            ev.UsageReported(context.block, counted.model, counted.tokens, cost, estimated=counted.estimated)
        )
    return counted


def _listen(
    context: BlockContext, model: ResolvedModel, request: spec.ModelRequest, turn: int, heard: Heard
) -> spec.ModelFinished:
    """Relay a call to its end.

    :raises ProviderError: it failed.
    """
    # Also without tools: a model that calls all the same must not be asked for ever.
    can_call = bool(request.tools) and request.tool_choice != "none"
    with closing(t.cast(t.Any, model.wire.stream(request, model.connection, context.waits))) as stream:
        _relay(context, stream, turn, not can_call, _shows(model), heard)
    if heard.finished is None:
        raise spec.ProviderError("provider_bad_stream", "The model's answer ended early; try again.")
    return heard.finished


def _shows(model: ResolvedModel) -> bool:
    """Whether the model's capability declares any exposed thinking."""
    return model.capabilities.thinking not in ("none", "hidden")


def _relay(
    context: BlockContext,
    stream: t.Iterable[list[spec.ModelEvent]],
    turn: int,
    final: bool,
    show_thinking: bool,
    heard: Heard,
) -> None:
    """Put model events into the run's stream as they come. ``final``: this turn cannot call tools."""
    emit, flush, block = context.emit, context.flush, context.block
    text_delta, thinking_delta = spec.TextDelta, spec.ThinkingDelta
    make_text, keep, keep_thinking = ev.TextDelta, heard.text.append, heard.thinking.append
    for batch in stream:
        if heard.first_at is None and type(batch[-1]) is not spec.UsageStated:
            heard.first_at = context.now_ms()
        for event in batch:
            kind = type(event)
            if kind is text_delta:
                keep(event.text)  # type: ignore[attr-defined]  # narrowed by identity: isinstance costs on the token path
                emit(make_text(block, turn, event.text, final))  # type: ignore[attr-defined]
            elif kind is thinking_delta:
                keep_thinking(event.text)  # type: ignore[attr-defined]
                if show_thinking:
                    emit(ev.ThinkingDelta(block, turn, event.text, event.redacted))  # type: ignore[attr-defined]
            else:
                _other(context, event, turn, heard)
        flush()


def _other(context: BlockContext, event: spec.ModelEvent, turn: int, heard: Heard) -> None:
    """The events that come a few times a turn.

    A plugin's wire may preview a call before it confirms it: it is announced once, and its last word counts.
    """
    if isinstance(event, (spec.ToolCallStarted, spec.ToolCallReady)) and event.id not in heard.announced:
        now = context.now_ms()
        heard.announced[event.id] = event.name, now
        context.journal.write(turn, told_key(event.id), "told", "done")
        context.emit(ev.ToolStarted(context.block, turn, event.id, event.name, now))
    if isinstance(event, spec.UsageStated):
        heard.usage = event.usage
    elif isinstance(event, spec.ToolCallReady):
        heard.calls[event.id] = event
    elif isinstance(event, spec.ModelFinished):
        heard.finished = event
