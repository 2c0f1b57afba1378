"""Whoever is told of model calls: their begin and their end, never a token.

Law of this room: values only. Most runs have nobody who looks; then nothing here is made.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from plugins.spec.families import ResolvedEmbedding, ResolvedModel
from providers.spec import ModelFinished, ModelRequest, ProviderError, ToolCallReady


@dataclass(frozen=True, slots=True)
class CallEnd:
    """How one attempt at a model call ended: with an answer, with an ``error``, or stopped (neither).

    :ivar finished: the model's last word; None without an answer.
    :ivar first_at: when its first words came, epoch ms.
    :ivar tokens: what it used, in the contract's spelling, as far as that is known.
    :ivar text: what it said. :ivar calls: what it asked for.
    """

    finished: ModelFinished | None = None
    first_at: int | None = None
    tokens: Mapping[str, int] | None = None
    error: ProviderError | None = None
    text: Sequence[str] = ()
    calls: Sequence[ToolCallReady] = ()


class SeenCall(t.Protocol):
    """One attempt at a model call that somebody looks at."""

    def ended(self, end: CallEnd) -> None:
        """It is over. Never raises, never switches greenlets."""


class CallObserver(t.Protocol):
    """Who looks at a run's model calls."""

    def model_call(
        self, block: str, model: ResolvedModel | ResolvedEmbedding, request: ModelRequest | None
    ) -> SeenCall:
        """An attempt begins. Never raises, never switches greenlets.

        :param block: the instance it is made for. :param request: None where vectors are asked for.
        """
