"""Documents as text."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import ValidationFailed
from app.workflows import document as documents
from app.workflows.document import MAX_DEPTH, export, parse


def test_json_and_yaml_give_the_same_tree():
    tree = {"name": "x", "blocks": [{"id": "a", "config": {"n": 1, "f": 0.5, "t": True, "u": None}}]}
    assert parse('{"name":"x","blocks":[{"id":"a","config":{"n":1,"f":0.5,"t":true,"u":null}}]}') == tree
    assert parse("name: x\nblocks:\n- id: a\n  config: {n: 1, f: 0.5, t: true, u: null}\n") == tree
    assert parse("{name: x, blocks: [{id: a, config: {n: 1, f: .5, t: true, u: ~}}]}") == tree
    assert parse(tree) == tree
    assert parse(tree) is not tree


@pytest.mark.parametrize(
    "word", ["yes", "no", "on", "off", "y", "12:30", "2024-01-01", "1_000", "=", "0o9", "0b1"]
)
def test_yaml_makes_no_guesses(word):
    assert parse(f"name: {word}") == {"name": word}


def test_text_of_several_lines_is_written_as_a_block():
    document = {"name": "x", "blocks": [{"config": {"system": "You are kind.\nAnd brief.\n"}}]}
    text = export(document)
    assert "system: |\n" in text
    assert parse(text) == document


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("a: 1\na: 2", "twice at line 2, column 1"),
        ("x: {b: 1, b: 2}", "twice"),
        ("a: [", "line 1"),
        ("[" * 100_000, "deeper"),
        ("{a: " * 3_000, "deeper"),
        ("- 1", "must be an object"),
        ("", "must be an object"),
        ("a: .inf", "finite"),
        ("a: !!python/object/apply:os.system [ls]", "constructor"),
        ("\x00", "not allowed"),
        ("? [1]\n: 2", "unhashable"),
        ("a: 1" + "0" * 5_000, "digits"),
        ("x: &a {y: *a}", "deeper"),
        ("a: &a [*a, *a]", "deeper"),
        ("#" * 1_048_577, "send JSON"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_place(text, hint):
    with pytest.raises(ValidationFailed, match=hint) as caught:
        parse(text)
    assert len(caught.value.message) < 500


def test_an_alias_bomb_is_refused():
    lines = ["a: &a [x,x,x,x,x,x,x,x,x]"]
    lines += [f"{c}: &{c} [{','.join(['*' + p] * 9)}]" for p, c in zip("abcdefgh", "bcdefghi", strict=True)]
    with pytest.raises(ValidationFailed, match="more than 200000 values"):
        parse("\n".join(lines))


def test_depth_is_bounded_for_parsed_documents_too():
    tree: dict = {}
    for _ in range(MAX_DEPTH + 5):
        tree = {"a": tree}
    with pytest.raises(ValidationFailed, match="deeper"):
        parse(tree)


_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=15,
)  # fmt: skip


@given(st.dictionaries(st.text(), _values, max_size=5))
def test_what_is_exported_parses_to_the_same(document):
    tree = parse(document)
    again = parse(export(tree))
    assert again == parse(export(again))
    # Numbers beyond 64 bits are texts in every JSON the program writes.
    assert _with_small_numbers(tree) == again


def _with_small_numbers(value):
    if isinstance(value, dict):
        return {key: _with_small_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_small_numbers(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**64:
        return str(value)
    return value


@given(st.text())
def test_any_text_is_a_document_or_a_problem(text):
    with contextlib.suppress(ValidationFailed):
        assert isinstance(parse(text), dict)


@pytest.mark.parametrize(
    "text",
    [
        "v: [" + "1," * 200 + "]",
        "v: |\n" + " a\n" * 200,
        "#\n" * 200 + "a: 1",
        '{"v": [' + "{}," * 200 + "{}]}",
    ],
)
def test_others_may_go_on_while_a_document_is_read(text):
    steps = []
    parse(text, lambda: steps.append("step"))
    assert len(steps) >= 200


def test_no_more_of_a_yaml_is_read_than_a_document_may_hold(monkeypatch):
    monkeypatch.setattr(documents, "MAX_VALUES", 50)
    read = []
    with pytest.raises(ValidationFailed, match="holds more than"):
        parse("v: [" + "1," * 10_000 + "]", lambda: read.append("a node"))
    assert len(read) < 1000
