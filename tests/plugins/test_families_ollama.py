"""``ollama``: its addresses, its two wires, what a name tells."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from app import builtins, config
from plugins.connections import NotConfigured
from plugins.families.ollama import address
from plugins.manager import create_manager
from plugins.registry import Registry
from providers.http import HttpWire
from tests.providers.driving import request


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return Registry(create_manager(False, builtins.plugins(config.load({"STUDIO_DATA_DIR": str(tmp_path)}))))


def sent(registry: Registry, env: dict[str, str], **asked: t.Any) -> tuple[str, dict[str, str], t.Any]:
    """Address, headers and body of one call."""
    resolved = registry.resolve("ollama/qwen3", env)
    assert isinstance(resolved.wire, HttpWire)
    http = resolved.wire.build(request(dialect=resolved.dialect, **asked), resolved.connection)
    resolved.connection.auth.apply(http, resolved.connection.credentials)
    return http.url, http.headers, json.loads(http.body)


def test_a_server_on_this_machine_needs_nothing(registry: Registry) -> None:
    url, headers, _ = sent(registry, {})
    assert url == "http://127.0.0.1:11434/api/chat"
    assert "Authorization" not in headers


@pytest.mark.parametrize(
    ("env", "url"),
    [
        ({"OLLAMA_API_BASE": "http://box:1234"}, "http://box:1234/api/chat"),
        ({"OLLAMA_API_BASE": "http://box:1234/v1"}, "http://box:1234/api/chat"),
        ({"OLLAMA_HOST": "0.0.0.0"}, "http://127.0.0.1:11434/api/chat"),
        ({"OLLAMA_HOST": "box:80"}, "http://box:80/api/chat"),
        ({"STUDIO_OLLAMA_API_BASE": "https://ollama.com"}, "https://ollama.com/api/chat"),
        (
            {"STUDIO_OLLAMA_WIRE": "openai_chat", "OLLAMA_HOST": "box"},
            "http://box:11434/v1/chat/completions",
        ),
        (
            {"STUDIO_OLLAMA_WIRE": "openai_chat", "OLLAMA_API_BASE": "http://box/v1"},
            "http://box/v1/chat/completions",
        ),
    ],
)
def test_addresses(registry: Registry, env: dict[str, str], url: str) -> None:
    assert sent(registry, env)[0] == url


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("box", "http://box:11434"),
        (":8080", "http://127.0.0.1:8080"),
        ("[::1]:99", "http://[::1]:99"),
        ("box:80/ollama", "http://box:80/ollama"),
        ("https://box", "https://box"),
        ("box:x", "box:x"),
    ],
)
def test_the_servers_own_variable(given: str, read: str) -> None:
    assert address(given) == read


def test_a_host_that_is_none_names_the_variable(registry: Registry) -> None:
    with pytest.raises(NotConfigured) as caught:
        registry.resolve("ollama/qwen3", {"OLLAMA_HOST": "box:x"})
    assert caught.value.variable == "OLLAMA_HOST"


def test_key_and_context(registry: Registry) -> None:
    env = {"OLLAMA_API_KEY": "k", "OLLAMA_CONTEXT_LENGTH": "8192"}
    _, headers, body = sent(registry, env)
    assert headers["Authorization"] == "Bearer k"
    assert body["options"] == {"num_ctx": 8192}


def test_nobody_is_asked_to_think_without_a_level(registry: Registry) -> None:
    """A model that cannot think refuses to be asked; one that can does so by itself."""
    assert "think" not in sent(registry, {}, show_thinking=True)[2]
    other = {"STUDIO_OLLAMA_WIRE": "openai_chat"}
    assert "reasoning_effort" not in sent(registry, other, show_thinking=True)[2]
    assert sent(registry, {}, thinking="low")[2]["think"] == "low"
    assert sent(registry, other, thinking="low")[2]["reasoning_effort"] == "low"


@pytest.mark.parametrize(
    ("model", "thinking", "tools", "inputs"),
    [
        ("llama3", "none", "none", ("text",)),
        ("llama3.1:8b", "none", "parallel", ("text",)),
        ("llama3.2-vision", "none", "parallel", ("text", "image")),
        ("qwen2.5vl:7b", "none", "parallel", ("text", "image")),
        ("minicpm-v4.5", "full", "parallel", ("text", "image")),
        ("gemma3:1b", "none", "none", ("text",)),
        ("hf.co/somebody/Own-GGUF:Q4_K_M", "full", "parallel", ("text", "image")),
        ("qwen3.6:latest", "full", "parallel", ("text", "image")),
        ("qwen3:4b-instruct", "none", "parallel", ("text",)),
        ("qwen2.5-coder:7b", "none", "parallel", ("text",)),
        ("gemma3:4b", "none", "none", ("text", "image")),
        ("deepseek-r1:8b", "full", "parallel", ("text",)),
        ("phi4", "none", "parallel", ("text",)),
        ("phi4-reasoning", "full", "parallel", ("text",)),
        ("me/own:q4", "full", "parallel", ("text", "image")),
    ],
)
def test_what_a_name_tells(
    registry: Registry, model: str, thinking: str, tools: str, inputs: tuple[str, ...]
) -> None:
    can = registry.capabilities_of(f"ollama/{model}")
    assert (can.thinking, can.tools, can.inputs) == (thinking, tools, inputs)
    assert can.forced_tool_choice is False
    assert (can.thinking_control == ()) == (thinking == "none")


def test_levels_and_prices(registry: Registry) -> None:
    gpt_oss = registry.capabilities_of("ollama/gpt-oss:20b")
    assert gpt_oss.thinking_control == ("low", "medium", "high", "auto")
    assert gpt_oss.price == (0.0, 0.0)
    assert registry.capabilities_of("ollama/gpt-oss:120b-cloud").price is None
