"""Differences of documents: they are found where they are, and make the later document of the earlier one."""

from __future__ import annotations

import copy
import typing as t

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.workflows.diff import Change, DocumentDiff, changes, diff, same

ONE: dict[str, t.Any] = {
    "name": "Support",
    "blocks": [
        {"id": "start", "type": "start"},
        {"id": "agent_1", "type": "agent", "config": {"model": "a/one", "tools": ["clock", "files"]}},
        {"id": "old", "type": "set"},
    ],
    "edges": [{"source": "start", "target": "agent_1"}, {"source": "agent_1", "target": "old"}],
    "variables": {"greeting": "hello"},
    "settings": {"timeout_s": 300},
}


def changed(**parts: t.Any) -> dict[str, t.Any]:
    return {**copy.deepcopy(ONE), **parts}


def test_the_same_document_has_no_differences() -> None:
    reordered = {key: ONE[key] for key in reversed(ONE)}
    assert diff(ONE, reordered) == DocumentDiff()
    assert diff(ONE, reordered).empty


def test_blocks_are_told_by_their_ids() -> None:
    later = changed()
    del later["blocks"][2]
    later["blocks"].insert(0, {"id": "new", "type": "set"})
    later["blocks"][2]["config"] = {"model": "a/two", "tools": ["clock", "search", "files"]}
    found = diff(ONE, later)
    assert [(b.kind, b.at, b.block["id"]) for b in found.blocks] == [
        ("removed", 2, "old"),
        ("added", 0, "new"),
        ("changed", 2, "agent_1"),
    ]
    assert found.blocks[2].changes == (
        Change("changed", ("blocks", 2, "config", "model"), "a/one", "a/two"),
        Change("added", ("blocks", 2, "config", "tools", 1), after="search"),
    )
    assert not found.blocks_reordered
    assert (found.edges, found.variables, found.settings, found.document) == ((), (), (), ())


def test_edges_variables_settings_and_the_rest() -> None:
    later = changed(
        name="Help",
        edges=[{"target": "agent_1", "source": "start"}, {"source": "agent_1", "target": "start"}],
        variables={"greeting": "hello", "tone": "warm"},
        settings={},
    )
    found = diff(ONE, later)
    assert [(e.kind, e.at) for e in found.edges] == [("removed", 1), ("added", 1)]
    assert found.variables == (Change("added", ("variables", "tone"), after="warm"),)
    assert found.settings == (Change("removed", ("settings", "timeout_s"), before=300),)
    assert found.document == (Change("changed", ("name",), "Support", "Help"),)
    assert found.blocks == ()


def test_another_order_is_a_difference() -> None:
    later = changed(blocks=ONE["blocks"][::-1], edges=ONE["edges"][::-1])
    assert diff(ONE, later) == DocumentDiff(blocks_reordered=True, edges_reordered=True)


@pytest.mark.parametrize(
    "later",
    [
        {},
        {"blocks": None},
        {"blocks": "x"},
        {"blocks": [1, {"id": 2}, {"id": "a"}, {"id": "a"}]},
        {"edges": {}},
    ],
)
def test_documents_that_are_none_can_be_compared(later: dict[str, t.Any]) -> None:
    assert not diff(ONE, later).empty
    assert not diff(later, ONE).empty
    assert diff(later, copy.deepcopy(later)).empty


def test_kinds_of_values_are_kept_apart() -> None:
    for one, other in ((1, True), (0, False), (1, 1.0), ("", None), ([], {}), ("1", 1)):
        assert not same(one, other)
        assert not diff({"variables": {"x": one}}, {"variables": {"x": other}}).empty


SCALARS = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([0.0, 1.0, "", "a"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)
BLOCKS = st.lists(
    VALUES | st.fixed_dictionaries({"id": st.sampled_from(["a", "b", "c"])}, optional={"config": VALUES}),
    max_size=5,
)
EDGES = st.lists(st.fixed_dictionaries({"source": st.sampled_from("ab"), "target": st.sampled_from("ab")}))
DOCUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "name": VALUES,
        "blocks": BLOCKS | VALUES,
        "edges": EDGES | VALUES,
        "variables": VALUES,
        "settings": VALUES,
    },
)


@given(VALUES, VALUES)
def test_changes_make_the_later_value_of_the_earlier_one(before: t.Any, after: t.Any) -> None:
    found = list(changes(before, after))
    assert same(_applied(copy.deepcopy(before), found), after)
    assert (found == []) == same(before, after)


@given(DOCUMENTS, DOCUMENTS)
def test_there_is_a_difference_exactly_where_documents_differ(
    before: dict[str, t.Any], after: dict[str, t.Any]
) -> None:
    assert diff(before, after).empty == same(before, after)
    assert diff(before, copy.deepcopy(before)).empty


def _applied(value: t.Any, found: list[Change]) -> t.Any:
    """``value`` with every change made: first what goes, from the end, then what comes, then what differs."""
    for change in sorted(
        (c for c in found if c.kind == "removed"), key=lambda c: _places(c.at), reverse=True
    ):
        # The parent's place is that of the later document; removals of a list are made before its additions.
        del _holder(value, change.at)[change.at[-1]]
    for change in (c for c in found if c.kind == "added"):
        holder, last = _holder(value, change.at), change.at[-1]
        holder.insert(int(last), change.after) if isinstance(holder, list) else holder.__setitem__(
            last, change.after
        )
    for change in (c for c in found if c.kind == "changed"):
        if not change.at:
            return change.after
        _holder(value, change.at)[change.at[-1]] = change.after
    return value


def _holder(value: t.Any, at: tuple[t.Any, ...]) -> t.Any:
    for step in at[:-1]:
        value = value[step]
    return value


def _places(at: tuple[t.Any, ...]) -> tuple[t.Any, ...]:
    return tuple((isinstance(step, int), step if isinstance(step, int) else 0, str(step)) for step in at)
