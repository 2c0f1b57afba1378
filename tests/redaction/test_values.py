"""Known values are gone from a text, whatever form they stand in; the rest of it stays."""

from __future__ import annotations

import base64
import html
import json
import re
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.redaction.values import ValueMask, value_mask

#: What a header can hold (Latin-1 without control characters).
LATIN = st.characters(min_codepoint=32, max_codepoint=255, exclude_categories=("Cc",))
SECRETS = st.text(LATIN, min_size=6, max_size=60).filter(lambda value: value == value.strip())
AROUND = st.text(st.characters(codec="utf-8"), max_size=40)

FORMS = {
    "as it is": lambda v: v,
    "lower case": str.lower,
    "upper case": str.upper,
    "quoted": lambda v: quote(v, safe=""),
    "quoted, slashes kept": quote,
    "quoted, lower case": lambda v: re.sub("%..", lambda found: found[0].lower(), quote(v, safe="")),
    "form": quote_plus,
    "JSON": lambda v: json.dumps(v)[1:-1],
    "JSON of UTF-8": lambda v: json.dumps(v, ensure_ascii=False)[1:-1],
    "JSON of PHP": lambda v: json.dumps(v)[1:-1].replace("/", "\\/"),
    "JSON in a JSON text": lambda v: json.dumps(json.dumps(v)[1:-1])[1:-1],
    "JSON of UTF-8 in a JSON text": lambda v: json.dumps(json.dumps(v, ensure_ascii=False)[1:-1])[1:-1],
    "Python": lambda v: repr(v)[1:-1],
    "HTML": html.escape,
    "hexadecimal": lambda v: v.encode().hex(),
    "read as Latin-1": lambda v: v.encode().decode("latin-1"),
    "read as UTF-8": lambda v: v.encode("latin-1").decode("utf-8", "replace"),
}


@pytest.mark.parametrize("form", list(FORMS))
@given(secret=SECRETS, before=AROUND, after=AROUND)
def test_a_value_is_gone_in_every_form(form, secret, before, after):
    spelled = FORMS[form](secret)
    masked = ValueMask([secret]).text(f"{before}{spelled}{after}")
    assert len(spelled) < 6 or (spelled not in masked and "***" in masked)


@given(secret=SECRETS, before=st.binary(max_size=9), after=st.binary(max_size=9))
def test_base64_of_anything_around_it_is_gone(secret, before, after):
    data = before + secret.encode() + after
    for coded in (base64.b64encode(data).decode(), base64.urlsafe_b64encode(data).decode()):
        assert ValueMask([secret]).text(f'"{coded}"') == '"***"'


@given(secret=SECRETS, value=st.recursive(AROUND, lambda inner: st.lists(inner, max_size=3), max_leaves=6))
def test_json_stays_json(secret, value):
    tree = {"kept": 1, secret: [value, {"echo": f"x{secret}y"}]}
    masked = ValueMask([secret]).json(json.dumps(tree))
    assert secret not in masked
    assert "***" in masked


def texts(value):
    """Every text of a JSON value, keys too."""
    if isinstance(value, dict):
        return [text for pair in value.items() for part in pair for text in texts(part)]
    return [text for item in value for text in texts(item)] if isinstance(value, list) else [str(value)]


@given(
    secret=SECRETS,
    value=st.recursive(
        AROUND, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(AROUND, inner, max_size=3)
    ),
)
def test_a_json_value_keeps_its_form(secret, value):
    """Also where the secret holds what separates the parts of JSON."""
    tree = {"kept": 1, secret: [value, {"echo": f"x{secret}y"}]}
    masked = ValueMask([secret]).value(tree)
    assert all(secret not in text for text in texts(masked))
    assert masked["***"][1] == {"echo": "x***y"}
    clean = {"a": [1.5, None, True, "other"]}
    assert ValueMask([secret]).value(clean) is clean


def test_a_number_may_be_a_secret():
    assert ValueMask(["12345678"]).value({"pin": 12345678, "n": 12}) == {"pin": "***", "n": 12}
    assert ValueMask(['a","b']).value(["a", "b"]) == ["a", "b"]


def test_the_mask_of_the_same_values_is_made_once():
    assert value_mask(["of-one", "of-two"]) is value_mask(("of-two", "of-one"))


def test_what_is_around_a_value_stays():
    mask = ValueMask(["s3cret/value", "short"])
    assert mask.text("a s3cret/value, short") == "a ***, short"
    assert mask.json('{"a": "b", "n": [1.50]}') == '{"a": "b", "n": [1.50]}'
    assert json.loads(mask.json('{"a": "s3cret\\/value", "n": [1]}')) == {"a": "***", "n": [1]}
    assert json.loads(mask.json('{"a": "\\u0073\\u0033cret/value"}')) == {"a": "***"}
    assert not ValueMask(["short"])
    assert ValueMask([]).text("anything") == "anything"


def test_each_line_of_a_key_is_a_value():
    key = "-----BEGIN KEY-----\nMIIabcdefgh\nshort\n-----END KEY-----"
    assert ValueMask([key]).text("log: MIIabcdefgh\n") == "log: ***\n"


def test_a_value_inside_another_does_not_leave_its_rest():
    assert ValueMask(["abcdef", "abcdef-longer"]).text("abcdef-longer abcdef") == "*** ***"


@pytest.mark.parametrize("size", [2_000_000])
def test_a_long_text_is_looked_through_whole(size):
    text = "x" * size + "the-secret" + "y" * size
    assert ValueMask(["the-secret"]).text(text) == "x" * size + "***" + "y" * size
