"""One turn, asked until somebody answers: retries of one model, then the next model.

Law of this room: a model is asked again only while nothing of the turn was shown. What a model showed before it
was given up is retracted first, its calls are settled ``error``, and none of them ever runs (field case ERRLOST-05).
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterable
from dataclasses import replace

import msgspec

from app import events as ev
from app.agents import backoff, turn
from app.agents.chain import Chain
from app.agents.loop import TurnResult
from app.agents.quiet import log
from app.agents.usage import Spent
from plugins.spec import BlockContext, ResolvedModel
from providers import spec

_GAVE_WAY = "The model failed before its calls were made, and another one was asked. Nothing was run."


def ask(
    context: BlockContext,
    chain: Chain,
    request_of: Callable[[ResolvedModel], spec.ModelRequest],
    number: int,
    retries: int,
    limit_s: float,
) -> TurnResult:
    """Make model call ``number`` of the first model of ``chain`` that can answer it.

    :param request_of: the request as one model gets it.
    :param retries: how often each model is asked again while nothing was shown.
    :param limit_s: see :func:`app.agents.turn.call`.
    :raises TurnFailed: the last model failed for good.
    """
    lost: list[Spent] = []
    given_up: dict[str, None] = {}
    while True:
        model = chain.current
        request = request_of(model)
        if given_up:
            request = replace(request, used_ids=request.used_ids | given_up.keys())
        try:
            result = _repeat(context, model, request, number, retries, limit_s, lost)
        except turn.TurnFailed as failed:
            following = chain.next()
            if following is None:
                raise
            log.warning(
                "model given up run=%s block=%s model=%s code=%s next=%s",
                context.run_id,
                context.block,
                turn.model_id(model),
                failed.error.code,
                turn.model_id(following),
            )
            given_up.update(dict.fromkeys(failed.heard.announced))
            _retract(context, number, failed.heard)
            continue
        return msgspec.structs.replace(result, spent=(*lost, *result.spent), given_up=tuple(given_up))


def _repeat(
    context: BlockContext,
    model: ResolvedModel,
    request: spec.ModelRequest,
    number: int,
    retries: int,
    limit_s: float,
    lost: list[Spent],
) -> TurnResult:
    """Call one model up to ``retries`` times more; what failed calls used is added to ``lost``."""
    for attempt in range(1, retries + 2):
        try:
            return turn.call(context, model, request, number, limit_s)
        except turn.TurnFailed as failed:
            if failed.spent is not None:
                lost.append(failed.spent)
            code, status = failed.error.code, failed.error.status
            context.emit(ev.ModelCallFailed(context.block, turn.model_id(model), code, attempt, status))
            again = _again(failed, attempt, retries)
            _log(context, model, failed.error, f"attempt={attempt}/{retries + 1}", again)
            if isinstance(again, str):
                raise
            context.sleep(again)
    raise AssertionError("not reached")


def _again(failed: turn.TurnFailed, attempt: int, retries: int) -> float | str:
    """Seconds before the next attempt: what the vendor asked for, else full jitter under a doubling bound.

    A text: why there is none.
    """
    if isinstance(failed.error, turn.CallTooLong):
        return "a repetition would fail as well"
    found = backoff.before_next(failed.error, attempt, retries)
    if failed.heard.shown and failed.error.code in backoff.RETRYABLE:
        return "something of it was shown"
    return found


def _log(
    context: BlockContext, model: ResolvedModel, error: spec.ProviderError, count: str, again: float | str
) -> None:
    """One line: the count of attempts where they count, and when the next one is or why there is none."""
    counts = not isinstance(again, str) or again == backoff.LAST
    log.warning(
        "model call failed run=%s block=%s family=%s model=%s code=%s status=%s%s%s",
        context.run_id,
        context.block,
        model.family.id,
        model.model,
        error.code,
        error.status,
        f" {count}" if counts else "",
        f" not repeated: {again}" if isinstance(again, str) else f" retry_in={again:.2f}s",
    )


def _retract(context: BlockContext, number: int, heard: turn.Heard) -> None:
    """End what a model showed of a turn that the next one is asked for."""
    if not heard.shown:
        return
    context.emit(ev.TurnEnded(context.block, number, "intermediate", "fallback"))
    for event in _settled(context, number, heard):
        context.emit(event)
    context.flush()


def _settled(context: BlockContext, number: int, heard: turn.Heard) -> Iterable[ev.ToolFinished]:
    for call_id, (name, at) in heard.announced.items():
        ready = heard.calls.get(call_id)
        arguments: t.Any = None
        if ready is not None:
            arguments = ready.arguments if ready.arguments is not None else ready.raw
        now = context.now_ms()
        yield ev.ToolFinished(
            context.block, number, call_id, name, "error", arguments, {"error": _GAVE_WAY}, now, at
        )
