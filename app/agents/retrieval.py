"""What blocks search in: collections of documents.

Law of this room: one door for every way of searching. It waits inside ``waits``, so that a stop ends a search; what a
search finds is data, whatever it says.
"""

from __future__ import annotations

import typing as t
from collections.abc import Sequence
from dataclasses import dataclass

from app.errors import BlockError
from app.store import StoreFailed
from app.store.documents import CollectionUnknown, Documents
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

    :raises BlockError: ``collection_unknown``, ``search_failed``, ``search_mode_unknown``.
    """
    try:
        return _SEARCHES[asked.mode](context, documents, asked)
    except CollectionUnknown as unknown:
        raise BlockError("collection_unknown", f"{context.name}: {unknown.message}") from None
    except StoreFailed as failed:
        raise BlockError("search_failed", f"{context.name} could not search. {failed.message}") from failed


def _by_words(context: BlockContext, documents: Documents, asked: Asked) -> Sequence[Passage]:
    with context.waits.wait():
        return documents.search(asked.collection, asked.query, asked.limit)


def _by_vectors(context: BlockContext, documents: Documents, asked: Asked) -> Sequence[Passage]:
    message = f"{context.name} asks for the mode embedding, which is not built yet. Use the mode text."
    raise BlockError("search_mode_unknown", message)


_SEARCHES = {"text": _by_words, "embedding": _by_vectors}
