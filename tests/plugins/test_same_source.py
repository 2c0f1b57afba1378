"""Emitter, 400 messages, API, page, command line and generated tables read the same object, field for field.

A claim is changed, and everything that is said about the model is looked at again: what does not follow had a
source of its own.
"""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from app import builtins, config
from app.agents.checks import checker
from app.agents.config import AgentConfig
from app.web import capability_table
from app.web.capability_words import cells
from docs._tools import pages_capabilities
from plugins.capabilities import COLUMNS, family_rows, rows
from plugins.hookspecs import hookimpl
from plugins.manager import create_manager
from plugins.registry import Registry
from plugins.spec import Capabilities, ConnectionSpec, ProviderFamily
from providers.auth import NoAuth

BASE = Capabilities(
    thinking="summary",
    thinking_control=("none", "low"),
    tools="parallel",
    structured_output="native",
    inputs=("text", "image"),
    context_window=111_000,
    max_output=22_000,
    price=(3, 4),
    cache_price=(5, 6),
    notes="A note.",
    source="a page",
    sources={"tools": "another page"},
)
#: Another value of each field.
OTHER: Mapping[str, t.Any] = {
    "thinking": "full",
    "thinking_control": ("none", "high"),
    "thinking_signed": True,
    "tools": "serial",
    "forced_tool_choice": False,
    "forced_tool_with_thinking": False,
    "structured_output": "none",
    "inputs": ("text", "pdf"),
    "context_window": 333_000,
    "max_output": 44_000,
    "price": (7, 8),
    "cache_price": (9, 10),
    "usage_in_stream": False,
    "notes": "Another note.",
    "source": "a third page",
    "sources": {"tools": "a fourth page"},
}
#: What the generated tables leave to the page, the API and the command line: figures and flags of single models.
NOT_IN_DOCS = {"thinking_signed", "max_output", "cache_price", "sources"}
#: What no 400 is about.
NOT_REFUSED = {
    "thinking_signed",
    "context_window",
    "max_output",
    "price",
    "cache_price",
    "usage_in_stream",
    "notes",
    "source",
    "sources",
}


def catalogue(claims: Capabilities) -> Registry:
    family = ProviderFamily(
        id="one",
        title="One",
        wire="openai_chat",
        auth=NoAuth(),
        connection=ConnectionSpec(default_base="http://127.0.0.1:9", key_required=False),
        capabilities=lambda model, row: claims,
        known=("m",),
    )

    class Plugin:
        @hookimpl
        def provider_families(self) -> list[ProviderFamily]:
            return [family]

    return Registry(create_manager(False, (*builtins.plugins(config.load({})), Plugin())))


def in_api(made: Registry) -> t.Any:
    return capability_table.answer(rows(made, "one", environ=None), family_rows(made, "one"))


def on_page(made: Registry) -> t.Any:
    (row,) = rows(made, "one", environ=None)
    return cells(row)


def in_docs(made: Registry, monkeypatch: pytest.MonkeyPatch) -> t.Any:
    monkeypatch.setattr(pages_capabilities, "registry", lambda: made)
    return pages_capabilities.page(), pages_capabilities.agent_models()


def refusals(made: Registry) -> t.Any:
    check = checker(made.capabilities_of)
    asked: list[dict[str, t.Any]] = [
        {"thinking": "low"},
        {"thinking": "high"},
        {"tools": ["clock"]},
        {"tools": ["clock"], "tool_choice": "required"},
        {"tools": ["clock"], "tool_choice": "required", "thinking": "low"},
        {"response_format": {"type": "object"}},
        {"files": [{"data": "data:application/pdf;base64,JVBERi0xLjQK"}]},
    ]
    return [check(AgentConfig(model="one/m", **config)) for config in asked]


def changed(field: str) -> Capabilities:
    # Only two values of two fields are refused at all.
    value = {"tools": "none", "thinking": "none"}.get(field, OTHER[field])
    return replace(BASE, **{field: value})


def test_every_field_is_known_here() -> None:
    names = {field.name for field in dataclasses.fields(Capabilities)}
    assert set(OTHER) == set(COLUMNS) == names
    assert all(OTHER[name] != getattr(BASE, name) for name in names)


@pytest.mark.parametrize("field", OTHER)
@pytest.mark.parametrize("look", [in_api, on_page], ids=["api", "page"])
def test_api_and_page_follow_every_field(field: str, look: Callable[[Registry], t.Any]) -> None:
    assert look(catalogue(replace(BASE, **{field: OTHER[field]}))) != look(catalogue(BASE))
    assert look(catalogue(replace(BASE))) == look(catalogue(BASE))


@pytest.mark.parametrize("field", OTHER)
def test_generated_tables_follow_what_they_show(field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = in_docs(catalogue(BASE), monkeypatch)
    after = in_docs(catalogue(replace(BASE, **{field: OTHER[field]})), monkeypatch)
    assert (before == after) is (field in NOT_IN_DOCS)


@pytest.mark.parametrize("field", OTHER)
def test_refusals_follow_what_they_are_about(field: str) -> None:
    before, after = refusals(catalogue(BASE)), refusals(catalogue(changed(field)))
    assert (before == after) is (field in NOT_REFUSED)


def test_the_runtime_obeys_the_very_object() -> None:
    made = catalogue(BASE)
    resolved = made.resolve("one/m", {})
    assert resolved.capabilities is BASE
    assert made.capabilities_of("one/m") is BASE
    assert made.capabilities(made.families["one"], "m") is BASE
