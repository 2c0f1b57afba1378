"""Who gets the stream, and who JSON."""

from __future__ import annotations

import pytest

from app.web.accept import wants_stream

STREAM = "text/event-stream"
JSON = "application/json"

MATRIX: tuple[tuple[str, bool], ...] = (
    # One of the two, or nothing.
    (STREAM, True),
    ("", False),
    (JSON, False),
    ("text/html", False),
    ("TEXT/Event-Stream", True),
    (f"  {STREAM}\t", True),
    # Both: only the strictly higher weight counts, never the order.
    (f"{STREAM}, {JSON}", False),
    (f"{JSON}, {STREAM}", False),
    (f"{STREAM}, {JSON};q=0.9", True),
    (f"{JSON};q=0.9, {STREAM}", True),
    (f"{STREAM};q=0.9, {JSON}", False),
    (f"{JSON}, {STREAM};q=0.9", False),
    (f"{STREAM};q=0.5, {JSON};q=0.5", False),
    (f"{STREAM};q=0.501, {JSON};q=0.5", True),
    (f"{STREAM};q=0.001, {JSON};q=0", True),
    (f"{STREAM};q=0.001", True),
    # Not acceptable.
    (f"{STREAM};q=0", False),
    (f"{STREAM};q=0.000", False),
    (f"{STREAM};q=0, {JSON};q=0", False),
    (f"{STREAM};q=0, */*", False),
    # Wildcards never select the stream, and are no explicit JSON.
    ("*/*", False),
    ("text/*", False),
    ("application/*", False),
    ("*/*;q=1, application/json;q=0", False),
    (f"{STREAM}, */*", True),
    (f"{STREAM};q=0.1, */*", True),
    (f"{STREAM};q=0.1, application/*", True),
    (f"*/*, {STREAM};q=0.1", True),
    (f"text/*, {JSON};q=0.1", False),
    # What browsers and tools send.
    ("text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8", False),
    (f"{STREAM},text/html;q=0.9", True),
    # Spelling that is allowed.
    (f"{STREAM} ; q=0.8 , {JSON} ; q=0.7", True),
    (f"{STREAM};Q=1, {JSON};q=0.7", True),
    (f"{STREAM};charset=utf-8", True),
    (f'{STREAM};x="a,b;q=0"', True),
    (f'{JSON};x="\\",{STREAM}"', False),
    (f"{STREAM};q=1.000", True),
    (f"{STREAM};q=1., {JSON};q=0.", True),
    (f",, {STREAM} , ,", True),
    (f"{STREAM};", True),
    (f"{JSON};profile=x, {STREAM};q=0.9", False),
    # Named twice: the higher weight.
    (f"{STREAM};q=0.2, {STREAM};q=0.9, {JSON};q=0.5", True),
    (f"{JSON};q=0.2, {JSON};q=0.9, {STREAM};q=0.5", False),
    # Malformed: JSON, whatever else it says.
    (f"{STREAM};q=2", False),
    (f"{STREAM};q=-1", False),
    (f"{STREAM};q=high", False),
    (f"{STREAM};q=0.1234", False),
    (f"{STREAM};q=", False),
    (f'{STREAM};q="1"', False),
    (f"{STREAM}, {JSON};q=x", False),
    (f"{STREAM}, html", False),
    ("text/event-stream text/html", False),
    ("text / event-stream", False),
    (f"{STREAM}, text/", False),
    (f"{STREAM}; charset", False),
    (f'{STREAM};x="open', False),
    (f"{STREAM}/more", False),
    ("text/event-stream; q = 1", False),
    ("tëxt/event-stream", False),
    ("," * 9000 + STREAM, False),
)


@pytest.mark.parametrize(("header", "stream"), MATRIX, ids=lambda value: str(value)[:60])
def test_the_stream_is_for_those_who_name_it_and_prefer_it(header: str, stream: bool) -> None:
    assert wants_stream(header) is stream
