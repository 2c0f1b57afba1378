"""JSON lines, cut anywhere, and bodies that are none."""

from __future__ import annotations

import pytest

from providers import framing
from providers.ndjson import NdjsonReader
from providers.spec import ProviderError
from tests.providers.driving import split

BODY = b'\xef\xbb\xbf{"a":1}\r\n\n  {"b":"x\\ny"}  \n{"c":3}'


def read(body: bytes, size: int = 0) -> tuple[list[bytes], bytes]:
    """Every payload of ``body`` in pieces of ``size``, and what was no line."""
    reader = NdjsonReader()
    found = [payload for piece in split(body, size) for payload in reader.feed(piece)]
    found += reader.end()
    assert all(name == b"" for name, _ in found)
    return [payload for _, payload in found], reader.stray


@pytest.mark.parametrize("size", [0, 1, 2, 7])
def test_lines(size: int) -> None:
    """A byte order mark, CRLF, empty lines, blanks around a line, no last line end."""
    assert read(BODY, size) == ([b'{"a":1}', b'{"b":"x\\ny"}', b'{"c":3}'], b"")


def test_a_line_is_given_as_soon_as_it_is_whole() -> None:
    reader = NdjsonReader()
    assert reader.feed(b'{"a":1}\n{"b"') == [(b"", b'{"a":1}')]
    assert reader.feed(b":2") == []
    assert reader.feed(b"}\n") == [(b"", b'{"b":2}')]
    assert reader.end() == []


@pytest.mark.parametrize("size", [0, 1])
@pytest.mark.parametrize(
    "body",
    [b'{\n  "error": {\n    "message": "no"\n  }\n}\n', b"<html>\n<p>{}</p>\n</html>", b'[{"error": "no"}]'],
)
def test_a_body_that_begins_otherwise_is_no_stream(body: bytes, size: int) -> None:
    lines, stray = read(body, size)
    assert lines == []
    assert b"".join(stray.split()) == b"".join(body.split())


def test_a_torn_last_line_is_given_for_whoever_parses_it() -> None:
    assert read(b'{"a":1}\n{"b":')[0] == [b'{"a":1}', b'{"b":']


def test_an_endless_line_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framing, "MAX_FRAME", 100)
    reader = NdjsonReader()
    reader.feed(b"{" + b" " * 90)
    with pytest.raises(ProviderError) as caught:
        reader.feed(b" " * 20)
    assert caught.value.code == "provider_bad_stream"
