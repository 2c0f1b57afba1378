"""The table everybody reads, and the facts behind it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from app import builtins, config
from app.encoding import dumps, loads
from plugins.capabilities import COLUMNS, rows
from plugins.manager import create_manager
from plugins.registry import Registry
from plugins.spec import Capabilities


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


def test_a_script_describes_itself(tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text("turns: 5")
    (tmp_path / "bare.yaml").write_text("turns: [{steps: [{text: a}]}]")
    settings = config.load({"STUDIO_DATA_DIR": str(tmp_path), "STUDIO_SCRIPTS_DIR": str(tmp_path)})
    registry = Registry(create_manager(False, builtins.plugins(settings)))
    notes = {row["model"]: row["notes"] for row in rows(registry, "scripted", environ=None)}
    assert notes["echo"] == "Says the user's message back, word by word."
    assert notes["bare"] == "A script; no model runs."
    assert "turns: must be a list" in notes["broken"]
