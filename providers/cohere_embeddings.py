"""Cohere's embeddings, version 2.

Law of this room: a request says what was asked for and nothing the vendor refuses. Switches: see ``embedding``.

Source: docs.cohere.com, reference of ``/v2/embed``: at most 96 texts, ``input_type``, ``embedding_types``,
``meta.billed_units.input_tokens``. What is longer than the model reads is cut at
its end, as the vendor does by default.
"""

from __future__ import annotations

from collections.abc import Iterable

from providers.embedding import Answer, HttpEmbeddingWire, Written, count, prefixed
from providers.request_parts import endpoint, post_json
from providers.spec import Connection, EmbeddingRequest, HttpRequest, Json

PATH = "/embed"
_PURPOSES = {"document": "search_document", "query": "search_query"}


def build_request(request: EmbeddingRequest, connection: Connection) -> HttpRequest:
    """``POST <base_url>/embed``."""
    body: Json = {
        "model": request.model,
        "texts": prefixed(request),
        "input_type": _PURPOSES[request.purpose],
        "embedding_types": ["float"],
        **(request.dialect.get("body") or {}),
    }
    return post_json(endpoint(request, connection, PATH), connection, body, accept="application/json")


def read(answer: Answer) -> tuple[Iterable[Written], int | None]:
    """``{"embeddings": {"float": [[…]]}, "meta": {"billed_units": {"input_tokens": …}}}``."""
    billed = (answer.value.get("meta") or {}).get("billed_units") or {}
    return answer.value["embeddings"]["float"], count(billed.get("input_tokens"))


WIRE = HttpEmbeddingWire("cohere_embeddings", build_request, read)
