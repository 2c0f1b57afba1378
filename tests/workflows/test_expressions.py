"""Expressions are judged when a document is saved, whether they have their braces or not."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Mapping

import pytest

from app import builtins, config
from app.engine.recompiled import compiled
from app.errors import ValidationFailed
from plugins.registry import Registry
from tests.workflows.kit import START_BLOCK

#: Where each field that holds an expression is: (type, its config, path in the config).
FIELDS: list[tuple[str, Callable[[str], dict[str, t.Any]], str]] = [
    ("condition", lambda text: {"expression": text}, "expression"),
    ("loop", lambda text: {"kind": "while", "condition": text}, "condition"),
    ("loop", lambda text: {"kind": "for", "times": text}, "times"),
    ("loop", lambda text: {"kind": "for_each", "items": text}, "items"),
    ("parallel", lambda text: {"items": text}, "items"),
    (
        "router",
        lambda text: {"mode": "expression", "routes": [{"name": "a", "when": text}, {"name": "b"}]},
        "routes[0].when",
    ),
]
LEAVES = {"condition": "true", "loop": "loop", "parallel": "loop", "router": "route:a"}
fields = pytest.mark.parametrize(
    ("kind", "made", "place"), FIELDS, ids=[f"{kind}-{place}" for kind, _, place in FIELDS]
)
braces = pytest.mark.parametrize("braces", ["{}", "{{{{ {} }}}}"], ids=["bare", "braces"])


@pytest.fixture(scope="module")
def plugins() -> Registry:
    return builtins.registry(config.load({}), "0")


def document(kind: str, settings: Mapping[str, t.Any]) -> dict[str, t.Any]:
    return {
        "blocks": [
            START_BLOCK,
            {"id": "choose", "type": kind, "config": settings},
            {"id": "then", "type": "set", "config": {"values": {"x": 1}}},
        ],
        "edges": [
            {"source": "start", "target": "choose"},
            {"source": "choose", "target": "then", "source_handle": LEAVES[kind]},
        ],
    }


@fields
@braces
@pytest.mark.parametrize(
    ("text", "cure"),
    [
        ("input.x ==", "template syntax"),
        ("input.x | uper", 'Did you mean "upper"'),
        ("secrets.KEY", "only be used in headers"),
    ],
)
def test_a_wrong_expression_is_refused(
    plugins: Registry, kind: str, made: t.Any, place: str, braces: str, text: str, cure: str
) -> None:
    with pytest.raises(ValidationFailed) as failed:
        compiled(document(kind, made(braces.format(text))), plugins)
    assert [(d.path, cure in d.message) for d in failed.value.details] == [
        (f"blocks[1].config.{place}", True)
    ]


@fields
@braces
def test_a_block_that_is_not_there_is_a_warning(
    plugins: Registry, kind: str, made: t.Any, place: str, braces: str
) -> None:
    found = compiled(document(kind, made(braces.format("blocks.thenn.x"))), plugins)
    (warning,) = found.warnings
    assert warning.path == f"blocks[1].config.{place}"
    assert 'there is no block "thenn"' in warning.message
    assert 'Did you mean "then"?' in warning.message


@fields
@braces
def test_a_right_expression_is_neither(
    plugins: Registry, kind: str, made: t.Any, place: str, braces: str
) -> None:
    assert compiled(document(kind, made(braces.format("blocks.then.x or input.y"))), plugins).warnings == ()


def test_a_route_that_is_not_spelled_as_a_handle_is_told_how(plugins: Registry) -> None:
    routed = document("router", {"mode": "expression", "routes": [{"name": "a"}]})
    routed["edges"][1]["source_handle"] = "a"
    with pytest.raises(ValidationFailed) as failed:
        compiled(routed, plugins)
    assert [d.message for d in failed.value.details] == [
        '"a" is no handle of the type router. There are: route:<name>, error.'
    ]
