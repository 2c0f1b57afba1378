"""What blocks search in: collections of documents.

Law of this room: one door for every way of searching. It waits inside ``waits``, so that a stop ends a search; what a
search finds is data, whatever it says.
"""

from __future__ import annotations

import typing as t
from collections.abc import Sequence
from dataclasses import dataclass

from app.agents import vector_search
from app.errors import BlockError
from app.store import StoreFailed
from app.store.documents import CollectionUnknown, Documents
from app.store.vectors import ModelDiffers, VectorsDiffer
from plugins.spec.blocks import BlockContext, Passage


@dataclass(frozen=True, slots=True)
class Asked:
    """One search.

    :ivar model: what makes the vectors of an ``embedding`` search; None: the collection's own.
    """

    collection: str
    query: str
    limit: int
    mode: t.Literal["text", "embedding"] = "text"
    model: str | None = None


def passages(context: BlockContext, documents: Documents, asked: Asked) -> Sequence[Passage]:
    """The best passages, best first.

    :raises BlockError: ``collection_unknown``, ``search_failed``, and as :mod:`app.agents.vector_search`.
    """
    try:
        return _SEARCHES[asked.mode](context, documents, asked)
    except CollectionUnknown as unknown:
        # Not those that there are: whoever started the run may be anybody.
        cure = "Name another one, or add documents to it. See: studio documents list"
        raise BlockError(
            unknown.code, f"{context.name}: there is no collection '{unknown.name}'. {cure}"
        ) from None
    except (ModelDiffers, VectorsDiffer, vector_search.TooManyMissing) as refused:
        raise BlockError(refused.code, f"{context.name}: {refused.message}") from None
    except StoreFailed as failed:
        raise BlockError("search_failed", f"{context.name} could not search. {failed.message}") from failed


def _by_words(context: BlockContext, documents: Documents, asked: Asked) -> Sequence[Passage]:
    with context.waits.wait():
        return documents.search(asked.collection, asked.query, asked.limit)


def _by_vectors(context: BlockContext, documents: Documents, asked: Asked) -> Sequence[Passage]:
    return vector_search.search(context, documents, asked.collection, asked.query, asked.limit, asked.model)


_SEARCHES = {"text": _by_words, "embedding": _by_vectors}
