"""``cohere``: what it resolves to, what it claims, and that it sends what it claims."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from app import builtins, config
from plugins.connections import NotConfigured
from plugins.families import cohere
from plugins.manager import create_manager
from plugins.registry import Registry
from providers import spec
from providers.http import HttpWire
from tests.providers.driving import request, tools


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return Registry(create_manager(False, builtins.plugins(config.load({"STUDIO_DATA_DIR": str(tmp_path)}))))


def sent(registry: Registry, model: str, env: dict[str, str], **asked: t.Any) -> spec.HttpRequest:
    """The authenticated request of one call."""
    resolved = registry.resolve(f"cohere/{model}", env)
    assert isinstance(resolved.wire, HttpWire)
    http = resolved.wire.build(
        request(model=resolved.model, dialect=resolved.dialect, **asked), resolved.connection
    )
    resolved.connection.auth.apply(http, resolved.connection.credentials)
    return http


@pytest.mark.parametrize("variable", ["STUDIO_COHERE_API_KEY", "COHERE_API_KEY", "CO_API_KEY"])
def test_a_call(registry: Registry, variable: str) -> None:
    http = sent(registry, "command-a-03-2025", {variable: "k"})
    assert http.url == "https://api.cohere.com/v2/chat"
    assert http.headers["Authorization"] == "Bearer k"


@pytest.mark.parametrize("base", ["http://h", "http://h/", "http://h/v1", "http://h/v2", "http://h/v2/chat"])
def test_a_base_of_ones_own(registry: Registry, base: str) -> None:
    env = {"COHERE_API_KEY": "k", "COHERE_API_BASE": base}
    assert sent(registry, "command-a-03-2025", env).url == "http://h/v2/chat"


def test_a_missing_key(registry: Registry) -> None:
    with pytest.raises(NotConfigured) as caught:
        registry.resolve("cohere/command-a-03-2025", {})
    assert caught.value.variable == "COHERE_API_KEY"


@pytest.mark.parametrize("model", [*cohere.KNOWN, "command-z-2030"])
def test_a_model_is_asked_for_no_more_than_it_claims(registry: Registry, model: str) -> None:
    """``tool_choice``, a plan, a level: each goes out exactly where the table says that the model takes it."""
    can = registry.capabilities_of(f"cohere/{model}")
    called = spec.AssistantMessage(
        "", (spec.ToolCall("c", "a", {}, "{}"),), {"tool_plan": "P"}, "cohere_chat"
    )
    body = json.loads(
        sent(
            registry,
            model,
            {"COHERE_API_KEY": "k"},
            messages=[called, spec.ToolResult("c", "a", "1")],
            tools=tools("a"),
            tool_choice="required",
            thinking=2000,
        ).body
    )
    assert ("tool_choice" in body) == can.forced_tool_choice
    assert ("thinking" in body) == ("budget" in can.thinking_control)
    if "thinking" in body:  # models that think refuse a plan
        assert "tool_plan" not in body["messages"][0]


def test_what_models_are(registry: Registry) -> None:
    def can(model: str) -> t.Any:
        return registry.capabilities_of(f"cohere/{model}")

    assert can("command-a-reasoning-08-2025").thinking == "full"
    assert can("command-a-03-2025").thinking == "full"  # its plan
    assert can("command-a-03-2025").thinking_control == ()
    assert can("command-a-03-2025").price == (2.5, 10.0)
    assert can("command-a-vision-07-2025").tools == "none"
    assert can("command-a-plus-05-2026").inputs == ("text", "image")
    unknown = can("command-z-2030")
    assert (unknown.thinking, unknown.tools, unknown.forced_tool_choice) == ("full", "parallel", False)
    assert "Not in the vendor's list" in unknown.notes
