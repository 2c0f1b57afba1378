"""Vertex AI's text embeddings, by its method ``predict``.

Law of this room: a request says what was asked for and nothing the vendor refuses. Switches of the family's
``dialect`` (others: see ``embedding``): ``task_types``, by purpose the ``task_type`` of a text.

Source: docs.cloud.google.com, text embeddings API: ``instances``, ``task_type``, ``statistics.token_count``; at most
250 texts a call, one for gemini-embedding-001.
"""

from __future__ import annotations

from collections.abc import Iterable

from providers.embedding import Answer, HttpEmbeddingWire, Written, count, prefixed
from providers.request_parts import endpoint, post_json
from providers.spec import Connection, EmbeddingRequest, HttpRequest, Json

PATH = "/projects/{project}/locations/{location}/publishers/google/models/{model}:predict"


def build_request(request: EmbeddingRequest, connection: Connection) -> HttpRequest:
    """``POST <base_url>/projects/…/publishers/google/models/<model>:predict``."""
    task = (request.dialect.get("task_types") or {}).get(request.purpose)
    told: Json = {"task_type": task} if task else {}
    body: Json = {"instances": [{"content": text, **told} for text in prefixed(request)]}
    body.update(request.dialect.get("body") or {})
    return post_json(endpoint(request, connection, PATH), connection, body, accept="application/json")


def read(answer: Answer) -> tuple[Iterable[Written], int | None]:
    """``{"predictions": [{"embeddings": {"values": […], "statistics": {"token_count": …}}}]}``."""
    found = [entry["embeddings"] for entry in answer.value["predictions"]]
    counts = [count((entry.get("statistics") or {}).get("token_count")) for entry in found]
    known = [each for each in counts if each is not None]
    return [entry["values"] for entry in found], sum(known) if len(known) == len(counts) else None


WIRE = HttpEmbeddingWire("vertex_embeddings", build_request, read)
