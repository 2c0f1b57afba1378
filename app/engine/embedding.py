"""Making the vectors of a collection beside any run: when documents are added, and on the operator's word.

Law of this room: what can be refused is refused before anything is stored; what a vendor fails later leaves the
documents as they are, without some of their vectors, which the next attempt or the next search makes.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from app.agents import vector_search
from app.agents.embedding import embed
from app.agents.usage import Spent
from app.clock import Clock
from app.config import Settings
from app.engine.limits import Limits, QueueTime
from app.engine.scope import RunScope
from app.store import Store
from plugins.registry import Registry
from plugins.spec import Passage, ResolvedEmbedding
from providers.spec import ProviderError


@dataclass(slots=True)
class Made:
    """What was made, and what it used. ``cost``: USD; None when a price is not known."""

    model: str
    vectors: int = 0
    tokens: int = 0
    cost: float | None = 0.0


class Parts(t.Protocol):
    """What is needed of the services."""

    @property
    def settings(self) -> Settings:
        """How often and how long a call is tried."""

    @property
    def store(self) -> Store:
        """Where the documents are."""

    @property
    def plugins(self) -> Registry:
        """Who makes vectors."""

    @property
    def clock(self) -> Clock:
        """Tells the time."""

    @property
    def limits(self) -> Limits:
        """How many calls of a family may run at once."""


@dataclass(slots=True)
class Alone:
    """The parts of a process that serves nobody."""

    settings: Settings
    store: Store
    plugins: Registry
    clock: Clock
    limits: Limits = field(default_factory=Limits)


def accept(parts: Parts, collection: str, model: str | None, *, change: bool = False) -> str | None:
    """The model by which documents of ``collection`` get vectors, made the collection's own if it has none.

    :param model: ``<family>/<model>``; None: the collection's, if it has one.
    :param change: in place of another one, once :func:`fill` is through.
    :returns: None when they get none.
    :raises plugins.connections.RegistryError: the model cannot make vectors, or ``NotConfigured``.
    :raises app.store.vectors.ModelDiffers: the collection has another.
    """
    vectors = parts.store.documents.vectors
    if model is None and (model := vectors.model(collection)) is None:
        return None
    _resolve(parts, model)
    if not change:
        vectors.choose(collection, model, parts.clock.now_ms())
    return model


def fill(
    parts: Parts,
    collection: str,
    model: str,
    *,
    again: bool = False,
    change: bool = False,
    most: int | None = None,
    told: Callable[[int, int], None] = lambda done, of: None,
) -> Made:
    """Make the vectors that are missing.

    :param again: drop what ``model`` made before.
    :param change: have the collection searched by ``model`` from then on, and drop those of every other.
    :param most: vectors that may be missing.
    :param told: called after each batch with how many are done, of how many.
    :raises app.store.documents.CollectionUnknown: there is no such collection.
    :raises app.agents.vector_search.TooManyMissing: more than ``most`` are missing.
    :raises ProviderError: a call failed for good; what was made before stays.
    """
    documents, settings = parts.store.documents, parts.settings
    number = documents.collection_id(collection)
    resolved = _resolve(parts, model)
    if again:
        documents.vectors.forget(number, model)
    made = Made(model)
    effort = vector_search.Effort(settings.model_retries, settings.model_call_s)
    with RunScope() as scope:
        around = _Beside(parts, scope, made)
        made.vectors = vector_search.make_missing(around, documents, collection, resolved, effort, most, told)
    _settle(parts, collection, number, model, change)
    return made


def _settle(parts: Parts, collection: str, number: int, model: str, change: bool) -> None:
    """Keep vectors of one model only: of ``model`` if that is asked for, else of what the collection has by now."""
    vectors = parts.store.documents.vectors
    if change:
        vectors.choose(collection, model, parts.clock.now_ms(), change=True)
        vectors.forget_others(number, model)
    elif vectors.model(collection) not in (None, model):
        vectors.forget(number, model)  # somebody changed over meanwhile


def search(parts: Parts, collection: str, query: str, limit: int, model: str) -> list[Passage]:
    """The passages nearest to ``query``, nearest first; those without a vector are not among them.

    :raises app.store.documents.CollectionUnknown: there is no such collection.
    :raises app.store.vectors.VectorsDiffer: the model's vectors are of another length by now.
    :raises ProviderError: the call failed for good.
    """
    documents, settings = parts.store.documents, parts.settings
    number = documents.collection_id(collection)
    if not query.strip():
        return []
    with RunScope() as scope:
        around = _Beside(parts, scope, Made(model))
        (vector,) = embed(
            around, _resolve(parts, model), (query,), "query", settings.model_retries, settings.model_call_s
        )
    return documents.vectors.search(number, collection, model, vector, limit)


def _resolve(parts: Parts, model: str) -> ResolvedEmbedding:
    settings = parts.settings
    return parts.plugins.embedders.resolve(model, idle_s=settings.idle_s, connect_s=settings.connect_s)


class _Beside:
    """See :class:`app.agents.embedding.Surroundings`."""

    def __init__(self, parts: Parts, scope: RunScope, made: Made) -> None:
        self.waits = scope
        self.sleep = scope.sleep
        self.limited = scope.limit
        self._parts = parts
        self._scope = scope
        self._made = made

    def slot(self, model: ResolvedEmbedding) -> AbstractContextManager[int]:
        """A place in the family's line, behind runs as any run is."""
        now_ms = self._parts.clock.now_ms
        return self._parts.limits.slot(
            model.family.id, model.max_concurrency, "documents", self._scope, now_ms, QueueTime(now_ms)
        )

    def begins(self, model: ResolvedEmbedding) -> None:
        """Nobody looks at what is done outside of runs."""

    def used(self, spent: Spent) -> None:
        """Add it up."""
        made = self._made
        made.tokens += spent.tokens.get("input", 0)
        made.cost = None if spent.cost is None or made.cost is None else made.cost + sum(spent.cost)

    def failed(self, model: ResolvedEmbedding, error: ProviderError, attempt: int) -> None:
        """It is in the log already."""
