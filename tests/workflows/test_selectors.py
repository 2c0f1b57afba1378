"""Selected outputs."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import ValidationFailed
from app.workflows.selectors import Selection, pick, resolve
from tests.workflows.kit import START_BLOCK, agent, chain, compiled

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "additionalProperties": False}
WORKFLOW = compiled(
    chain(
        START_BLOCK,
        {**agent("agent_1"), "name": "Agent 1"},
        {**agent("x_y"), "name": "Dr. Who v1.5"},
        {**agent("structured", response_format=SCHEMA), "name": "Same"},
        {**agent("open", response_format={"type": "object"}), "name": "same"},
    )
)


@pytest.mark.parametrize(
    ("selector", "block", "path"),
    [
        ("agent_1", "agent_1", ()),
        ("agent_1.content", "agent_1", ("content",)),
        ("AGENT_1.content", "agent_1", ("content",)),
        ("agent1.toolCalls.list.0.name", "agent_1", ("toolCalls", "list", "0", "name")),
        ("Agent 1.content", "agent_1", ("content",)),
        (" a gent 1 .content", "agent_1", ("content",)),
        ("Dr. Who v1.5.content", "x_y", ("content",)),
        ("dr.whov1.5", "x_y", ()),
        ("start.anything.goes", "start", ("anything", "goes")),
        ("structured.city", "structured", ("city",)),
        ("structured.tokens.total", "structured", ("tokens", "total")),
        ("open.whatever", "open", ("whatever",)),
    ],
)
def test_a_selector_names_a_block_by_id_or_name_and_a_path(selector, block, path):
    assert resolve([selector], WORKFLOW) == (Selection(block, path),)


@pytest.mark.parametrize(
    ("selector", "hint"),
    [
        ("nope.content", "There are: start, agent_1"),
        ("agent_2.content", 'Did you mean "agent_1"'),
        ("", "no block"),
        (".", "no block"),
        (" ", "no block"),
        ("agent_1.", "empty step"),
        ("agent_1..content", "empty step"),
        ("agent_1.contnt", 'Did you mean "content"'),
        ("structured.town", "There are: city"),
        ("same.content", "use the id"),
    ],
)
def test_what_matches_nothing_is_refused_with_what_exists(selector, hint):
    with pytest.raises(ValidationFailed, match=hint) as caught:
        resolve(["start.ok", selector], WORKFLOW)
    assert [p.path for p in caught.value.details] == ["selectedOutputs[1]"]


def test_repetitions_are_one_and_the_order_stays():
    selections = resolve(["start", "agent_1.content", "Agent 1.content"], WORKFLOW)
    assert selections == (Selection("start", ()), Selection("agent_1", ("content",)))
    assert selections[1].dotted == "content"


OUTPUT = {"a": {"b": [{"c": 1}, None]}, "d.e": 2, "f": {"g.h": 3}, "n": None}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("", OUTPUT),
        ("a.b.0.c", 1),
        ("a.b.1", None),
        ("d.e", 2),
        ("f.g.h", 3),
        ("n", None),
    ],
)
def test_pick(path, value):
    assert pick(OUTPUT, tuple(path.split(".")) if path else (), "absent") == value


@pytest.mark.parametrize(
    "path", ["x", "a.b.2", "a.b.-1", "a.b.c", "a.b.0.c.d", "n.x", "a.b.99999999999999", "a.b.²"]
)
def test_pick_of_what_is_not_there(path):
    assert pick(OUTPUT, tuple(path.split(".")), "absent") == "absent"


@given(st.lists(st.text() | st.sampled_from(["agent_1.", "start.", "."]), max_size=4))
def test_any_selectors_resolve_or_are_refused(selectors):
    with contextlib.suppress(ValidationFailed):
        assert len(resolve(selectors, WORKFLOW)) <= len(selectors)
