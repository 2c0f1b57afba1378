"""The vectors of ``/api/documents``: made as documents come, and searched.

Law of this room: a model that cannot be used is a 400 and one that differs a 409 before anything is stored. What a
vendor fails afterwards is a 502 whose message says that the document is stored.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from app.agents.vector_search import MOST_ON_DEMAND, TooManyMissing
from app.engine import embedding
from app.errors import ApiError, Problem, ValidationFailed
from app.store.documents import CollectionUnknown
from app.store.vectors import ModelDiffers, ModelMissing, VectorsDiffer
from app.web.http import services
from plugins.connections import NotConfigured, RegistryError
from providers.spec import ProviderError

if t.TYPE_CHECKING:
    from plugins.spec import Passage

FIELD = "embeddingModel"


def accepted(collection: str, model: str | None) -> str | None:
    """The model by which a document that comes into ``collection`` gets a vector; None: it gets none.

    :param model: as the caller names it.
    :raises ApiError: 400 it cannot be used, 409 ``embedding_model_differs``.
    """
    with _judged():
        return embedding.accept(services(), collection, model)


def fill(collection: str, model: str) -> None:
    """Make what is missing; nothing if the documents have gone since.

    :raises ApiError: 502 with the vendor's failure, 409 ``embeddings_differ``.
    """
    stored = f" The document is stored, without vectors. Later: studio documents embed {collection} {model}"
    with _judged(stored), suppress(CollectionUnknown):
        embedding.fill(services(), collection, model)


def search(collection: str, query: str, limit: int) -> list[Passage]:
    """The passages nearest to ``query``, nearest first.

    :raises app.store.documents.CollectionUnknown: there is no such collection.
    :raises ApiError: 409 ``embedding_model_missing``, ``embeddings_missing``, and as :func:`fill`.
    """
    parts = services()
    parts.store.documents.collection_id(collection)
    model = parts.store.documents.vectors.model(collection)
    with _judged():
        if model is None:
            raise ModelMissing(collection)
        if not query.strip():  # nobody is asked, and nothing is made for it
            return []
        embedding.fill(parts, collection, model, most=MOST_ON_DEMAND)
        return embedding.search(parts, collection, query, limit, model)


@contextmanager
def _judged(stored: str = "") -> Iterator[None]:
    try:
        yield
    except NotConfigured as error:
        raise ApiError(
            400, "provider_not_configured", error.message, [Problem(FIELD, error.message)]
        ) from None
    except RegistryError as error:
        raise ValidationFailed([Problem(FIELD, error.message)]) from None
    except (ModelDiffers, ModelMissing, VectorsDiffer, TooManyMissing) as refused:
        raise ApiError(409, refused.code, refused.message) from None
    except ProviderError as error:
        raise ApiError(502, error.code, f"{error.message}{stored}") from error
