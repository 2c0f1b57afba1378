"""What a Claude model's name says of it, and what the registry adds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plugins import model_map
from plugins.claude_models import claude_capabilities, claude_dialect
from plugins.families import anthropic
from plugins.spec import Row
from providers.anthropic_request import build_body
from providers.spec import ModelRequest, UserMessage

#: model, exposure, style, off, signed, max output, price
GENERATIONS = [
    ("claude-3-haiku-20240307", "none", "never", "omit", False, 4_096, (0.25, 1.25)),
    ("claude-3-opus-20240229", "none", "never", "omit", False, 4_096, (15, 75)),
    ("claude-3-5-sonnet-20241022", "none", "never", "omit", False, 8_192, (3, 15)),
    ("claude-3-5-haiku-latest", "none", "never", "omit", False, 8_192, (0.8, 4)),
    ("claude-3-7-sonnet-20250219", "full", "budget", "omit", True, 64_000, (3, 15)),
    ("claude-sonnet-4-20250514", "summary", "budget", "omit", True, 64_000, (3, 15)),
    ("claude-opus-4-1-20250805", "summary", "budget", "omit", True, 32_000, (15, 75)),
    ("claude-opus-4-5-20251101", "summary", "budget", "omit", True, 64_000, (5, 25)),
    ("claude-haiku-4-5-20251001", "summary", "budget", "omit", True, 64_000, (1, 5)),
    ("claude-sonnet-4-6", "summary", "adaptive", "omit", True, 64_000, (3, 15)),
    ("claude-opus-4-6", "summary", "adaptive", "omit", True, 128_000, (5, 25)),
    ("claude-opus-4-8", "summary", "adaptive", "omit", True, 128_000, (5, 25)),
    ("claude-sonnet-5", "summary", "adaptive", "disabled", True, 128_000, (2, 10)),
    ("claude-opus-5", "summary", "adaptive", "disabled", True, 128_000, (5, 25)),
    ("claude-sonnet-5-5", "summary", "adaptive", "between_tools", True, 128_000, (2, 10)),
    ("claude-opus-5-5", "summary", "adaptive", "never", True, 128_000, (4, 20)),
    ("claude-haiku-5-5", "summary", "adaptive", "disabled", True, 128_000, (0.1, 0.5)),
    ("claude-fable-5", "summary", "adaptive", "never", True, 128_000, (10, 50)),
]


@pytest.mark.parametrize(
    ("model", "exposed", "style", "off", "signed", "most", "price"),
    GENERATIONS,
    ids=[g[0] for g in GENERATIONS],
)
def test_anthropic_generations(
    model: str, exposed: str, style: str, off: str, signed: bool, most: int, price: tuple[float, float]
) -> None:
    claims = claude_capabilities(model, None)
    assert (claims.thinking, claims.thinking_signed, claims.max_output) == (exposed, signed, most)
    assert claims.price == price
    assert claims.forced_tool_with_thinking is (style == "never")
    assert claims.source
    dialect = claude_dialect(model)
    assert (dialect["thinking"], dialect["thinking_off"]) == (style, off)
    assert ("budget" in claims.thinking_control) is (style == "budget")
    assert ("none" in claims.thinking_control) is (style != "never" and off != "never")


def test_a_level_leaves_room_for_the_answer() -> None:
    for model in anthropic.KNOWN:
        if claude_dialect(model)["thinking"] == "budget":
            claims = claude_capabilities(model, None)
            for level in set(claims.thinking_control) - {"none", "budget"}:
                request = ModelRequest(model, [UserMessage("q")], lambda: "id", thinking=level)
                body = build_body(replace(request, dialect=claude_dialect(model)))
                assert body["max_tokens"] <= (claims.max_output or 0)


def test_xhigh_came_with_4_7() -> None:
    assert "xhigh" not in claude_capabilities("claude-opus-4-6", None).thinking_control
    assert "xhigh" in claude_capabilities("claude-opus-4-7", None).thinking_control


@pytest.mark.parametrize("model", ["claude-next", "claude-mythos-preview", "x"])
def test_an_unknown_claude_promises_no_size_and_no_price(model: str) -> None:
    claims = claude_capabilities(model, None)
    assert (claims.context_window, claims.max_output, claims.price) == (None, None, None)
    assert claude_dialect(model)["thinking"] == "adaptive"


def test_every_listed_claude_is_recognised() -> None:
    for model in anthropic.KNOWN:
        row = model_map.lookup("anthropic", ("anthropic",), model)
        claims = anthropic.capabilities(model, row)
        assert claims.price is not None
        assert claims.context_window is not None
        assert "image" in claims.inputs


@pytest.mark.parametrize(
    "name",
    ["claude-opus-4-1@20250805", "us.anthropic.claude-opus-4-1-20250805-v1:0", "anthropic/claude-opus-4-1"],
)
def test_hosts_spell_names_their_own_way(name: str) -> None:
    plain = claude_capabilities("claude-opus-4-1", None)
    assert claude_capabilities(name, None) == plain
    assert claude_dialect(name) == claude_dialect("claude-opus-4-1")


def test_the_registry_knows_prices_and_the_rule_knows_thinking() -> None:
    row = Row(
        max_input_tokens=7,
        max_output_tokens=5,
        input_cost_per_token=1e-6,
        output_cost_per_token=2e-6,
        supports_reasoning=False,
        supports_pdf_input=False,
        supports_vision=True,
    )
    claims = claude_capabilities("claude-opus-4-1", row)
    assert (claims.context_window, claims.max_output, claims.price) == (7, 5, (1.0, 2.0))
    assert claims.inputs == ("text", "image")
    assert claims.thinking == "summary"
    assert "registry" in claims.sources["price"]


def test_the_vendors_own_sizes_and_prices_are_sourced_as_such() -> None:
    claims = claude_capabilities("claude-opus-4-8", None)
    assert claims.price is not None
    assert not {"price", "context_window", "max_output", "inputs"} & set(claims.sources)
    assert "pricing" in claims.source
