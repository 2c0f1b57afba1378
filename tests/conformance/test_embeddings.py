"""Every family that claims embeddings makes some: address, key, dialect and wire against a vendor of made-up bytes."""

from __future__ import annotations

import json
import typing as t

import pytest

from app.engine.scope import RunScope
from plugins.conformance.recordings import Ground
from plugins.conformance.rig import KEY, environment
from plugins.conformance.server import Answer, ByteServer, byte_server
from plugins.spec import ResolvedEmbedding
from providers.spec import Embedded, EmbeddingRequest, ProviderError
from tests.conformance.test_builtin_families import ENVIRON, registry

#: What each wire is answered for one text, and the number of tokens in it.
ANSWERS: dict[str, t.Any] = {
    "openai_embeddings": {"data": [{"index": 0, "embedding": [0.5, 1.0]}], "usage": {"prompt_tokens": 7}},
    "gemini_embeddings": {"embeddings": [{"values": [0.5, 1.0]}], "usageMetadata": {"promptTokenCount": 7}},
    "vertex_embeddings": {
        "predictions": [{"embeddings": {"values": [0.5, 1.0], "statistics": {"token_count": 7}}}]
    },
    "cohere_embeddings": {
        "embeddings": {"float": [[0.5, 1.0]]}, "meta": {"billed_units": {"input_tokens": 7}},
    },
    "ollama_embeddings": {"embeddings": [[0.5, 1.0]], "prompt_eval_count": 7},
    "bedrock_embeddings": {"embedding": [0.5, 1.0], "inputTextTokenCount": 7},
}  # fmt: skip
#: Families whose key is not the kit's, with what stands for it in a request.
SIGNED = {"vertex": "kit-token"}
MORE = {**ENVIRON, "vertex": {"VERTEX_ACCESS_TOKEN": "kit-token"}}


def _models() -> list[str]:
    made = registry()
    found = []
    for name in made.embedders.families():
        facts = made.families[name].embeddings
        assert facts is not None
        if isinstance(facts.wire, str):
            found += [f"{name}/{model}" for model in facts.known or ("some-model",)]
    return found


def _resolved(model: str, server: ByteServer) -> ResolvedEmbedding:
    family = registry().families[model.partition("/")[0]]
    environ = environment(family, server.base, Ground(MORE.get(family.id, {}), {}))
    return registry().embedders.resolve(model, environ, idle_s=10.0)


def _embed(resolved: ResolvedEmbedding, purpose: t.Any = "document") -> Embedded:
    request = EmbeddingRequest(resolved.model, ("some words",), purpose, resolved.dialect)
    with RunScope() as scope:
        return resolved.wire.embed(request, resolved.connection, scope)


def _answer(resolved: ResolvedEmbedding, **changes: t.Any) -> Answer:
    body = json.dumps(ANSWERS[resolved.wire.name]).encode()
    if resolved.dialect.get("style") == "cohere":
        body = b'{"embeddings": {"float": [[0.5, 1.0]]}}'
    return Answer(200, "application/json", [body[:9], body[9:]], **changes)


@pytest.mark.parametrize("model", _models())
def test_it_makes_vectors(model: str) -> None:
    with byte_server({}) as server:
        resolved = _resolved(model, server)
        server.plan = _answer(resolved)
        asked = []
        for purpose in ("document", "query"):
            found = _embed(resolved, purpose)
            assert [list(vector) for vector in found.vectors] == [[0.5, 1.0]]
            assert found.usage is None or found.usage.input == 7
            asked.append(server.exchanges[-1])
        assert all(b"some words" in exchange.body for exchange in asked)
        family = resolved.family
        if family.connection.key_required or family.id in SIGNED:
            assert SIGNED.get(family.id, KEY).encode() in asked[0].head
        told = resolved.wire.name in ("cohere_embeddings", "gemini_embeddings", "vertex_embeddings")
        apart = bool(told or {"prefixes", "purpose_field"} & set(resolved.dialect) or "cohere." in model)
        assert (asked[0].body != asked[1].body) == apart, "documents and queries are told apart"


@pytest.mark.parametrize("model", sorted({model.partition("/")[0]: model for model in _models()}.values()))
def test_what_fails_is_told(model: str) -> None:
    with byte_server({}) as server:
        resolved = _resolved(model, server)
        server.plan = _answer(resolved, ending="torn")
        with pytest.raises(ProviderError) as torn:
            _embed(resolved)
        assert torn.value.code == "provider_bad_stream"
        server.plan = Answer(401, "application/json", [b'{"message": "no such key"}'])
        with pytest.raises(ProviderError) as refused:
            _embed(resolved)
        assert refused.value.code == "provider_auth"
        assert "no such key" not in refused.value.message
        server.plan = Answer(200, "application/json", [b'{"id": "1", "choices": []}'])
        with pytest.raises(ProviderError) as other:
            _embed(resolved)
        assert other.value.code == "provider_bad_stream"
