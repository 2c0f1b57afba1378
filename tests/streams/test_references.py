"""References in place of values that are too large, and the way back to them."""

from __future__ import annotations

import typing as t

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app import encoding
from app.streams import references

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text(max_size=60),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=5),
    max_leaves=20,
)


@pytest.fixture
def low(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(references, "VALUE_LIMIT", 40)


def refs(value: t.Any) -> list[dict[str, t.Any]]:
    """The references in a value."""
    if isinstance(value, dict):
        if "ref" in value and "preview" in value:
            return [value]
        return [ref for item in value.values() for ref in refs(item)]
    return [ref for item in value for ref in refs(item)] if isinstance(value, list) else []


@given(_VALUES)
def test_every_reference_leads_back(value: t.Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(references, "VALUE_LIMIT", 40)
        told = references.whole("run_1", value, ("output",))
    body = {"output": value}
    for ref in refs(told):
        path = references.read(ref["ref"])
        assert path is not None
        found, whole = references.follow(body, path)
        assert found
        assert ref["size"] == len(encoding.dumps(whole)) > 40
        assert ref["url"] == f"/api/runs/run_1/values/{ref['ref']}"
    if len(encoding.dumps(value)) <= 40:
        assert told == value


def test_the_innermost_value_that_is_too_large_is_referred_to() -> None:
    long = "x" * 5_000
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(references, "VALUE_LIMIT", 2_000)
        told = references.referring("run_1", {"rows": [1, {"text": long}], "small": "y"}, ("output",))
    assert told["small"] == "y"
    assert told["rows"][0] == 1
    ref = told["rows"][1]["text"]
    assert references.read(ref["ref"]) == ["output", "rows", 1, "text"]


@pytest.mark.usefixtures("low")
def test_a_call_keeps_its_shape() -> None:
    """Together they are too large, each of their members is not."""
    call = {"id": "c", "name": "n", "startTime": "t", "result": "x" * 30}
    output = {"content": "", "toolCalls": {"list": [call], "count": 1}}
    assert references.whole("run_1", output, ("output",)) == output


@pytest.mark.usefixtures("low")
def test_a_list_of_much_that_is_small_is_one_value() -> None:
    told = references.referring("run_1", {"rows": list(range(100))}, ("output",))
    assert told["rows"]["kind"] == "list"
    assert told["rows"]["preview"].startswith("[0,1,2")


def test_a_preview_ends_at_a_character(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(references, "VALUE_LIMIT", 40)
    told = references.whole("run_1", "é" * 900, ("output",))
    assert (told["kind"], told["preview"], told["size"]) == ("text", "é" * references.PREVIEW, 1802)


@pytest.mark.parametrize("ref", ["", "!", "e30", "eyJhIjoxfQ", "bnVsbA", "W10x", "%2e%2e", "é"])
def test_what_is_no_reference_leads_nowhere(ref: str) -> None:
    path = references.read(ref)
    assert path is None or references.follow({"output": 1}, path)[1] != 1


def test_a_block_is_found_by_its_id() -> None:
    body = {"blocks": [{"blockId": "a[0]", "output": {"x": [5]}}], "7": {"8": "by name"}}
    assert references.follow(body, ["blocks", "a[0]", "output", "x", 0]) == (True, 5)
    assert references.follow(body, ["blocks", "b", "output"]) == (False, None)
    assert references.follow(body, [7, 8]) == (True, "by name")
    assert references.follow(body, ["blocks", "a[0]", "output", "x", 3]) == (False, None)
