"""Vectors of texts from a model: in batches, each asked again while it may help, and every call's use told.

Law of this room: as for models that answer: a slot of the family, a limit on each call, interruptible throughout. It
works inside a run and beside one; what differs is the :class:`Surroundings`.
"""

from __future__ import annotations

import typing as t
from array import array
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from app import events as ev
from app.agents import backoff
from app.agents.quiet import log
from app.agents.usage import Spent
from plugins.spec import BlockContext, ResolvedEmbedding
from plugins.spec.observer import CallEnd, SeenCall
from providers.spec import EmbeddingRequest, ModelFinished, ProviderError, Usage, Waits
from providers.tokens import by_length

_MILLION = 1e6


class Surroundings(t.Protocol):
    """Where a call is made."""

    @property
    def waits(self) -> Waits:
        """Guards every blocking step."""

    def sleep(self, seconds: float) -> None:
        """Wait, interruptibly."""

    def slot(self, model: ResolvedEmbedding) -> AbstractContextManager[t.Any]:
        """One of the family's places."""

    def limited(self, seconds: float, make: Callable[[], BaseException]) -> AbstractContextManager[t.Any]:
        """While open, ``seconds`` are all there is."""

    def begins(self, model: ResolvedEmbedding) -> SeenCall | None:
        """A call begins; whoever looks at it."""

    def used(self, spent: Spent) -> None:
        """What a call used."""

    def failed(self, model: ResolvedEmbedding, error: ProviderError, attempt: int) -> None:
        """An attempt failed, whether it is repeated or not."""


class InBlock:
    """A block's surroundings: what is used goes into the run's stream."""

    def __init__(self, context: BlockContext) -> None:
        self._context = context
        self.waits = context.waits
        self.sleep = context.sleep
        self.slot = context.slot
        self.limited = context.limited

    def begins(self, model: ResolvedEmbedding) -> SeenCall | None:
        """See :class:`Surroundings`."""
        if self._context.budget is not None:
            self._context.budget.left()
        observer = self._context.observer
        return None if observer is None else observer.model_call(self._context.block, model, None)

    def used(self, spent: Spent) -> None:
        """See :class:`Surroundings`."""
        cost = None if spent.cost is None else sum(spent.cost)
        self._context.emit(
            ev.UsageReported(self._context.block, spent.model, spent.tokens, cost, estimated=spent.estimated)
        )

    def failed(self, model: ResolvedEmbedding, error: ProviderError, attempt: int) -> None:
        """See :class:`Surroundings`."""
        self._context.emit(
            ev.ModelCallFailed(self._context.block, model.id, error.code, attempt, error.status)
        )


class _TooLong(ProviderError):
    """The call took longer than its limit. Asking again would take as long."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            "provider_unavailable",
            f"The embedding model did not answer within {seconds:g} s; raise STUDIO_MODEL_CALL_S.",
        )


def embed(
    around: Surroundings,
    model: ResolvedEmbedding,
    texts: Sequence[str],
    purpose: t.Literal["document", "query"],
    retries: int,
    limit_s: float,
) -> list[array[float]]:
    """A vector for each text, in order.

    :param texts: none of them empty.
    :param retries: how often each call is repeated.
    :param limit_s: seconds that one call may take from the moment it has a slot.
    :raises ProviderError: a call failed for good.
    """
    made: list[array[float]] = []
    for at in range(0, len(texts), model.batch):
        request = EmbeddingRequest(model.model, texts[at : at + model.batch], purpose, model.dialect)
        made += _repeat(around, model, request, retries, limit_s)
    return made


def _repeat(
    around: Surroundings, model: ResolvedEmbedding, request: EmbeddingRequest, retries: int, limit_s: float
) -> Sequence[array[float]]:
    attempt = 1
    while True:
        try:
            return _call(around, model, request, limit_s)
        except ProviderError as error:
            around.failed(model, error, attempt)
            again = backoff.before_next(error, attempt, retries)
            log.warning(
                "embedding call failed family=%s model=%s code=%s status=%s attempt=%d %s",
                model.family.id,
                model.model,
                error.code,
                error.status,
                attempt,
                f"not repeated: {again}" if isinstance(again, str) else f"retry_in={again:.2f}s",
            )
            if isinstance(again, str) or isinstance(error, _TooLong):
                raise
            around.sleep(again)
            attempt += 1


def _call(
    around: Surroundings, model: ResolvedEmbedding, request: EmbeddingRequest, limit_s: float
) -> Sequence[array[float]]:
    with around.slot(model), around.limited(limit_s, lambda: _TooLong(limit_s)):
        seen = around.begins(model)
        end = CallEnd()
        try:
            found = model.wire.embed(request, model.connection, around.waits)
            spent = _spent(model, request, found.usage)
            end = CallEnd(ModelFinished("stop", found.usage, None), None, spent.tokens)
        except ProviderError as error:
            end = CallEnd(error=error)
            raise
        finally:
            if seen is not None:
                seen.ended(end)
    around.used(spent)
    return found.vectors


def _spent(model: ResolvedEmbedding, request: EmbeddingRequest, stated: Usage | None) -> Spent:
    """The vendor's count, or ours by the length of the texts."""
    tokens = None if stated is None else stated.input
    estimated = tokens is None
    if tokens is None:
        tokens = sum(map(by_length, request.texts))
    cost = None if model.price is None else (tokens * model.price / _MILLION, 0.0)
    return Spent(model.id, {"input": tokens, "total": tokens}, cost, estimated)
