"""Objects that arrive in pieces, cut anywhere."""

from __future__ import annotations

import json

import pytest

from providers import json_array
from providers.json_array import JsonArrayReader
from providers.spec import ProviderError

OBJECTS = [
    {"a": 1},
    {"text": 'a "quoted" } brace and a \\ backslash \\" both'},
    {"nested": {"list": [{"x": {}}, "]", "}"]}, "é": "😀"},
    {},
]
ARRAY = json.dumps(OBJECTS, indent=1, ensure_ascii=False).encode()


def read(body: bytes, size: int) -> list[object]:
    reader = JsonArrayReader()
    found = [pair for at in range(0, len(body), size) for pair in reader.feed(body[at : at + size])]
    found += reader.end()
    assert all(name == b"" for name, _ in found)
    return [json.loads(payload) for _, payload in found]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 333, 10_000])
def test_an_array(size: int) -> None:
    assert read(ARRAY, size) == OBJECTS


@pytest.mark.parametrize("size", [1, 10_000])
def test_one_object_and_objects_after_one_another(size: int) -> None:
    assert read(b' \xef\xbb\xbf{"a": [1]}\n', size) == [{"a": [1]}]
    assert read(b'{"a": 1}\r\n{"b": 2}\n', size) == [{"a": 1}, {"b": 2}]
    assert read(b"[]", size) == []


def test_an_object_is_given_with_its_last_byte() -> None:
    reader = JsonArrayReader()
    assert reader.feed(b'[{"a": {"b": 1}') == []
    assert reader.feed(b"}") == [(b"", b'{"a": {"b": 1}}')]
    assert reader.feed(b',\n{"c": 2}]') == [(b"", b'{"c": 2}')]


def test_a_body_that_ends_inside_an_object_gives_what_is_no_json() -> None:
    reader = JsonArrayReader()
    reader.feed(b'[{"a": 1}, {"b": "x')
    assert reader.end() == [(b"", b'{"b": "x')]


def test_what_is_no_json_is_kept_for_the_report() -> None:
    reader = JsonArrayReader()
    assert reader.feed(b'[nonsense, {"a": 1}') == [(b"", b'{"a": 1}')]
    assert reader.stray == b"nonsense"


def test_an_object_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_array, "MAX_FRAME", 100)
    reader = JsonArrayReader()
    reader.feed(b'{"a": "' + b"x" * 93)
    with pytest.raises(ProviderError) as caught:
        reader.feed(b"x")
    assert caught.value.code == "provider_bad_stream"
