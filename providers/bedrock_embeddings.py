"""Embeddings of models on Amazon Bedrock, by its operation InvokeModel.

Law of this room: a request says what was asked for and nothing the vendor refuses. The body is the model's own; the
switch ``style`` says which (others: see ``embedding``): ``titan`` (one text a call) or ``cohere``.

Source: Amazon Bedrock user guide, inference parameters of Titan Text Embeddings and of Cohere Embed; the API reference
of InvokeModel for the header that counts tokens.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote

from providers.aws_failures import aws_error
from providers.embedding import Answer, HttpEmbeddingWire, Written, count, prefixed
from providers.errors import failure
from providers.request_parts import post_json
from providers.spec import Connection, EmbeddingRequest, HttpRequest, Json

_PURPOSES = {"document": "search_document", "query": "search_query"}
_TOKENS = "x-amzn-bedrock-input-token-count"


def build_request(request: EmbeddingRequest, connection: Connection) -> HttpRequest:
    """``POST <base_url>/model/<model>/invoke``.

    :raises ProviderError: ``provider_bad_request``: nothing says what the model's body looks like.
    """
    texts = prefixed(request)
    style = request.dialect.get("style")
    body: Json
    if style == "cohere":
        body = {
            "texts": texts,
            "input_type": _PURPOSES[request.purpose],
            "truncate": "END",
            "embedding_types": ["float"],
        }
    elif style == "titan":
        (text,) = texts
        body = {"inputText": text}
    else:
        raise failure(
            "provider_bad_request",
            message="Of Bedrock's embedding models those of Titan Text Embeddings and Cohere Embed can be used.",
        )
    body.update(request.dialect.get("body") or {})
    url = f"{connection.base_url}/model/{quote(request.model, safe='')}/invoke"
    return post_json(url, connection, body, accept="application/json")


def read(answer: Answer) -> tuple[Iterable[Written], int | None]:
    """Titan's ``{"embedding": […], "inputTextTokenCount": …}``, Cohere's ``{"embeddings": {"float": [[…]]}}``."""
    value, told = answer.value, answer.headers.get(_TOKENS, "")
    tokens = int(told) if told.isdecimal() else count(value.get("inputTextTokenCount"))
    if "embedding" in value:
        return [value["embedding"]], tokens
    found = value["embeddings"]
    return (found["float"] if isinstance(found, dict) else found), tokens


WIRE = HttpEmbeddingWire("bedrock_embeddings", build_request, read, aws_error)
