"""Ollama's own embeddings.

Law of this room: a request says what was asked for and leaves the rest to the server. The address may be given with
``/v1``, as for the server's OpenAI route. Switches: see ``embedding``.

Source: docs.ollama.com, API reference of ``/api/embed``: ``input`` may be a list; what is longer than the model reads
is cut at its end unless ``truncate`` is false; ``prompt_eval_count`` counts all of it.
"""

from __future__ import annotations

from collections.abc import Iterable

from providers.embedding import Answer, HttpEmbeddingWire, Written, count, prefixed
from providers.request_parts import post_json
from providers.spec import Connection, EmbeddingRequest, HttpRequest, Json


def build_request(request: EmbeddingRequest, connection: Connection) -> HttpRequest:
    """``POST <server>/api/embed``."""
    body: Json = {
        "model": request.model,
        "input": prefixed(request),
        **(request.dialect.get("body") or {}),
    }
    server = connection.base_url.removesuffix("/v1").removesuffix("/api")
    return post_json(f"{server}/api/embed", connection, body, accept="application/json")


def read(answer: Answer) -> tuple[Iterable[Written], int | None]:
    """``{"embeddings": [[…]], "prompt_eval_count": …}``."""
    return answer.value["embeddings"], count(answer.value.get("prompt_eval_count"))


WIRE = HttpEmbeddingWire("ollama_embeddings", build_request, read)
