"""``litellm`` and ``watsonx``: what they resolve to and what they claim."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app import builtins, config
from plugins.connections import NotConfigured
from plugins.manager import create_manager
from plugins.registry import Registry
from providers.http import HttpWire
from providers.oauth import ChosenAuth
from tests.providers.driving import request


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return Registry(create_manager(False, builtins.plugins(config.load({"STUDIO_DATA_DIR": str(tmp_path)}))))


class TestLitellm:
    def test_it_needs_nothing(self, registry: Registry) -> None:
        resolved = registry.resolve("litellm/nlp_cloud/dolphin", {})
        assert (resolved.wire.name, resolved.model) == ("litellm_bridge", "nlp_cloud/dolphin")
        assert (resolved.connection.base_url, resolved.connection.credentials) == ("", {})

    def test_address_and_key_of_ones_own(self, registry: Registry) -> None:
        env = {"STUDIO_LITELLM_API_BASE": "http://h/x/", "STUDIO_LITELLM_API_KEY": "k"}
        connection = registry.resolve("litellm/a/b", env).connection
        assert (connection.base_url, connection.credentials) == ("http://h/x", {"api_key": "k"})

    def test_only_the_model_registry_is_claimed(self, registry: Registry) -> None:
        unknown = registry.capabilities_of("litellm/a/b")
        assert (unknown.thinking, unknown.price, unknown.context_window) == ("as_sent", None, None)
        known = registry.capabilities_of("litellm/openai/gpt-4o")
        assert known.price == (2.5, 10.0)
        assert known.inputs == ("text", "image", "pdf")
        assert known.sources["price"].startswith("model registry")

    def test_another_providers_row_is_not_taken(self, registry: Registry) -> None:
        assert registry.capabilities_of("litellm/groq/gpt-4o").price is None


class TestWatsonx:
    ENV = {"WATSONX_API_KEY": "k", "WATSONX_PROJECT_ID": "p"}  # noqa: RUF012

    def test_a_call(self, registry: Registry) -> None:
        resolved = registry.resolve("watsonx/ibm/granite-3-3-8b-instruct", self.ENV)
        assert isinstance(resolved.wire, HttpWire)
        http = resolved.wire.build(
            request(model=resolved.model, dialect=resolved.dialect, thinking="medium"), resolved.connection
        )
        assert http.url.startswith("https://us-south.ml.cloud.ibm.com/ml/v1/text/chat_stream?version=")
        body = json.loads(http.body)
        assert (body["model_id"], body["project_id"]) == ("ibm/granite-3-3-8b-instruct", "p")
        assert body["chat_template_kwargs"] == {"thinking": True}
        assert isinstance(resolved.connection.auth, ChosenAuth)

    def test_a_ready_token(self, registry: Registry) -> None:
        env = {"WATSONX_TOKEN": "tok", "WATSONX_SPACE_ID": "s", "WATSONX_REGION": "eu-de"}
        resolved = registry.resolve("watsonx/ibm/granite-4-h-small", env)
        assert isinstance(resolved.wire, HttpWire)
        http = resolved.wire.build(request(dialect=resolved.dialect), resolved.connection)
        resolved.connection.auth.apply(
            http, {**resolved.connection.credentials, **resolved.connection.options}
        )
        assert http.headers["Authorization"] == "Bearer tok"
        assert http.url.startswith("https://eu-de.ml.cloud.ibm.com/ml/v1/")
        assert json.loads(http.body)["space_id"] == "s"

    @pytest.mark.parametrize(
        ("env", "variable"),
        [({}, "WATSONX_API_KEY"), ({"WATSONX_API_KEY": "k"}, "WATSONX_PROJECT_ID")],
    )
    def test_what_is_missing(self, registry: Registry, env: dict[str, str], variable: str) -> None:
        with pytest.raises(NotConfigured) as caught:
            registry.resolve("watsonx/ibm/granite-4-h-small", env)
        assert caught.value.variable == variable

    def test_what_models_think(self, registry: Registry) -> None:
        def control(model: str) -> tuple[str, tuple[str, ...]]:
            can = registry.capabilities_of(f"watsonx/{model}")
            return can.thinking, can.thinking_control

        assert control("openai/gpt-oss-120b") == ("full", ("low", "medium", "high"))
        assert control("ibm/granite-3-3-8b-instruct") == ("full", ("none", "medium"))
        assert control("meta-llama/llama-3-3-70b-instruct") == ("none", ())
        assert control("deployment/d1") == ("full", ())
