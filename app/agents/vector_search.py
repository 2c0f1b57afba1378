"""Searching a collection by vectors, and making those that are missing.

Law of this room: a collection is searched with the model that made its vectors, or not at all. Every chunk that is
there is compared; those without a vector get one first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from gevent.lock import BoundedSemaphore

from app.agents.embedding import InBlock, Surroundings, embed
from app.errors import BlockError, RunError, StudioError
from app.store.documents import Documents
from app.store.vectors import BATCH, ModelDiffers
from plugins.spec import BlockContext, Passage, ResolvedEmbedding
from providers.spec import ProviderError

#: Most vectors that a search makes by itself: a few seconds, and little to pay.
MOST_ON_DEMAND = 1_000


class TooManyMissing(StudioError):
    """A search would have to make too many vectors first."""

    def __init__(self, collection: str, model: str, missing: int) -> None:
        super().__init__(
            "embeddings_missing",
            f"{missing} passages of the collection '{collection}' have no vector yet, too many to make while somebody "
            f"waits. Run: studio documents embed {collection} {model}",
        )


def search(
    context: BlockContext, documents: Documents, collection: str, query: str, limit: int, model: str | None
) -> Sequence[Passage]:
    """The passages nearest to ``query``, nearest first; of an empty query nothing.

    :param model: ``<family>/<model>``; None: the collection's own.
    :raises BlockError: the collection has no model.
    :raises TooManyMissing: too many of its chunks have no vector.
    :raises RunError: the model cannot be called, or failed.
    :raises StoreFailed: see :class:`app.store.vectors.Vectors`; ``ModelDiffers`` and ``VectorsDiffer`` are among them.
    """
    vectors, settings = documents.vectors, context.settings
    with context.waits.wait():
        number = documents.collection_id(collection)
        has = vectors.model(collection)
    name = chosen(context, collection, has, model)
    if not query.strip():
        return []
    resolved = context.resolve_embedding(name)
    if has is None:
        vectors.choose(collection, name, context.now_ms())
    around, effort = InBlock(context), Effort(settings.model_retries, settings.model_call_s)
    try:
        make_missing(around, documents, collection, resolved, effort, most=MOST_ON_DEMAND)
        (vector,) = embed(around, resolved, (query,), "query", effort.retries, effort.limit_s)
    except ProviderError as error:
        raise RunError(error.code, error.message, detail=error.detail, model=name) from error
    with context.waits.wait():
        return vectors.search(number, collection, name, vector, limit)


def chosen(context: BlockContext, collection: str, has: str | None, asked: str | None) -> str:
    """The model to search with.

    :raises BlockError: ``embedding_model_missing``. :raises ModelDiffers: the collection has another.
    """
    if has is not None and asked is not None and has != asked:
        raise ModelDiffers(collection, has, asked)
    if (name := asked or has) is None:
        raise BlockError(
            "embedding_model_missing",
            f"{context.name}: the collection '{collection}' has no embedding model. Set embedding_model, or run: "
            f"studio documents embed {collection} FAMILY/MODEL",
        )
    return name


@dataclass(frozen=True, slots=True)
class Effort:
    """How often a call of a model is repeated, and how many seconds each may take."""

    retries: int
    limit_s: float


def make_missing(
    around: Surroundings,
    documents: Documents,
    collection: str,
    model: ResolvedEmbedding,
    effort: Effort,
    most: int | None = None,
    told: Callable[[int, int], None] = lambda done, of: None,
) -> int:
    """Make and keep the vectors that are missing, a batch at a time; what was made before a failure stays.

    Of many of this process who come at once one makes them, and is paid for; the others find them made.

    :param most: vectors that may be missing.
    :param told: called after each batch with how many are done, of how many.
    :returns: how many it made.
    :raises app.store.documents.CollectionUnknown: there is no such collection.
    :raises TooManyMissing: more than ``most`` are missing.
    :raises ProviderError: a call failed for good.
    """
    vectors = documents.vectors
    with around.waits.wait():
        number = documents.collection_id(collection)
        missing = vectors.missing(number, model.id)
    _bound(collection, model, missing, most)
    if not missing:
        return 0
    with _alone(around, vectors.making(number, model.id)):
        with around.waits.wait():
            missing = vectors.missing(number, model.id)
        _bound(collection, model, missing, most)
        _make(around, documents, model, missing, effort, told)
    return len(missing)


def _bound(collection: str, model: ResolvedEmbedding, missing: Sequence[int], most: int | None) -> None:
    if most is not None and len(missing) > most:
        raise TooManyMissing(collection, model.id, len(missing))


@contextmanager
def _alone(around: Surroundings, lock: BoundedSemaphore) -> Iterator[None]:
    with around.waits.wait():
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _make(
    around: Surroundings,
    documents: Documents,
    model: ResolvedEmbedding,
    chunks: Sequence[int],
    effort: Effort,
    told: Callable[[int, int], None],
) -> None:
    size = max(1, BATCH // model.batch) * model.batch
    for at in range(0, len(chunks), size):
        with around.waits.wait():
            found = documents.vectors.texts(chunks[at : at + size])
        texts = [text if text.strip() else "." for _, text in found]  # vendors refuse what is empty
        made = embed(around, model, texts, "document", effort.retries, effort.limit_s)
        documents.vectors.keep(
            model.id, [(chunk, vector) for (chunk, _), vector in zip(found, made, strict=True)]
        )
        told(min(at + size, len(chunks)), len(chunks))
