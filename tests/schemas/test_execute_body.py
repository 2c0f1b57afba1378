"""The body of an execute request (contract 3.4)."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import ValidationFailed
from app.schemas.requests import ExecuteBody, load_execute


def test_a_full_body():
    body = load_execute(
        {
            "input": {"message": "hi"},
            "stream": True,
            "async": False,
            "selectedOutputs": ["a.content", "b"],
            "includeThinking": True,
            "includeToolCalls": True,
            "conversationId": "c",
            "timeoutSeconds": 604800,
            "version": 2,
        }
    )
    assert body == ExecuteBody({"message": "hi"}, True, False, ("a.content", "b"), True, True, "c", 604800, 2)


@pytest.mark.parametrize(
    ("sent", "got"),
    [({}, {}), ({"input": None}, {}), ({"input": "hi"}, {"message": "hi"}), ({"input": [1]}, [1]), ({"input": 0}, 0),
     ({"input": False}, False), ({"input": {"a": None}}, {"a": None})],
)  # fmt: skip
def test_the_input(sent, got):
    assert load_execute(sent).input == got


def test_no_selections_are_not_an_empty_list_of_them():
    assert load_execute({}).selected_outputs is None
    assert load_execute({"selectedOutputs": None}).selected_outputs is None
    assert load_execute({"selectedOutputs": []}).selected_outputs == ()


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        ({"steram": True}, ["steram"]),
        ({"stream": "true"}, ["stream"]),
        ({"stream": 1}, ["stream"]),
        ({"stream": None}, ["stream"]),
        ({"includeThinking": "yes", "includeToolCalls": 0}, ["includeThinking", "includeToolCalls"]),
        ({"includeToolCalls": None}, ["includeToolCalls"]),
        ({"selectedOutputs": "a"}, ["selectedOutputs"]),
        (
            {"selectedOutputs": ["a", "", 3, None]},
            ["selectedOutputs[1]", "selectedOutputs[2]", "selectedOutputs[3]"],
        ),
        ({"selectedOutputs": ["a"] * 101}, ["selectedOutputs"]),
        ({"conversationId": "x" * 256}, ["conversationId"]),
        ({"conversationId": 7}, ["conversationId"]),
        ({"conversationId": ""}, ["conversationId"]),
        ({"timeoutSeconds": 0}, ["timeoutSeconds"]),
        ({"timeoutSeconds": 604801}, ["timeoutSeconds"]),
        ({"timeoutSeconds": True}, ["timeoutSeconds"]),
        ({"timeoutSeconds": "5"}, ["timeoutSeconds"]),
        ({"version": 0}, ["version"]),
        ({"version": 1.5}, ["version"]),
        ({"async": "x", "b": 1, "stream": 2}, ["async", "b", "stream"]),
        ({"stream": True, "async": True}, ["async"]),
        ([], [""]),
        ("x", [""]),
        (None, [""]),
    ],
)
def test_problems_in_the_order_of_the_body(body, paths):
    with pytest.raises(ValidationFailed) as caught:
        load_execute(body)
    assert [p.path for p in caught.value.details] == paths
    assert caught.value.code == "validation_failed"


def test_async_alone_is_taken():
    assert load_execute({"async": True}).asynchronous


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
_keys = st.sampled_from(
    [
        "input",
        "stream",
        "async",
        "selectedOutputs",
        "includeThinking",
        "conversationId",
        "timeoutSeconds",
        "version",
    ]
)


@given(_json | st.dictionaries(_keys | st.text(max_size=3), _json, max_size=6))
def test_any_json_is_a_body_or_a_problem(body):
    with contextlib.suppress(ValidationFailed):
        load_execute(body)
