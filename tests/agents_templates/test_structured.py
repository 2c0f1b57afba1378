"""Structured output."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app import encoding
from app.agents.structured import instruction, parse, strip_fences
from app.errors import RunError

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "n": {"type": "integer", "minimum": 1}},
    "required": ["city"],
}


@pytest.mark.parametrize(
    "text",
    [
        '{"city":"Rome"}',
        ' \n{"city":"Rome"}\n',
        '```json\n{"city":"Rome"}\n```',
        '```\n{"city":"Rome"}```',
        '  ```JSON \r\n{"city":\r\n"Rome"}\r\n```\n',
    ],
)
def test_an_object_of_the_schema(text):
    assert parse(text, SCHEMA) == {"city": "Rome"}


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("", "empty"),
        ("```json\n```", "empty"),
        ("Rome", "no valid JSON"),
        ('{"city":"Rome"', "no valid JSON"),
        ('Here: {"city":"Rome"}', "no valid JSON"),
        ('{"city":"Rome"}{"city":"Rome"}', "no valid JSON"),
        ('["Rome"]', "no JSON object"),
        ("null", "no JSON object"),
        ('{"n":1}', "at the top level"),
        ('{"city":1,"n":0}', "at city, n"),
    ],
)
def test_anything_else_fails_the_run(text, hint):
    with pytest.raises(RunError) as caught:
        parse(text, SCHEMA)
    assert caught.value.code == "structured_output_invalid"
    assert hint in caught.value.message
    assert "Rome" not in caught.value.message


def test_a_fence_inside_stays():
    inner = '{"city":"```x```"}'
    assert parse(inner, SCHEMA)["city"] == "```x```"
    assert strip_fences("a ```b``` c") == "a ```b``` c"


def test_the_instruction_holds_the_schema():
    assert encoding.dumps(SCHEMA).decode() in instruction(SCHEMA)


@given(st.text())
def test_any_text_is_an_object_or_a_failure(text):
    code = "structured_output_invalid"
    try:
        assert isinstance(parse(text, SCHEMA), dict)
    except RunError as error:
        code = error.code
    assert code == "structured_output_invalid"
