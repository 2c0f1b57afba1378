"""Model ids, addresses, credentials: resolved per request, every error with its cure."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from app import builtins, config
from plugins.capabilities import rows
from plugins.connections import NotConfigured, RegistryError, variable_prefix
from plugins.hookspecs import hookimpl
from plugins.manager import create_manager
from plugins.registry import Registry, UnknownFamily, UnknownModel
from plugins.spec import Capabilities, ConnectionSpec, ProviderFamily
from providers.auth import NoAuth

BASE = "STUDIO_OPENAI_COMPATIBLE_API_BASE"
KEY = "STUDIO_OPENAI_COMPATIBLE_API_KEY"


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return Registry(create_manager(False, builtins.plugins(config.load({"STUDIO_DATA_DIR": str(tmp_path)}))))


def family(**changes: t.Any) -> ProviderFamily:
    plain = ProviderFamily(
        "acme.ai-1",
        "Acme",
        "openai_chat",
        NoAuth(),
        ConnectionSpec(key_required=False),
        lambda model, row: Capabilities(notes=model),
    )
    return replace(plain, **changes)


def registry_of(*families: ProviderFamily) -> Registry:
    class Plugin:
        plugin_name = "acme"

        @hookimpl
        def provider_families(self) -> t.Iterable[ProviderFamily]:
            return families

    return Registry(create_manager(False, [Plugin()]))


def base_url(registry: Registry, base: str, model: str = "openai-compatible/m") -> str:
    return registry.resolve(model, {BASE: base}).connection.base_url


# -- addresses ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080/v1"),
        ("http://127.0.0.1:8080/", "http://127.0.0.1:8080/v1"),
        ("http://127.0.0.1:8080/v1", "http://127.0.0.1:8080/v1"),
        (" http://127.0.0.1:8080/v1// ", "http://127.0.0.1:8080/v1"),
        ("https://host/openai/v1", "https://host/openai/v1"),
        ("https://host/api", "https://host/api/v1"),
        ("https://host/api/paas/v4", "https://host/api/paas/v4"),
        ("https://host/v1beta/openai", "https://host/v1beta/openai"),
        ("https://v1.example.org", "https://v1.example.org/v1"),
        ("http://[::1]:8080", "http://[::1]:8080/v1"),
    ],
)
def test_a_base_is_taken_with_or_without_its_version(registry: Registry, given: str, used: str) -> None:
    assert base_url(registry, given) == used


@pytest.mark.parametrize(
    "given",
    [
        "localhost:8080",
        "ftp://host",
        "http://",
        "http://ho st",
        "http://host:x",
        "http://a\x00b",
        "http:///v1",
    ],
)
def test_a_malformed_base_is_not_repeated(registry: Registry, given: str) -> None:
    with pytest.raises(NotConfigured) as caught:
        base_url(registry, given)
    assert caught.value.variable == BASE
    assert BASE in caught.value.message
    assert given not in caught.value.message


@pytest.mark.parametrize("name", ["a\nINFO all is well", "a\x1b[31m", "a\x00", "gpt-5\u200b"])
def test_a_name_that_cannot_be_shown_is_no_model(registry: Registry, name: str) -> None:
    with pytest.raises(UnknownModel) as caught:
        registry.check_model(f"openai/{name}")
    assert caught.value.message.isprintable()
    assert rows(registry, "openai", name) == []


@pytest.mark.parametrize("family", ["ollama", "openai-compatible"])
def test_brackets_with_no_address_between_them_are_no_base(registry: Registry, family: str) -> None:
    variable = f"STUDIO_{family.replace('-', '_').upper()}_API_BASE"
    with pytest.raises(NotConfigured) as caught:
        registry.resolve(f"{family}/m", {variable: "[]"})
    assert caught.value.variable == variable


@pytest.mark.parametrize(
    ("variable", "value"), [("STUDIO_OPENAI_WIRE", "morse"), ("STUDIO_OPENAI_MAX_CONCURRENCY", "-1")]
)
def test_a_family_that_would_refuse_each_call_is_not_configured(
    registry: Registry, variable: str, value: str
) -> None:
    environ = {"OPENAI_API_KEY": "k", variable: value}
    problem = registry.missing(registry.families["openai"], environ)
    assert problem is not None
    assert problem.variable == variable
    assert value not in problem.message
    with pytest.raises(NotConfigured, match=variable):
        registry.resolve("openai/gpt-5", environ)
    assert registry.missing(registry.families["openai"], {"OPENAI_API_KEY": "k"}) is None


def test_a_missing_base_names_the_variable(registry: Registry) -> None:
    for environ in ({}, {BASE: "  "}):
        with pytest.raises(NotConfigured) as caught:
            registry.resolve("openai-compatible/m", environ)
        assert caught.value.variable == BASE
        assert BASE in caught.value.message


def test_the_vendors_own_names_and_ours(registry: Registry) -> None:
    model = "anthropic/claude-sonnet-4-5"
    with pytest.raises(NotConfigured) as caught:
        registry.resolve(model, {})
    assert caught.value.variable == "ANTHROPIC_API_KEY"
    plain = registry.resolve(model, {"ANTHROPIC_API_KEY": "k1"}).connection
    assert (plain.base_url, plain.credentials) == ("https://api.anthropic.com/v1", {"api_key": "k1"})
    theirs = {"ANTHROPIC_API_KEY": "k1", "ANTHROPIC_API_BASE": "http://proxy/"}
    assert registry.resolve(model, theirs).connection.base_url == "http://proxy/v1"
    ours = theirs | {"STUDIO_ANTHROPIC_API_KEY": "k2", "STUDIO_ANTHROPIC_API_BASE": "http://mine"}
    assert registry.resolve(model, ours).connection.base_url == "http://mine/v1"
    assert registry.resolve(model, ours).connection.credentials == {"api_key": "k2"}


def test_a_key_is_trimmed_and_never_shown(registry: Registry) -> None:
    environ = {BASE: "http://h", KEY: " sk-secret\n"}
    connection = registry.resolve("openai-compatible/m", environ).connection
    assert connection.credentials == {"api_key": "sk-secret"}
    assert "sk-secret" not in repr(connection)
    for bad in ("sk-se\ncret", "sk-sécret"):
        with pytest.raises(NotConfigured) as caught:
            registry.resolve("openai-compatible/m", environ | {KEY: bad})
        assert caught.value.variable == KEY
        assert bad not in caught.value.message


def test_hyphens_and_dots_become_underscores() -> None:
    assert variable_prefix("acme.ai-1") == "STUDIO_ACME_AI_1"
    registry = registry_of(family())
    environ = {"STUDIO_ACME_AI_1_API_BASE": "http://h"}
    assert registry.resolve("acme.ai-1/a/b", environ).model == "a/b"


def test_inline_thinking_is_a_switch_of_generic_families(registry: Registry) -> None:
    environ = {BASE: "http://h"}
    assert registry.resolve("openai-compatible/m", environ).dialect == {"inline_thinking": False}
    for value, on in [("1", True), ("true", True), ("0", False), ("", False), ("implicit", "implicit")]:
        switched = environ | {"STUDIO_OPENAI_COMPATIBLE_INLINE_THINKING": value}
        assert registry.resolve("openai-compatible/m", switched).dialect["inline_thinking"] == on


# -- caching --------------------------------------------------------------------------------------


def test_a_connection_is_reused_until_the_environment_changes(registry: Registry) -> None:
    environ = {BASE: "http://h", KEY: "one"}
    first = registry.resolve("openai-compatible/m", environ)
    assert registry.resolve("openai-compatible/m", dict(environ)) is first
    environ[KEY] = "two"
    second = registry.resolve("openai-compatible/m", environ)
    assert second.connection.credentials == {"api_key": "two"}
    assert registry.resolve("openai-compatible/m", environ, idle_s=5.0).connection.idle_s == 5.0
    assert registry.resolve("openai-compatible/m", environ, connect_s=2.0).connection.connect_s == 2.0
    del environ[BASE]
    with pytest.raises(NotConfigured):
        registry.resolve("openai-compatible/m", environ)


def test_the_cache_is_bounded(registry: Registry) -> None:
    for number in range(9000):
        registry.resolve(f"openai-compatible/m{number}", {BASE: "http://h"})
    assert len(registry._resolved) <= 1024
    assert len(registry._capabilities) <= 8192


# -- unknown things -------------------------------------------------------------------------------


def message(registry: Registry, model: str, kind: type[RegistryError]) -> str:
    with pytest.raises(RegistryError) as checked:
        registry.check_model(model)
    with pytest.raises(RegistryError) as resolved:
        registry.resolve(model, {})
    assert type(checked.value) is type(resolved.value) is kind
    assert checked.value.message == resolved.value.message
    return checked.value.message


def test_an_unknown_family_names_near_ones(registry: Registry) -> None:
    text = message(registry, "antropic/claude", UnknownFamily)
    assert text.startswith(
        'unknown family "antropic" in "antropic/claude" (did you mean "anthropic"?); there are '
    )
    assert "anthropic, " in text.partition("there are ")[2]
    assert text.endswith(", and more by plugins")
    assert "did you mean" not in message(registry, "zzz/claude", UnknownFamily)


@pytest.mark.parametrize("model", ["", "claude", "anthropic", "/x"])
def test_an_id_without_its_parts_is_told_the_form(registry: Registry, model: str) -> None:
    text = message(registry, model, UnknownFamily)
    assert "anthropic" in text


def test_an_empty_model_is_told_an_example(registry: Registry) -> None:
    assert 'for example "anthropic/claude-' in message(registry, "anthropic/", UnknownModel)


def test_a_closed_family_lists_what_it_has(registry: Registry) -> None:
    assert message(registry, "local/llama", UnknownModel) == (
        'Local model has no model "llama"; it has local/smollm2-135m'
    )
    assert 'did you mean "tour"' in message(registry, "scripted/tuor", UnknownModel)
    assert message(registry, "scripted/../echo", UnknownModel)


def test_validation_does_not_need_keys(registry: Registry) -> None:
    assert registry.check_model("anthropic/claude-sonnet-4-5") is None
    assert registry.check_model("anthropic/claude-sonnet-4-5-20250929") is None
    assert registry.check_model("openai-compatible/anything/at:all") is None
    assert registry.check_model("local/smollm2-135m") is None
    warning = registry.check_model("anthropic/claude-sonet-4-5")
    assert warning is not None
    assert 'did you mean "claude-sonnet-4-5"' in warning


def test_models_of_a_closed_family_may_be_computed() -> None:
    names = ["a"]
    registry = registry_of(family(models=lambda: names))
    environ = {"STUDIO_ACME_AI_1_API_BASE": "http://h"}
    assert registry.resolve("acme.ai-1/a", environ).model == "a"
    names.append("b")
    assert registry.resolve("acme.ai-1/b", environ).model == "b"
    names.remove("a")
    with pytest.raises(UnknownModel):
        registry.resolve("acme.ai-1/a", environ)


@pytest.mark.parametrize(
    ("model", "key", "variable", "address"),
    [
        ("cloudflare/m", "CLOUDFLARE_API_KEY", "CLOUDFLARE_ACCOUNT_ID", "CLOUDFLARE_API_BASE"),
        ("snowflake/m", "SNOWFLAKE_PAT", "SNOWFLAKE_ACCOUNT_ID", "SNOWFLAKE_API_BASE"),
        ("databricks/m", "DATABRICKS_TOKEN", "DATABRICKS_HOST", "DATABRICKS_API_BASE"),
        ("azure/m", "AZURE_API_KEY", "AZURE_RESOURCE_NAME", "AZURE_API_BASE"),
    ],
)
def test_an_address_that_is_made_of_a_setting_asks_for_the_setting(
    registry: Registry, model: str, key: str, variable: str, address: str
) -> None:
    with pytest.raises(NotConfigured) as caught:
        registry.resolve(model, {key: "x"})
    assert caught.value.variable == variable
    assert f"set {variable} in the server's environment, or {address} to the whole address" in str(
        caught.value
    )


# -- families that break rules --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"id": "Acme"}, "lower-case"),
        ({"id": "a/b"}, "lower-case"),
        ({"id": ""}, "lower-case"),
        ({"id": "other", "wire": "grpc"}, "anthropic_messages, bedrock_converse"),
        ({"id": "acme-ai.1"}, "share the variables STUDIO_ACME_AI_1_*"),
        ({}, "has that id already"),
    ],
)
def test_a_family_that_breaks_a_rule_is_left_out(changes: Mapping[str, t.Any], words: str) -> None:
    registry = registry_of(family(), family(**changes))
    assert list(registry.families) == ["acme.ai-1"]
    assert words in str(registry.manager.report()[0].error)


def test_a_capability_rule_that_raises_claims_nothing() -> None:
    def rule(model: str, row: t.Any) -> Capabilities:
        raise KeyError(model)

    registry = registry_of(family(capabilities=rule))
    resolved = registry.resolve("acme.ai-1/m", {"STUDIO_ACME_AI_1_API_BASE": "http://h"})
    assert resolved.capabilities == Capabilities()
    assert 'capabilities of "acme.ai-1/m": KeyError' in str(registry.manager.report()[0].error)


def test_capabilities_are_cached() -> None:
    asked: list[str] = []

    def rule(model: str, row: t.Any) -> Capabilities:
        asked.append(model)
        return Capabilities()

    registry = registry_of(family(capabilities=rule))
    acme = registry.families["acme.ai-1"]
    assert registry.capabilities(acme, "m") is registry.capabilities(acme, "m")
    assert asked == ["m"]
