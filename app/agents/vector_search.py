"""Searching a collection by vectors, and making those that are missing.

Law of this room: a collection is searched with the model that made its vectors, or not at all. Every chunk that is
there is compared; those without a vector get one first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

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
    around, retries, limit_s = InBlock(context), settings.model_retries, settings.model_call_s
    try:
        with context.waits.wait():
            missing = vectors.missing(number, name)
        if len(missing) > MOST_ON_DEMAND:
            raise TooManyMissing(collection, name, len(missing))
        make(around, documents, resolved, missing, retries, limit_s)
        (vector,) = embed(around, resolved, (query,), "query", retries, limit_s)
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


def make(
    around: Surroundings,
    documents: Documents,
    model: ResolvedEmbedding,
    chunks: Sequence[int],
    retries: int,
    limit_s: float,
    told: Callable[[int], None] = lambda done: None,
) -> None:
    """Make and keep the vectors of these chunks, a batch at a time; what was made before a failure stays.

    :param told: called after each batch with how many are done.
    :raises ProviderError: a call failed for good.
    """
    size = max(1, BATCH // model.batch) * model.batch
    for at in range(0, len(chunks), size):
        with around.waits.wait():
            found = documents.vectors.texts(chunks[at : at + size])
        texts = [text if text.strip() else "." for _, text in found]  # vendors refuse what is empty
        made = embed(around, model, texts, "document", retries, limit_s)
        documents.vectors.keep(
            model.id, [(chunk, vector) for (chunk, _), vector in zip(found, made, strict=True)]
        )
        told(min(at + size, len(chunks)))
