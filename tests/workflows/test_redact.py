"""Redaction policies in documents: checked, and the strictest of those that hold for a block."""

from __future__ import annotations

import typing as t
from dataclasses import replace

import pytest

from app.blocks.debate import DEBATE
from app.redaction.policy import PARTS, Policy
from app.workflows.compiled import Pinned
from app.workflows.redact import block_policy, whole_policy
from app.workflows.validation import compile_document
from plugins.spec.blocks import BlockType
from tests.workflows.kit import TOOLS, TYPES, agent, chain, check_model, compiled, told

KNOWN = frozenset({"email", "card"})
START = {"id": "start", "type": "start"}


def settings(**redact: t.Any) -> dict[str, t.Any]:
    return {"settings": {"redact": redact}}


@pytest.mark.parametrize("where", ["settings", "agent"])
def test_detectors_have_to_be_there(where: str) -> None:
    redact = {"detectors": ["email", "e-mail"]}
    if where == "settings":
        found, path = told(chain(START, agent(), **settings(**redact)), detectors=KNOWN), "settings.redact"
    else:
        found, path = told(chain(START, agent(redact=redact)), detectors=KNOWN), "blocks[1].config.redact"
    assert list(found) == [f"{path}.detectors[1]"]
    assert 'Did you mean "email"?' in found[f"{path}.detectors[1]"]


@pytest.mark.parametrize(
    ("redact", "path"),
    [
        ("strict", "settings.redact"),
        ({"mode": "x"}, "settings.redact.mode"),
        ({"mask": "{"}, "settings.redact.mask"),
    ],
)
def test_the_settings_are_checked(redact: t.Any, path: str) -> None:
    assert list(told({**chain(START, agent()), "settings": {"redact": redact}})) == [path]


def test_nothing_is_redacted_unless_somebody_says_so() -> None:
    workflow = compiled(chain(START, agent(redact=None), settings={"redact": None}))
    assert whole_policy(workflow) is None
    assert block_policy(workflow, "a") is None


def test_a_policy_without_a_mode_is_strict() -> None:
    workflow = compiled(chain(START, agent(redact={})))
    assert block_policy(workflow, "a") == Policy("strict")


def test_a_block_has_the_stricter_of_its_own_and_the_workflows() -> None:
    document = chain(
        START,
        agent(redact={"mode": "strict", "detectors": ["email"], "applies": ["answer"]}),
        **settings(mode="live", detectors=["card"], applies=["tools"], mask="x"),
    )
    workflow = compiled(document)
    assert block_policy(workflow, "a") == Policy("strict", ("card", "email"), "x", ("answer", "tools"))
    assert block_policy(workflow, "start") == Policy("live", ("card",), "x", ("tools",))
    assert whole_policy(workflow) == block_policy(workflow, "a")


def test_an_instance_has_its_blocks_policy() -> None:
    workflow = compiled(chain(START, agent(redact={"mode": "live"})))
    assert block_policy(workflow, "a[3]") == Policy("live")


def test_a_composite_has_the_strictest_of_its_agents() -> None:
    types: dict[str, BlockType] = {**TYPES, "debate": DEBATE}
    people = [
        {"model": "open/x", "redact": {"mode": "live", "detectors": ["email"]}},
        {"model": "open/x", "redact": {"mode": "strict", "detectors": ["card"]}},
        {"model": "open/x"},
    ]
    document = chain(START, {"id": "d", "type": "debate", "config": {"participants": people}})
    workflow = compile_document(document, types, check_model, TOOLS)
    assert block_policy(workflow, "d") == Policy("strict", ("email", "card"), "[{kind}]", PARTS)


def test_a_child_is_under_the_policies_around_it() -> None:
    child = compiled(chain(START, agent(redact={"mode": "live", "detectors": ["email"]})))
    outer = compiled(chain(START, agent(), **settings(mode="strict", detectors=["card"])))
    outer = replace(outer, children={"a": Pinned("wf_2", 1, child)})
    assert block_policy(outer, "a/a") == Policy("strict", ("card", "email"))
    assert whole_policy(outer) == Policy("strict", ("card", "email"))


def test_what_a_child_redacts_holds_for_what_belongs_to_the_run() -> None:
    child = compiled(chain(START, agent(redact={"mode": "live", "detectors": ["email"]})))
    outer = replace(compiled(chain(START, agent())), children={"a": Pinned("wf_2", 1, child)})
    assert whole_policy(outer) == Policy("live", ("email",))
    assert block_policy(outer, "a") is None
