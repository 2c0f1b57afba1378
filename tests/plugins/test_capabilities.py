"""The table everybody reads, and the facts behind it."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from pathlib import Path

import pytest

from app import builtins, config
from app.encoding import dumps, loads
from plugins.capabilities import COLUMNS, rows
from plugins.families import anthropic
from plugins.manager import create_manager
from plugins.registry import Registry
from plugins.spec import Capabilities
from providers.anthropic_request import build_body
from providers.spec import ModelRequest, UserMessage


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return Registry(create_manager(False, builtins.plugins(config.load({"STUDIO_DATA_DIR": str(tmp_path)}))))


def test_every_field_is_a_column() -> None:
    assert list(COLUMNS) == [field.name for field in dataclasses.fields(Capabilities)]


def test_one_row_per_model(registry: Registry) -> None:
    table = rows(registry, environ={})
    ids = [row["id"] for row in table]
    assert len(ids) == len(set(ids))
    assert "openai-compatible/*" in ids
    assert "local/smollm2-135m" in ids
    assert "scripted/tour" in ids
    assert "anthropic/claude-sonnet-4-5" in ids
    assert loads(dumps(table)) == table


def test_a_row_says_what_the_runtime_obeys(registry: Registry) -> None:
    (row,) = rows(registry, model="anthropic/claude-sonnet-4-5", environ={"ANTHROPIC_API_KEY": "k"})
    obeyed = registry.resolve("anthropic/claude-sonnet-4-5", {"ANTHROPIC_API_KEY": "k"}).capabilities
    assert row == {
        "id": "anthropic/claude-sonnet-4-5",
        "family": "anthropic",
        "title": "Anthropic",
        "model": "claude-sonnet-4-5",
        "thinking": "summary",
        "thinkingControl": list(obeyed.thinking_control),
        "thinkingSigned": True,
        "tools": "parallel",
        "forcedToolChoice": True,
        "forcedToolWithThinking": False,
        "structuredOutput": obeyed.structured_output,
        "inputs": list(obeyed.inputs),
        "contextWindow": 200_000,
        "maxOutput": 64_000,
        "price": {"input": 3, "output": 15, "currency": "USD", "per": 1_000_000},
        "cachePrice": _cache_price(obeyed),
        "usageInStream": True,
        "notes": obeyed.notes,
        "source": obeyed.source,
        "sources": {COLUMNS[claim]: source for claim, source in obeyed.sources.items()},
        "configured": True,
    }


def _cache_price(claims: Capabilities) -> object:
    if claims.cache_price is None:
        return None
    read, write = claims.cache_price
    return {"read": read, "write": write, "currency": "USD", "per": 1_000_000}


def test_filters(registry: Registry) -> None:
    assert {row["family"] for row in rows(registry, family="scripted")} == {"scripted"}
    assert [row["id"] for row in rows(registry, "openai-compatible", "x")] == ["openai-compatible/x"]
    assert rows(registry, "scripted", "x") == []
    assert rows(registry, "nobody") == []
    assert {row["configured"] for row in rows(registry, "anthropic", environ={})} == {False}
    assert all("configured" not in row for row in rows(registry, environ=None))


#: model, exposure, style, off, signed, max output, price
GENERATIONS = [
    ("claude-3-haiku-20240307", "none", "none", "omit", False, 4_096, (0.25, 1.25)),
    ("claude-3-opus-20240229", "none", "none", "omit", False, 4_096, (15, 75)),
    ("claude-3-5-sonnet-20241022", "none", "none", "omit", False, 8_192, (3, 15)),
    ("claude-3-5-haiku-latest", "none", "none", "omit", False, 8_192, (0.8, 4)),
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
    claims = anthropic.capabilities(model, None)
    assert (claims.thinking, claims.thinking_signed, claims.max_output) == (exposed, signed, most)
    assert claims.price == price
    assert claims.forced_tool_with_thinking is (style == "none")
    assert claims.source
    dialect = anthropic.dialect(model)
    assert (dialect["thinking_style"], dialect["thinking_off"]) == (style, off)
    assert ("budget" in claims.thinking_control) is (style == "budget")
    assert ("none" in claims.thinking_control) is (style != "none" and off != "never")


def test_a_level_leaves_room_for_the_answer() -> None:
    for model in anthropic.KNOWN:
        if anthropic.dialect(model)["thinking_style"] == "budget":
            claims = anthropic.capabilities(model, None)
            for level in set(claims.thinking_control) - {"none", "budget"}:
                request = ModelRequest(model, [UserMessage("q")], lambda: "id", thinking=level)
                body = build_body(replace(request, dialect=anthropic.dialect(model)))
                assert body["max_tokens"] <= (claims.max_output or 0)


def test_xhigh_came_with_4_7() -> None:
    assert "xhigh" not in anthropic.capabilities("claude-opus-4-6", None).thinking_control
    assert "xhigh" in anthropic.capabilities("claude-opus-4-7", None).thinking_control


@pytest.mark.parametrize("model", ["claude-next", "claude-mythos-preview", "x"])
def test_an_unknown_claude_promises_no_size_and_no_price(model: str) -> None:
    claims = anthropic.capabilities(model, None)
    assert (claims.context_window, claims.max_output, claims.price) == (None, None, None)
    assert anthropic.dialect(model)["thinking_style"] == "adaptive"


def test_every_listed_claude_is_recognised() -> None:
    for model in anthropic.KNOWN:
        assert anthropic.capabilities(model, None).price is not None


def test_a_script_describes_itself(tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text("turns: 5")
    (tmp_path / "bare.yaml").write_text("turns: [{steps: [{text: a}]}]")
    settings = config.load({"STUDIO_DATA_DIR": str(tmp_path), "STUDIO_SCRIPTS_DIR": str(tmp_path)})
    registry = Registry(create_manager(False, builtins.plugins(settings)))
    notes = {row["model"]: row["notes"] for row in rows(registry, "scripted", environ=None)}
    assert notes["echo"] == "Says the user's message back, word by word."
    assert notes["bare"] == "A script; no model runs."
    assert "turns: must be a list" in notes["broken"]
