"""JSON Schema of tools and structured output."""

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.schemas.json_schema import check_schema, checker, pausing
from app.schemas.paths import join


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object", "properties": {"a": {"type": "string", "pattern": "^[a-z]+$"}}, "required": ["a"]},
        {"$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}},
        {"default": {"$ref": "http://x/"}},
        {"properties": {"pattern": {"type": "string"}, "$ref": {"type": "string"}}},
        {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"},
        {
            "properties": {"a": {"$ref": "#"}, "default": {"$ref": "#/properties/a"}},
            "type": ["object", "string"],
        },
        {"$ref": "#tree", "$defs": {"a": {"$anchor": "tree", "items": {"$ref": "#tree"}}}},
        {"$dynamicAnchor": "node", "items": {"$dynamicRef": "#node"}},
        {"$id": "http://example.com/x", "properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": {}}},
        {
            "$defs": {"any": True},
            "properties": {"a": {"$ref": "#/$defs/any"}},
            "anyOf": [{"properties": {"b": {"anyOf": [{"$ref": "#"}]}}}],
        },
    ],
)
def test_good_schemas(schema):
    assert check_schema(schema) is None
    assert checker(schema).problems({"a": "b", "pattern": "x"}) == []


@pytest.mark.parametrize(
    ("schema", "hint"),
    [
        (3, "object"),
        ([], "object"),
        ({"type": "strin"}, "at type"),
        ({"properties": {"a": {"minimum": "x"}}}, "at properties.a.minimum"),
        ({"items": {"anyOf": [{}, {"$defs": {"a": {"type": 1}}}]}}, 'at items.anyOf[1]["$defs"].a.type'),
        ({"anyOf": []}, "at anyOf"),
        ({"properties": [{"type": 1}]}, "at properties"),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "not": {"required": 1}}, "at not.required"),
        ({"$ref": "http://example.com/x"}, "into the schema itself"),
        ({"items": [{"$dynamicRef": "other.json"}]}, ""),
        ({"pattern": r"(a)\1"}, "RE2"),
        ({"patternProperties": {"(?=a)": {}}}, "RE2"),
        ({"type": "json_schema", "json_schema": {"schema": {}}}, "itself"),
        ({"properties": {"default": {"pattern": "(?=a)"}}}, "RE2"),
        ({"$defs": {"enum": {"$ref": "http://example.com/x"}}}, "into the schema itself"),
        ({"properties": {"a": {"$ref": "#/$defs/b"}}}, "#/$defs/b, which is no schema in it"),
        ({"items": {"$ref": "#tree"}}, "#tree, which is no schema in it"),
        ({"required": ["a"], "items": {"$ref": "#/required"}}, "#/required, which is no schema in it"),
        ({"items": {"$ref": "#/allOf/x"}, "allOf": [{}]}, "#/allOf/x, which is no schema in it"),
        ({"$ref": "#"}, "without an end"),
        ({"properties": {"a": {"allOf": [{"not": {"$ref": "#/properties/a"}}]}}}, "without an end"),
        ({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, "without an end"),
    ],
)
def test_bad_schemas(schema, hint):
    problem = check_schema(schema)
    assert problem is not None
    assert hint in problem


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {f"p{n}": {"type": "string"} for n in range(50)}},
        {"items": {"$defs": {f"p{n}": {"type": "string"} for n in range(50)}}},
        {"anyOf": [{"type": "string"} for n in range(50)]},
    ],
)
def test_others_may_go_on_while_a_schema_is_checked(schema):
    parts = []
    with pausing(lambda: parts.append("part")):
        assert check_schema(schema) is None
    assert len(parts) >= 50
    check_schema(schema)
    assert len(parts) < 100


def test_problems_have_paths():
    schema = {"type": "object", "properties": {"a": {"items": {"type": "integer"}}}, "required": ["b"]}
    found = dict(checker(schema).problems({"a": [1, "x"]}))
    assert set(found) == {"", "a[1]"}


def test_patterns_hold_and_cannot_stall():
    schema = {"properties": {"a": {"pattern": "^(a+)+$"}}, "patternProperties": {"^n": {"type": "integer"}}}
    check = checker(schema)
    assert check.problems({"a": "aaa", "n1": 1}) == []
    assert [path for path, _ in check.problems({"a": "a" * 50_000 + "!", "n1": "x"})] == ["a", "n1"]


@pytest.mark.parametrize(
    "schema", [{"$ref": "#"}, {"$ref": "#/nowhere"}, {"properties": {"a": {"$ref": "#/x/y"}}}]
)
def test_references_that_lead_nowhere_are_problems_not_crashes(schema):
    assert len(checker(schema).problems({"a": 1})) == 1


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "properties",
                    "items",
                    "$ref",
                    "pattern",
                    "enum",
                    "$schema",
                    "$id",
                    "allOf",
                    "required",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(_json, _json)
def test_no_schema_makes_it_raise(schema, value):
    if check_schema(schema) is None:
        checker(schema).problems(value)


_values = st.recursive(
    st.none() | st.booleans() | st.integers(0, 1) | st.sampled_from([0.0, 1.0, "", "a", "array", "object"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)


@given(st.lists(_values, min_size=1, max_size=5), _values)
def test_values_are_equal_where_json_schema_says_so(values, one):
    schema = {"properties": {"all": {"uniqueItems": True}, "one": {"enum": values}}}
    value = {"all": values, "one": one}
    reference = jsonschema.Draft202012Validator(schema)
    wrong = {error.absolute_path[0] for error in reference.iter_errors(value)}
    assert {path for path, _ in checker(schema).problems(value)} == wrong


class Looked(dict):
    """An object that counts how often somebody looks at what is in it."""

    looks = 0

    def _look(name):
        def method(self, *args):
            Looked.looks += 1
            return getattr(dict, name)(self, *args)

        return method

    items, __len__, __getitem__, __contains__ = map(
        _look, ("items", "__len__", "__getitem__", "__contains__")
    )


def test_no_value_is_compared_with_every_other(monkeypatch):
    schema = {"items": {"enum": [{"n": n} for n in range(300)]}, "uniqueItems": True}
    monkeypatch.setattr(Looked, "looks", 0)
    items = [Looked(n=n) for n in range(300)]
    assert checker(schema).problems(items) == []
    assert Looked.looks <= 5 * len(items)
    assert [path for path, _ in checker(schema).problems([*items, {"n": 0}, {"n": -1}])] == ["[301]", ""]


_parts = st.recursive(
    st.sampled_from(
        [{}, True, False, {"type": "integer"}, {"const": 1}, {"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}]
    ),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: {"anyOf": parts}),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: {"oneOf": parts}),
        inner.map(lambda part: {"not": part}),
        inner.map(lambda part: {"items": part}),
        st.tuples(inner, inner).map(lambda parts: {"properties": {"a": parts[0], "b": parts[1]}}),
    ),
    max_leaves=5,
)


@given(_parts, _parts, _parts, _values)
def test_what_is_found_out_once_is_what_the_library_finds(whole, a, b, value):
    schema = {"allOf": [whole, {"$ref": "#/$defs/a"}], "$defs": {"a": a, "b": b}}
    if check_schema(schema) is not None:  # it refers to itself without an end
        return
    problems = checker(schema).problems(value)
    reference = list(jsonschema.Draft202012Validator(schema).iter_errors(value))
    assert {path for path, _ in problems} == {join("", *error.absolute_path) for error in reference}


#: "and", "or" and "not" of expressions: each of them is tried, all the way down.
EXPRESSION = {
    "$ref": "#/$defs/any",
    "$defs": {
        "any": {
            "anyOf": [{"type": "string"}, *({"$ref": f"#/$defs/{name}"} for name in ("and", "or", "not"))]
        },
        **{
            name: {
                "properties": {
                    "is": {"const": name},
                    "of": {"type": "array", "items": {"$ref": "#/$defs/any"}},
                },
                "type": "object",
            }
            for name in ("and", "or", "not")
        },
    },
}


@pytest.mark.parametrize(("innermost", "found"), [("x", []), (7, [""])])
def test_a_value_is_judged_once_however_many_ways_lead_to_it(monkeypatch, innermost, found):
    """The library takes three times as long for each level: two minutes for these twelve."""
    monkeypatch.setattr(Looked, "looks", 0)
    value = innermost
    for _ in range(12):
        value = Looked({"is": "not", "of": [value]})
    assert [path for path, _ in checker(EXPRESSION).problems(value)] == found
    assert Looked.looks < 5_000  # of 500,000


def test_what_is_nested_too_deeply_is_a_problem_however_deep_the_caller_is():
    schema = {"properties": {"a": {"$ref": "#"}}}
    value = {}
    for _ in range(900):
        value = {"a": value}

    def deeper(levels):
        return deeper(levels - 1) if levels else checker(schema).problems(value)

    for levels in range(12):
        assert deeper(levels) == [("", "is nested too deeply for its schema")]
