"""What the family says of Bedrock's models, and where and as whom they are called."""

from __future__ import annotations

import typing as t

import pytest

from plugins import model_map
from plugins.connections import NotConfigured, Variables, connect
from plugins.families.bedrock import FAMILY, KNOWN, capabilities, dialect
from plugins.spec import Capabilities
from plugins.wires import load_wire
from providers import spec

KEYS = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret"}
HERE = {"AWS_REGION": "eu-west-1"}
PROFILE = "arn:aws:bedrock:us-east-1:123456789012:inference-profile/"


def claimed(model: str) -> Capabilities:
    """What the family claims, with the registry's row."""
    return capabilities(model, model_map.lookup(None, FAMILY.registry_providers, model))


def connection(**environ: str) -> spec.Connection:
    """The connection that an environment makes."""
    return connect(FAMILY, Variables(FAMILY), environ)


class TestModels:
    def test_all_listed_ones_are_in_the_registry(self) -> None:
        missing = [m for m in KNOWN if model_map.lookup(None, FAMILY.registry_providers, m) is None]
        assert missing == []
        assert len(set(KNOWN)) == len(KNOWN)

    @pytest.mark.parametrize(
        ("model", "thinking", "levels"),
        [
            ("us.anthropic.claude-sonnet-4-20250514-v1:0", "summary", {"none", "low", "high", "budget"}),
            ("global.anthropic.claude-opus-5-5", "summary", {"low", "max"}),
            ("anthropic.claude-3-5-sonnet-20240620-v1:0", "none", set()),
            ("eu.amazon.nova-pro-v1:0", "none", set()),
            ("us.amazon.nova-2-lite-v1:0", "hidden", {"none", "low", "medium", "high"}),
            ("openai.gpt-oss-120b-1:0", "full", {"low", "medium", "high"}),
            ("us.openai.gpt-6-sol", "hidden", set()),
            ("us.deepseek.r1-v1:0", "full", set()),
            ("deepseek.v3.2", "hidden", set()),
            ("moonshot.kimi-k2-thinking", "hidden", set()),
            ("us.meta.llama4-scout-17b-instruct-v1:0", "none", set()),
            ("arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/ab12", "hidden", set()),
        ],
    )
    def test_thinking(self, model: str, thinking: str, levels: set[str]) -> None:
        found = claimed(model)
        assert found.thinking == thinking
        assert levels <= set(found.thinking_control)
        assert bool(levels) == bool(found.thinking_control)
        assert found.source

    @pytest.mark.parametrize("geography", ["", "us.", "eu.", "apac.", "global.", "us-gov.", PROFILE + "us."])
    def test_a_geography_or_an_arn_changes_nothing(self, geography: str) -> None:
        plain = "anthropic.claude-sonnet-4-5-20250929-v1:0"
        assert capabilities(geography + plain, None) == capabilities(plain, None)
        assert dialect(geography + plain) == dialect(plain)

    def test_what_is_asked_of_whom(self) -> None:
        styles = {
            "us.anthropic.claude-opus-4-5-20251101-v1:0": "budget",
            "us.anthropic.claude-opus-4-6-v1": "adaptive",
            "us.amazon.nova-2-lite-v1:0": "nova",
            "us.amazon.nova-lite-v1:0": "never",
            "openai.gpt-oss-20b-1:0": "effort",
        }
        assert {model: dialect(model)["thinking"] for model in styles} == styles
        for silent in ("us.deepseek.r1-v1:0", "deepseek.v3.2", "us.openai.gpt-6-sol", "us.xai.grok-4.7", "x"):
            assert "thinking" not in dialect(silent)

    @pytest.mark.parametrize("model", KNOWN)
    def test_no_level_is_claimed_that_is_not_sent(self, model: str) -> None:
        asked = dialect(model).get("thinking", "never") != "never"
        assert asked == bool(claimed(model).thinking_control)

    def test_tools_that_do_not_stream_are_no_tools(self) -> None:
        assert claimed("us.meta.llama3-3-70b-instruct-v1:0").tools == "none"
        assert claimed("mistral.mistral-large-2407-v1:0").tools == "none"
        assert claimed("us.meta.llama4-scout-17b-instruct-v1:0").tools == "parallel"
        assert claimed("us.amazon.nova-pro-v1:0").tools == "parallel"

    def test_schemas(self) -> None:
        assert claimed("us.anthropic.claude-sonnet-4-5-20250929-v1:0").structured_output == "native"
        assert claimed("us.anthropic.claude-sonnet-4-20250514-v1:0").structured_output == "tool"
        assert claimed("qwen.qwen3-32b-v1:0").structured_output == "native"
        assert claimed("us.amazon.nova-pro-v1:0").structured_output == "tool"

    def test_prices_are_the_registrys(self) -> None:
        found = claimed("us.anthropic.claude-sonnet-4-5-20250929-v1:0")
        assert found.price == (3.3, 16.5)
        assert found.sources["price"].startswith("model registry")

    def test_cache_points_only_where_the_vendor_has_them(self) -> None:
        assert "tools" in dialect("us.anthropic.claude-sonnet-4-6")["cache_points"]
        assert dialect("us.amazon.nova-pro-v1:0")["cache_points"] == ("system", "messages")
        for model in ("anthropic.claude-3-5-sonnet-20240620-v1:0", "qwen.qwen3-32b-v1:0"):
            assert "cache_points" not in dialect(model)


class TestConnection:
    @pytest.mark.parametrize(
        ("region", "base"),
        [
            ("us-east-1", "https://bedrock-runtime.us-east-1.amazonaws.com"),
            ("us-gov-west-1", "https://bedrock-runtime.us-gov-west-1.amazonaws.com"),
            ("cn-north-1", "https://bedrock-runtime.cn-north-1.amazonaws.com.cn"),
            ("eusc-de-east-1", "https://bedrock-runtime.eusc-de-east-1.amazonaws.eu"),
        ],
    )
    def test_address_by_region(self, region: str, base: str) -> None:
        assert connection(**KEYS, AWS_REGION=region).base_url == base

    @pytest.mark.parametrize("variable", ["AWS_REGION", "AWS_REGION_NAME", "AWS_DEFAULT_REGION"])
    def test_region(self, variable: str) -> None:
        assert connection(**KEYS, **{variable: "eu-west-1"}).options == {"region": "eu-west-1"}

    @pytest.mark.parametrize("variable", ["STUDIO_BEDROCK_API_BASE", "AWS_BEDROCK_RUNTIME_ENDPOINT"])
    def test_own_address(self, variable: str) -> None:
        made = connection(**KEYS, **HERE, **{variable: "http://127.0.0.1:9/"})
        assert made.base_url == "http://127.0.0.1:9"

    @pytest.mark.parametrize(
        ("environ", "variable"),
        [
            (KEYS, "AWS_REGION"),
            ({**KEYS, "AWS_REGION": "evil.example/"}, "AWS_REGION"),
            (HERE, "AWS_ACCESS_KEY_ID"),
            ({**HERE, "STUDIO_BEDROCK_CHAIN": "0"}, "AWS_ACCESS_KEY_ID"),
            ({**HERE, "AWS_ACCESS_KEY_ID": "a"}, "AWS_SECRET_ACCESS_KEY"),
            ({**HERE, "AWS_SECRET_ACCESS_KEY": "s"}, "AWS_ACCESS_KEY_ID"),
        ],
    )
    def test_what_is_missing_is_named(self, environ: dict[str, str], variable: str) -> None:
        with pytest.raises(NotConfigured) as caught:
            connection(**environ)
        assert caught.value.variable == variable
        assert variable in caught.value.message

    @pytest.mark.parametrize(
        "environ",
        [
            {"AWS_PROFILE": "work place"},
            {"AWS_WEB_IDENTITY_TOKEN_FILE": "/var/run/token"},
            {"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/v2/credentials/1"},
            {"STUDIO_BEDROCK_CHAIN": "1"},
            {"AWS_BEARER_TOKEN_BEDROCK": "token"},
            KEYS,
        ],
    )
    def test_one_kind_of_credentials_is_enough(self, environ: dict[str, str]) -> None:
        made = connection(**HERE, **environ)
        assert set(environ.values()) <= set(made.credentials.values())
        assert made.options == {"region": "eu-west-1"}  # nothing secret among the options


def headers(connection: spec.Connection) -> dict[str, str]:
    """The headers of a request as it would be sent."""
    sent = spec.HttpRequest("POST", f"{connection.base_url}/model/m/converse-stream", {}, b"{}")
    connection.auth.apply(sent, {**connection.options, **connection.credentials})
    return sent.headers


class TestCredentials:
    def test_a_bearer_token_comes_first(self) -> None:
        made = connection(**HERE, **KEYS, AWS_BEARER_TOKEN_BEDROCK="token")
        assert headers(made) == {"Authorization": "Bearer token"}

    def test_keys_sign(self) -> None:
        made = headers(connection(**HERE, **KEYS, AWS_SESSION_TOKEN="temporary", AWS_PROFILE="work"))
        assert made["Authorization"].startswith("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/")
        assert "/eu-west-1/bedrock/aws4_request" in made["Authorization"]
        assert made["X-Amz-Security-Token"] == "temporary"

    def test_the_chain_has_to_be_asked_first(self) -> None:
        made = connection(**HERE, AWS_PROFILE="work")
        assert isinstance(made.auth, spec.FetchingAuth)
        with pytest.raises(spec.ProviderError) as caught:
            headers(made)
        assert caught.value.code == "provider_auth"


def test_wires() -> None:
    for name in (t.cast(str, FAMILY.wire), *FAMILY.other_wires):
        assert load_wire(name).name == name
