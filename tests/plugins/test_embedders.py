"""Models that make vectors: what families claim, how one is resolved, and what is refused with which cure."""

from __future__ import annotations

import typing as t
from array import array

import pytest

from app.engine.scope import Cancelled, RunScope
from plugins import embedding_models, guard, model_map
from plugins.connections import NotConfigured, RegistryError
from plugins.registry import Registry
from plugins.spec import Embeddings
from plugins.wires import EMBEDDING_WIRES, load_embedding_wire
from providers.auth import NoAuth
from providers.spec import Connection, Embedded, EmbeddingRequest, ProviderError, Usage
from tests.plugins.test_registry import family, registry, registry_of

__all__ = ["registry"]

#: The families that make vectors, by hand: a new one is listed here on purpose.
HAVE = {
    "alibaba", "azure", "bedrock", "cloudflare", "cohere", "databricks", "fireworks", "gemini", "github", "llama.cpp",
    "lmstudio", "mistral", "nvidia", "ollama", "openai", "openai-compatible", "openrouter", "scripted", "together",
    "vertex", "vllm",
}  # fmt: skip
NOWHERE = Connection("", NoAuth())


def made_with(wire: t.Any, **more: t.Any) -> Embeddings:
    """Facts of a plugin's own wire."""
    return Embeddings(wire=wire, source="acme.example: embeddings", **more)


class Wire:
    """A plugin's wire that answers, or does, what it is told to."""

    name = "acme_embeddings"

    def __init__(self, answer: t.Any) -> None:
        self.answer = answer

    def embed(self, request: EmbeddingRequest, connection: Connection, waits: t.Any) -> t.Any:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


class TestFamilies:
    def test_those_that_have_some(self, registry: Registry) -> None:
        assert set(registry.embedders.families()) == HAVE

    def test_each_says_where_it_knows_from_and_how_much_it_takes(self, registry: Registry) -> None:
        for name in HAVE:
            facts = registry.families[name].embeddings
            assert facts is not None
            assert facts.source, name
            for model in (*facts.known, "some-model"):
                size = facts.batch(model) if callable(facts.batch) else facts.batch
                assert 1 <= size <= 96, (name, model)

    def test_every_wire_has_a_name_and_a_way(self) -> None:
        for name in EMBEDDING_WIRES:
            wire = load_embedding_wire(name)
            assert wire.name == name
            assert callable(wire.embed)

    def test_what_is_known_is_known_to_the_model_registry(self, registry: Registry) -> None:
        for name in ("openai", "cohere", "gemini", "mistral", "bedrock", "vertex"):
            found = registry.families[name]
            assert found.embeddings is not None
            prices = [
                model_map.embedding_price(found.registry_prefix, found.embeddings.registry_providers, model)
                for model in found.embeddings.known
            ]
            assert all(price is not None and 0 <= price <= 1 for price in prices), (name, prices)

    def test_a_row_that_means_a_thousand_tokens_prices_nothing(self) -> None:
        assert model_map.embedding_price(None, ("cohere",), "embed-multilingual-light-v3.0") is None


class TestResolving:
    def test_one_has_what_a_call_needs(self, registry: Registry) -> None:
        found = registry.embedders.resolve(
            "openai/text-embedding-3-small",
            {"OPENAI_API_KEY": "k", "STUDIO_OPENAI_MAX_CONCURRENCY": "3"},
            idle_s=7.0,
        )
        assert found.id == "openai/text-embedding-3-small"
        assert (found.wire.name, found.connection.base_url) == (
            "openai_embeddings",
            "https://api.openai.com/v1",
        )
        assert (found.connection.idle_s, found.max_concurrency) == (7.0, 3)
        assert found.price == pytest.approx(0.02)
        assert found.dialect == {"base64": True}

    def test_a_missing_key_is_named(self, registry: Registry) -> None:
        with pytest.raises(NotConfigured) as caught:
            registry.embedders.resolve("openai/text-embedding-3-small", {})
        assert caught.value.variable == "OPENAI_API_KEY"

    @pytest.mark.parametrize(
        ("model", "says"),
        [
            ("anthropic/claude-sonnet-5", "Anthropic makes no embeddings"),
            ("litellm/voyage/voyage-3", "families that do are alibaba, azure"),
            ("scripted/echo", "scripted/bag-of-words"),
            ("opena/text-embedding-3-small", "openai"),
            ("text-embedding-3-small", "<family>/<model>"),
            ("openai/", "names no model"),
        ],
    )
    def test_refused_with_the_cure(self, registry: Registry, model: str, says: str) -> None:
        with pytest.raises(RegistryError, match=says):
            registry.embedders.check(model)
        with pytest.raises(RegistryError, match=says):
            registry.embedders.resolve(model, {})

    def test_a_name_nobody_has_heard_of_is_a_warning(self, registry: Registry) -> None:
        assert registry.embedders.check("openai/text-embedding-3-small") is None
        assert "text-embedding-3-small" in str(registry.embedders.check("openai/text-embedding-3-smal"))
        assert registry.embedders.check("ollama/anything") is None

    def test_rules_by_model(self, registry: Registry) -> None:
        environ = {
            "AWS_REGION": "us-east-1", "AWS_BEARER_TOKEN_BEDROCK": "k", "GEMINI_API_KEY": "k",
        }  # fmt: skip
        titan = registry.embedders.resolve("bedrock/amazon.titan-embed-text-v2:0", environ)
        assert (titan.dialect, titan.batch) == ({"style": "titan"}, 1)
        cohere = registry.embedders.resolve("bedrock/us.cohere.embed-v4:0", environ)
        assert (cohere.dialect, cohere.batch) == ({"style": "cohere"}, 64)
        older = registry.embedders.resolve("gemini/gemini-embedding-001", environ)
        assert set(older.dialect) == {"task_types"}
        newer = registry.embedders.resolve("gemini/gemini-embedding-2", environ)
        assert set(newer.dialect) == {"prefixes"}

    @pytest.mark.parametrize(
        ("model", "query"),
        [
            ("nomic-embed-text:v1.5", "search_query: "),
            ("intfloat/multilingual-e5-large-instruct", "Instruct: "),
            ("intfloat/e5-base-v2", "query: "),
            ("BAAI/bge-base-en-v1.5", "Represent this sentence"),
            ("snowflake-arctic-embed2", "query: "),
            ("embeddinggemma:300m", "task: search result | query: "),
            ("text-embedding-3-small", ""),
            ("bge-m3", ""),
        ],
    )
    def test_words_that_models_want(self, model: str, query: str) -> None:
        found = embedding_models.prefixes(model).get("prefixes", {}).get("query", "")
        assert found.startswith(query)
        assert bool(found) == bool(query)


class TestPlugins:
    @pytest.mark.parametrize(
        "facts",
        [
            made_with("no_such_wire"),
            made_with(object()),
            made_with("openai_embeddings", batch=0),
            made_with("openai_embeddings", known="text"),
            made_with("openai_embeddings", price=-1.0),
            "openai_embeddings",
        ],
    )
    def test_odd_facts_lose_the_family(self, facts: t.Any) -> None:
        found = registry_of(family(embeddings=facts))
        assert found.families == {}
        assert "embeddings" in str(found.manager.report()[0].error)

    def answer(self, wire: t.Any) -> Embedded:
        """What a guarded wire gives for two texts."""
        held = guard.family(family(embeddings=made_with(wire)), lambda message: None)
        found = registry_of(held).embedders.resolve("acme.ai-1/m", {"STUDIO_ACME_AI_1_API_BASE": "http://h"})
        with RunScope() as scope:
            return found.wire.embed(EmbeddingRequest("m", ("a", "b"), "query"), NOWHERE, scope)

    def test_a_wire_of_its_own(self) -> None:
        good = Embedded((array("f", [1.0]), array("f", [2.0])), Usage(input=2, total=2))
        assert self.answer(Wire(good)) == good

    @pytest.mark.parametrize(
        "answer",
        [
            None,
            Embedded((array("f", [1.0]),)),
            Embedded((array("f", [1.0]), array("f", [1.0, 2.0]))),
            Embedded((array("f", [1.0]), array("f", [1.0])), t.cast(t.Any, "many")),
            ValueError("oops"),
            SystemExit(3),
        ],
    )
    def test_one_that_fails_is_a_provider_error(self, answer: t.Any) -> None:
        with pytest.raises(ProviderError) as caught:
            self.answer(Wire(answer))
        assert caught.value.code == "provider_bad_stream"
        assert "acme_embeddings" in caught.value.message

    def test_its_own_errors_pass(self) -> None:
        with pytest.raises(ProviderError) as caught:
            self.answer(Wire(ProviderError("provider_rate_limited", "Slow down.")))
        assert (caught.value.code, caught.value.message) == ("provider_rate_limited", "Slow down.")

    def test_a_stop_goes_first(self) -> None:
        held = guard.family(family(embeddings=made_with(Wire(ValueError("late")))), lambda message: None)
        assert held.embeddings is not None
        with RunScope() as scope:
            scope.cancel("stop_requested")
            with pytest.raises(Cancelled):
                t.cast(t.Any, held.embeddings.wire).embed(
                    EmbeddingRequest("m", ("a",), "query"), NOWHERE, scope
                )

    def test_rules_that_fail_are_reported_and_claim_the_least(self) -> None:
        said: list[str] = []

        def broken(model: str) -> t.Any:
            raise ValueError("rule")

        facts = made_with("openai_embeddings", batch=broken, model_dialect=lambda model: t.cast(t.Any, 5))
        held = guard.family(family(embeddings=facts), said.append)
        found = registry_of(held).embedders.resolve("acme.ai-1/m", {"STUDIO_ACME_AI_1_API_BASE": "http://h"})
        assert (found.batch, found.dialect) == (1, {})
        assert len(said) == 2
