"""What ``openai``, ``azure`` and ``xai`` state of themselves, through the registry, and the bodies that follow."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from app import builtins, config
from plugins import openai_models
from plugins.connections import NotConfigured
from plugins.families import azure, openai, xai
from plugins.manager import create_manager
from plugins.registry import Registry
from providers.oauth import TokenAuth
from providers.spec import HttpRequest, ModelRequest, UserMessage
from tests.support.shared import find_shared, recordings, shared_path

KEYS = {
    "OPENAI_API_KEY": "k",
    "XAI_API_KEY": "k",
    "AZURE_API_KEY": "k",
    "AZURE_API_BASE": "https://r.openai.azure.com",
}
CHAT = {f"STUDIO_{family}_WIRE": "openai_chat" for family in ("OPENAI", "AZURE", "XAI")}


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Registry:
    data: Path = tmp_path_factory.mktemp("data")
    return Registry(create_manager(False, builtins.plugins(config.load({"STUDIO_DATA_DIR": str(data)}))))


def sent(
    registry: Registry, model: str, environ: dict[str, str] | None = None, **changes: t.Any
) -> HttpRequest:
    """The authenticated request of one call of ``model``."""
    resolved = registry.resolve(model, KEYS if environ is None else environ)
    request = ModelRequest(
        resolved.model, [UserMessage("hi")], lambda: "id", dialect=resolved.dialect, **changes
    )
    built: HttpRequest = t.cast(t.Any, resolved.wire).build(request, resolved.connection)
    known = {**resolved.connection.options, **resolved.connection.credentials}
    resolved.connection.auth.apply(built, known)
    return built


def body(registry: Registry, model: str, environ: dict[str, str] | None = None, **changes: t.Any) -> t.Any:
    """Its JSON."""
    return json.loads(sent(registry, model, environ, **changes).body)


class TestModels:
    @pytest.mark.parametrize(
        ("name", "levels", "by_default"),
        [
            ("gpt-3.5-turbo", (), False),
            ("gpt-35-turbo", (), False),
            ("gpt-4o-mini-2024-07-18", (), False),
            ("gpt-4.1", (), False),
            ("gpt-4.5-preview", (), False),
            ("ft:gpt-4o-mini:acme::1", (), False),
            ("gpt-5-chat-latest", (), False),
            ("o1-2024-12-17", ("low", "medium", "high"), True),
            ("o3-mini", ("low", "medium", "high"), True),
            ("o4-mini", ("low", "medium", "high"), True),
            ("gpt-5", ("minimal", "low", "medium", "high"), True),
            ("gpt-5-mini-2025-08-07", ("minimal", "low", "medium", "high"), True),
            ("gpt-5-pro", ("high",), True),
            ("gpt-5-codex", ("low", "medium", "high"), True),
            ("gpt-5.1", ("none", "low", "medium", "high"), False),
            ("gpt-5.1-codex-mini", ("low", "medium", "high"), True),
            ("gpt-5.1-codex-max", ("low", "medium", "high", "xhigh"), True),
            ("gpt-5.1-chat-latest", ("medium",), True),
            ("gpt-5.2", ("none", "low", "medium", "high", "xhigh"), False),
            ("gpt-5.2-pro", ("medium", "high", "xhigh"), True),
            ("gpt-5.3-codex", ("low", "medium", "high", "xhigh"), True),
            ("gpt-5.4-2026-03-05", ("none", "low", "medium", "high", "xhigh"), False),
            ("gpt-5.5", ("none", "low", "medium", "high", "xhigh"), True),
            ("gpt-5.5-pro", ("medium", "high", "xhigh"), True),
            ("gpt-5.6-sol", ("none", "low", "medium", "high", "xhigh"), True),
            ("gpt-6-astra", ("low", "medium", "high", "xhigh", "max"), True),
            ("gpt-6-luna", ("none", "low", "medium", "high", "xhigh", "max"), True),
            ("gpt-6.1-sol", ("low", "medium", "high", "xhigh", "max"), True),
            ("gpt-6.1-terra", ("none", "low", "medium", "high", "xhigh", "max"), True),
            ("prod-gpt-5-mini-eu", ("minimal", "low", "medium", "high"), True),
            ("chat-latest", ("medium",), True),
        ],
    )
    def test_levels_by_generation(self, name: str, levels: tuple[str, ...], by_default: bool) -> None:
        found = openai_models.thinking_of(name)
        assert found is not None
        assert (found.levels, found.by_default) == (levels, by_default)

    @pytest.mark.parametrize("name", ["prod", "gpt-oss-120b", "polo3", "foo3", "model-router", "demo1x", ""])
    def test_names_that_tell_nothing(self, name: str) -> None:
        assert openai_models.thinking_of(name) is None

    @pytest.mark.parametrize("name", ["o1", "o3-mini", "gpt-5.2-chat-latest"])
    def test_models_whose_thinking_stays_hidden(self, registry: Registry, name: str) -> None:
        assert registry.capabilities_of(f"openai/{name}").thinking == "hidden"
        assert "summary" not in json.dumps(body(registry, f"openai/{name}", show_thinking=True))


class TestOpenAI:
    def test_address_and_key(self, registry: Registry) -> None:
        built = sent(registry, "openai/gpt-5", {**KEYS, "OPENAI_ORG_ID": "org-1"})
        assert built.url == "https://api.openai.com/v1/responses"
        assert built.headers["Authorization"] == "Bearer k"
        assert built.headers["OpenAI-Organization"] == "org-1"
        assert "OpenAI-Project" not in built.headers
        assert sent(registry, "openai/gpt-5", {**KEYS, **CHAT}).url.endswith("/v1/chat/completions")

    def test_nothing_depends_on_what_the_vendor_stored(self, registry: Registry) -> None:
        asked = body(registry, "openai/gpt-5", conversation="c")
        assert asked["store"] is False
        assert asked["include"] == ["reasoning.encrypted_content"]
        assert asked["prompt_cache_key"] == "c"
        assert "reasoning" not in asked

    def test_a_model_that_does_not_think_is_asked_for_none_of_it(self, registry: Registry) -> None:
        asked = body(registry, "openai/gpt-4o", show_thinking=True, temperature=0.5)
        assert not {"include", "reasoning"} & set(asked)
        assert asked["temperature"] == 0.5
        assert registry.capabilities_of("openai/gpt-4o").thinking == "none"

    @pytest.mark.parametrize(
        ("model", "reasoning"),
        [
            ("gpt-5", {"summary": "auto"}),
            ("gpt-5.1", {"effort": "medium", "summary": "auto"}),
            ("gpt-5.5", {"summary": "auto"}),
        ],
    )
    def test_thinking_that_someone_may_see(self, registry: Registry, model: str, reasoning: t.Any) -> None:
        asked = body(registry, f"openai/{model}", show_thinking=True, temperature=0.5)
        assert asked["reasoning"] == reasoning
        assert "temperature" not in asked

    def test_every_level_it_claims_is_sent_as_its_own_word(self, registry: Registry) -> None:
        for model in openai.KNOWN:
            for level in registry.capabilities_of(f"openai/{model}").thinking_control:
                asked = body(registry, f"openai/{model}", thinking=level).get("reasoning", {})
                assert asked == ({} if level == "auto" else {"effort": level}), (model, level)

    def test_over_chat_completions(self, registry: Registry) -> None:
        asked = body(
            registry, "openai/gpt-5", {**KEYS, **CHAT}, max_tokens=9, thinking="low", show_thinking=True
        )
        assert asked["max_completion_tokens"] == 9
        assert asked["reasoning_effort"] == "low"
        assert "reasoning" not in asked

    def test_size_and_price_are_the_registrys(self, registry: Registry) -> None:
        found = registry.capabilities_of("openai/gpt-5")
        assert found.price == (1.25, 10.0)
        assert "litellm" in found.sources["price"]
        assert found.source == openai_models.SOURCE
        assert "pdf" in found.inputs

    def test_a_name_the_registry_lacks_says_so(self, registry: Registry) -> None:
        found = registry.capabilities_of("openai/gpt-9-nova")
        assert found.price is None
        assert "not in the registry" in found.sources["tools"]
        assert registry.check_model("openai/gpt-9-nova") is not None
        nothing = registry.capabilities_of("openai/nova")
        assert (nothing.thinking, nothing.thinking_control) == ("none", ())
        assert nothing.notes.startswith("No name of OpenAI's")
        assert registry.check_model("openai/gpt-5-2025-08-07") is None


class TestAzure:
    @pytest.mark.parametrize(
        "base",
        [
            "https://r.openai.azure.com",
            "https://r.openai.azure.com/",
            "https://r.openai.azure.com/openai",
            "https://r.openai.azure.com/openai/v1/",
            "https://r.openai.azure.com/openai/responses?api-version=2025-04-01-preview",
            "https://r.openai.azure.com/openai/deployments/x/chat/completions?api-version=2024-10-21",
        ],
    )
    def test_addresses(self, registry: Registry, base: str) -> None:
        environ = {"AZURE_API_BASE": base, "AZURE_API_KEY": "k", "AZURE_API_VERSION": "2024-10-21"}
        built = sent(registry, "azure/gpt-5-mini", environ)
        assert built.url == "https://r.openai.azure.com/openai/v1/responses"
        assert built.headers["api-key"] == "k"
        chat = sent(registry, "azure/gpt-5-mini", {**environ, **CHAT})
        assert chat.url == "https://r.openai.azure.com/openai/v1/chat/completions"
        claude = sent(registry, "azure/claude-sonnet-5", environ)
        assert claude.url == "https://r.services.ai.azure.com/anthropic/v1/messages"
        assert claude.headers["api-key"] == "k"
        assert claude.headers["anthropic-version"]

    def test_a_resource_by_name_and_a_version(self, registry: Registry) -> None:
        environ = {
            "AZURE_RESOURCE_NAME": "foo",
            "AZURE_API_KEY": "k",
            "STUDIO_AZURE_API_VERSION": "preview",
        }
        for model in ("gpt-5-mini", "prod"):
            url = sent(registry, f"azure/{model}", environ).url
            assert url.startswith("https://foo.openai.azure.com/openai/v1/")
            assert url.endswith("?api-version=preview")
        assert "api-version" not in sent(registry, "azure/claude-sonnet-5", environ).url

    def test_wires_by_deployment(self, registry: Registry) -> None:
        wires = {
            "gpt-5-mini": "openai_responses",
            "prod-gpt-4o": "openai_responses",
            "prod": "openai_chat",
            "grok-4-1-fast-non-reasoning": "openai_chat",
            "claude-sonnet-5": "anthropic_messages",
        }
        for model, name in wires.items():
            assert registry.resolve(f"azure/{model}", KEYS).wire.name == name

    def test_credentials(self, registry: Registry) -> None:
        base = {"AZURE_API_BASE": "https://r.openai.azure.com"}
        with pytest.raises(NotConfigured) as missing:
            registry.resolve("azure/gpt-5", base)
        assert missing.value.variable == "AZURE_API_KEY"
        built = sent(registry, "azure/gpt-5", {**base, "AZURE_AD_TOKEN": "tok"})
        assert built.headers["Authorization"] == "Bearer tok"
        client = {"AZURE_TENANT_ID": "t", "AZURE_CLIENT_ID": "c", "AZURE_CLIENT_SECRET": "s"}
        resolved = registry.resolve("azure/gpt-5", {**base, **client})
        chosen = t.cast(t.Any, resolved.connection.auth)._choose(
            {**resolved.connection.options, **resolved.connection.credentials}
        )
        assert isinstance(chosen, TokenAuth)
        with pytest.raises(NotConfigured):
            registry.resolve("azure/gpt-5", {**base, "AZURE_CLIENT_SECRET": "s"})

    def test_capabilities(self, registry: Registry) -> None:
        assert registry.capabilities_of("azure/gpt-5-mini").thinking == "summary"
        assert "max" not in registry.capabilities_of("azure/gpt-6-astra").thinking_control
        nothing = registry.capabilities_of("azure/prod")
        assert (nothing.thinking, nothing.thinking_control) == ("none", ())
        claude = registry.capabilities_of("azure/claude-sonnet-5")
        assert (claude.thinking, claude.context_window) == ("summary", 1_000_000)
        assert registry.capabilities_of("azure/gpt-5-mini").price == (0.25, 2.0)

    def test_cache_keys_only_where_the_model_is_known_to_take_one(self, registry: Registry) -> None:
        known = body(registry, "azure/gpt-5-mini", {**KEYS, **CHAT}, conversation="c")
        assert known["prompt_cache_key"] == "c"
        assert "prompt_cache_key" not in body(registry, "azure/prod", conversation="c")

    def test_levels_that_azure_lacks_are_not_sent_either(self) -> None:
        assert "max" not in azure.dialect("gpt-6-astra")["levels"]


class TestXai:
    @pytest.mark.parametrize(
        ("model", "thinking", "levels", "wire"),
        [
            ("grok-3", "none", (), "openai_chat"),
            ("grok-3-mini", "full", ("low", "high", "auto"), "openai_chat"),
            ("grok-code-fast-1", "full", (), "openai_chat"),
            ("grok-4", "hidden", (), "openai_chat"),
            ("grok-4-0709", "hidden", (), "openai_chat"),
            ("grok-4-fast-reasoning", "hidden", (), "openai_chat"),
            ("grok-4-1-fast-non-reasoning", "none", (), "openai_chat"),
            ("grok-4.20-0309-reasoning", "hidden", (), "openai_responses"),
            ("grok-4.20-non-reasoning", "none", (), "openai_responses"),
            ("grok-4.3", "summary", ("none", "low", "medium", "high", "auto"), "openai_responses"),
            ("grok-4.5-latest", "summary", ("low", "medium", "high", "auto"), "openai_responses"),
            ("grok-4.6", "summary", ("low", "medium", "high", "xhigh", "auto"), "openai_responses"),
            ("grok-latest", "summary", ("low", "medium", "high", "auto"), "openai_responses"),
        ],
    )
    def test_models(
        self, registry: Registry, model: str, thinking: str, levels: tuple[str, ...], wire: str
    ) -> None:
        found = registry.capabilities_of(f"xai/{model}")
        assert (found.thinking, found.thinking_control) == (thinking, levels)
        assert registry.resolve(f"xai/{model}", KEYS).wire.name == wire

    def test_over_the_responses_protocol(self, registry: Registry) -> None:
        asked = body(registry, "xai/grok-4.3", system="s", show_thinking=True, conversation="c")
        assert asked["input"][0] == {"role": "system", "content": "s"}
        assert asked["include"] == ["reasoning.encrypted_content"]
        assert asked["prompt_cache_key"] == "c"
        assert not {"reasoning", "instructions"} & set(asked)
        assert body(registry, "xai/grok-4.3", thinking="none")["reasoning"] == {"effort": "none"}

    def test_over_chat_completions(self, registry: Registry) -> None:
        built = sent(registry, "xai/grok-3-mini")
        assert built.url == "https://api.x.ai/v1/chat/completions"
        assert body(registry, "xai/grok-3-mini", thinking="low")["reasoning_effort"] == "low"
        assert "reasoning_effort" not in body(registry, "xai/grok-4", show_thinking=True)

    def test_one_protocol_for_all(self, registry: Registry) -> None:
        for name in ("openai_chat", "openai_responses"):
            for model in ("grok-3-mini", "grok-4.3"):
                environ = {**KEYS, "STUDIO_XAI_WIRE": name}
                assert registry.resolve(f"xai/{model}", environ).wire.name == name

    def test_every_level_it_claims_is_sent_as_its_own_word(self, registry: Registry) -> None:
        for model in xai.KNOWN:
            for level in registry.capabilities_of(f"xai/{model}").thinking_control:
                asked = body(registry, f"xai/{model}", thinking=level).get("reasoning", {})
                assert asked == ({} if level == "auto" else {"effort": level}), (model, level)


#: Which folder's recordings speak for a family, over the wire its models are called by.
_FOLDERS = {"openai-responses": "openai", "azure-openai": "azure", "xai": "xai"}
_WIRES = {"openai-responses": "openai_responses", "openai-chat": "openai_chat"}


def _recorded() -> list[tuple[str, str]]:
    """Recordings of the three families, and the model each is of."""
    if find_shared() is None:
        shared_path("recordings")  # skips the module loudly; fails on CI
    return [
        (name, f"{_FOLDERS[name.split('/')[0]]}/{case['expected']['models'][0]}")
        for name, case in recordings().items()
        if name.split("/")[0] in _FOLDERS and case["expected"]["models"]
    ]


@pytest.mark.parametrize(("name", "model"), _recorded())
def test_no_recording_shows_more_than_its_model_claims(registry: Registry, name: str, model: str) -> None:
    case = recordings()[name]
    if registry.resolve(model, KEYS).wire.name == _WIRES[case["wire"]] and case["expected"]["thinking"]:
        assert registry.capabilities_of(model).thinking in ("summary", "full")


@pytest.mark.parametrize("family", ["openai", "azure", "xai"])
def test_every_claim_of_shown_thinking_can_be_asked_for(registry: Registry, family: str) -> None:
    for model in registry.families[family].known:
        found = registry.capabilities_of(f"{family}/{model}")
        if found.thinking == "summary" and registry.resolve(f"{family}/{model}", KEYS).wire.name == (
            "openai_responses"
        ):
            asked = body(registry, f"{family}/{model}", show_thinking=True)
            assert family == "xai" or asked["reasoning"]["summary"] == "auto"
            assert asked["include"] == ["reasoning.encrypted_content"]


@pytest.mark.parametrize("family", ["openai", "azure"])
def test_chat_completions_show_nothing_of_the_thinking(registry: Registry, family: str) -> None:
    """The claim goes with the wire that was chosen, and so does what the emitter lets through."""
    model = f"{family}/gpt-5"
    assert registry.resolve(model, KEYS).capabilities.thinking == "summary"
    on_chat = registry.resolve(model, {**KEYS, **CHAT}).capabilities
    assert (on_chat.thinking, on_chat.thinking_signed) == ("hidden", False)
    assert on_chat.thinking_control == registry.resolve(model, KEYS).capabilities.thinking_control
    assert registry.resolve(f"{family}/gpt-4o", {**KEYS, **CHAT}).capabilities.thinking == "none"
