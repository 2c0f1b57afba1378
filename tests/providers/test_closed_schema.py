"""Schemas for vendors that refuse an open one."""

from __future__ import annotations

import json
import typing as t

import pytest

from providers.anthropic_request import build_body as messages
from providers.bedrock_request import build_body as converse
from providers.closed_schema import closed, in_words
from tests.providers.driving import request

NAME = {"type": "object", "properties": {"name": {"type": "string"}}}
CLOSED_NAME = {**NAME, "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "sent"),
    [
        (NAME, CLOSED_NAME),
        ({**NAME, "additionalProperties": True}, CLOSED_NAME),
        ({**NAME, "$schema": "http://json-schema.org/draft-07/schema#"}, CLOSED_NAME),
        (
            {"type": "object", "properties": {"a": {"type": "array", "items": NAME, "minItems": 1}}},
            {
                "type": "object",
                "properties": {"a": {"type": "array", "items": CLOSED_NAME, "minItems": 1}},
                "additionalProperties": False,
            },
        ),
        (
            {**NAME, "properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": NAME}},
            {**CLOSED_NAME, "properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": CLOSED_NAME}},
        ),
        ({"anyOf": [NAME, {"type": "null"}]}, {"anyOf": [CLOSED_NAME, {"type": "null"}]}),
    ],
)
def test_objects_are_closed(schema: dict[str, t.Any], sent: dict[str, t.Any]) -> None:
    assert closed(schema) == (sent, True)


@pytest.mark.parametrize(
    ("member", "sent"),
    [
        ({"type": "integer", "minimum": 1, "maximum": 9}, {"type": "integer"}),
        ({"type": "string", "maxLength": 5}, {"type": "string"}),
        ({"type": "string", "format": "iban"}, {"type": "string"}),
        ({"type": "string", "pattern": "^(?!x)"}, {"type": "string"}),
        (
            {"oneOf": [{"type": "string"}, {"type": "null"}]},
            {"anyOf": [{"type": "string"}, {"type": "null"}]},
        ),
        (
            {"type": "array", "items": {"type": "string"}, "minItems": 2, "uniqueItems": True},
            {"type": "array", "items": {"type": "string"}},
        ),
    ],
)
def test_what_is_refused_is_left_to_words(member: dict[str, t.Any], sent: dict[str, t.Any]) -> None:
    made, whole = closed({"type": "object", "properties": {"a": member}})
    assert made is not None
    assert (made["properties"]["a"], whole) == (sent, False)


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object"},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"type": "object", "properties": {"a": True}},
        {"type": "object", "properties": {"a": {}}},
        {"type": "object", "properties": {"a": {"type": "array"}}},
        {**NAME, "patternProperties": {"^x": {"type": "string"}}},
        {**NAME, "properties": {"again": {"$ref": "#"}}},
        {**NAME, "properties": {"n": {"$ref": "#/$defs/missing"}}},
        {
            "$ref": "#/$defs/tree",
            "$defs": {"tree": {**NAME, "properties": {"below": {"$ref": "#/$defs/tree"}}}},
        },
    ],
)
def test_what_cannot_be_closed(schema: dict[str, t.Any]) -> None:
    assert closed(schema) == (None, False)


def anthropic(**changes: t.Any) -> t.Any:
    """A body of the Messages wire."""

    return messages(request(**changes))


def test_an_open_schema_is_put_into_words() -> None:
    open_ = {"type": "object", "additionalProperties": {"type": "number"}}
    sent = anthropic(system="Be brief.", response_format=open_)
    assert "output_config" not in sent
    assert sent["system"] == f"Be brief.\n\n{in_words(open_)}"
    sent = converse(request(system="Be brief.", response_format=open_))
    assert "outputConfig" not in sent
    assert sent["system"] == [{"text": f"Be brief.\n\n{in_words(open_)}"}]


def test_a_bound_goes_both_ways() -> None:
    bound = {"type": "object", "properties": {"a": {"type": "integer", "maximum": 9}}}
    sent = anthropic(response_format=bound, thinking="low", dialect={"thinking": "adaptive"})
    assert sent["output_config"]["effort"] == "low"
    assert "maximum" not in json.dumps(sent["output_config"])
    assert '"maximum":9' in sent["system"]


def test_half_a_character_in_a_schema() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "description": "\ud83d"}}}
    text = converse(request(response_format=schema))["outputConfig"]["textFormat"]["structure"]["jsonSchema"]
    assert json.loads(text["schema"])["properties"]["a"]["description"] == "\ufffd"
    assert "\ufffd" in in_words(schema)
