"""Gemini's embeddings, many texts a call.

Law of this room: a request says what was asked for and nothing the vendor refuses. Switches of the family's
``dialect`` (others: see ``embedding``):

=================  ==========================================================================================
switch             meaning
=================  ==========================================================================================
``task_types``     by purpose, the ``taskType`` of a text; newer models refuse one and want words before the text
=================  ==========================================================================================

Source: ai.google.dev, API reference of ``models.batchEmbedContents``, and its guide on embeddings.
"""

from __future__ import annotations

from collections.abc import Iterable

from providers.embedding import Answer, HttpEmbeddingWire, Written, count, prefixed
from providers.request_parts import endpoint, post_json
from providers.spec import Connection, EmbeddingRequest, HttpRequest, Json

PATH = "/models/{model}:batchEmbedContents"


def build_request(request: EmbeddingRequest, connection: Connection) -> HttpRequest:
    """``POST <base_url>/models/<model>:batchEmbedContents``; every text names the model once more."""
    task = (request.dialect.get("task_types") or {}).get(request.purpose)
    entries: list[Json] = []
    for text in prefixed(request):
        entry: Json = {"model": f"models/{request.model}", "content": {"parts": [{"text": text}]}}
        if task:
            entry["taskType"] = task
        entries.append(entry)
    body: Json = {"requests": entries, **(request.dialect.get("body") or {})}
    return post_json(endpoint(request, connection, PATH), connection, body, accept="application/json")


def read(answer: Answer) -> tuple[Iterable[Written], int | None]:
    """``{"embeddings": [{"values": […]}]}``; newer models state ``usageMetadata``."""
    usage = answer.value.get("usageMetadata") or {}
    return [entry["values"] for entry in answer.value["embeddings"]], count(usage.get("promptTokenCount"))


WIRE = HttpEmbeddingWire("gemini_embeddings", build_request, read)
