"""OpenAI's embeddings, which most vendors and servers speak.

Law of this room: a request says what was asked for and nothing that a vendor of this shape refuses; what only some
take is a switch of the family's ``dialect`` (others: see ``embedding``):

=================  ==========================================================================================
switch             meaning
=================  ==========================================================================================
``base64``         True: vectors are asked for as base64, a quarter of the bytes and a tenth of the work. Default:
                   nothing is said, and whatever comes is read
``purpose_field``  the member that tells documents and queries apart, where the vendor has one
``purposes``       its words, by purpose
=================  ==========================================================================================

Sources: developers.openai.com, API reference of embeddings (``encoding_format``, at most 2,048 texts, none empty);
docs.nvidia.com, NIM for text embeddings (``input_type`` ``passage`` and ``query``); docs.vllm.ai, OpenAI-compatible
server; docs.mistral.ai, docs.together.ai, docs.fireworks.ai: embeddings.
"""

from __future__ import annotations

from collections.abc import Iterable

from providers.embedding import Answer, HttpEmbeddingWire, Written, count, prefixed
from providers.request_parts import endpoint, post_json
from providers.spec import Connection, EmbeddingRequest, HttpRequest, Json

PATH = "/embeddings"


def build_request(request: EmbeddingRequest, connection: Connection) -> HttpRequest:
    """``POST <base_url>/embeddings``."""
    dialect = request.dialect
    body: Json = {"model": request.model, "input": prefixed(request)}
    if dialect.get("base64"):
        body["encoding_format"] = "base64"
    if field := dialect.get("purpose_field"):
        body[field] = (dialect.get("purposes") or {}).get(request.purpose, request.purpose)
    body.update(dialect.get("body") or {})
    return post_json(endpoint(request, connection, PATH), connection, body, accept="application/json")


def read(answer: Answer) -> tuple[Iterable[Written], int | None]:
    """``{"data": [{"index": …, "embedding": …}], "usage": {…}}``; the order is that of ``index``, where it is told."""
    entries = answer.value["data"]
    if all(type(entry.get("index")) is int for entry in entries):
        entries = sorted(entries, key=lambda entry: entry["index"])
    usage = answer.value.get("usage") or {}
    tokens = count(usage.get("prompt_tokens"))
    return [entry["embedding"] for entry in entries], count(
        usage.get("total_tokens")
    ) if tokens is None else tokens


WIRE = HttpEmbeddingWire("openai_embeddings", build_request, read)
