"""Structured output."""

import re

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


#: What a fence around all of a text is, in one pattern: right, and slow on a long run of spaces.
FENCED = re.compile(r"\A\s*```[A-Za-z0-9_-]*[ \t]*\r?\n(.*?)\r?\n?[ \t]*```\s*\Z", re.DOTALL)


@given(st.lists(st.sampled_from(["```", "json", "`", " ", "\t", "\n", "\r\n", "{}", "é"]), max_size=9))
def test_only_a_fence_around_all_of_it_is_taken_off(pieces):
    text = "".join(pieces)
    match = FENCED.match(text)
    assert strip_fences(text) == (match.group(1) if match else text).strip()


def test_a_model_that_writes_spaces_until_it_is_cut_does_not_stop_the_worker():
    """By the pattern this takes hours; the limit of all tests ends it."""
    assert strip_fences("```json\n{" + " " * 2_000_000) == "```json\n{"


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
