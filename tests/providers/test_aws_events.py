"""The event-stream reader: every framing, split anywhere; damage is told, never guessed around."""

from __future__ import annotations

import json
import struct
import typing as t
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers import spec
from providers.aws_events import MAX_HEADERS, AwsEventReader
from providers.framing import MAX_STRAY
from tests.providers.aws_frames import error, event, exception, frame, header
from tests.providers.driving import split

FIRST = event("first", {"a": 1})
TWO = FIRST + event("second", {"b": "ü"})
PAIRS = [(b"first", b'{"a": 1}'), (b"second", b'{"b": "\\u00fc"}')]


def read(pieces: t.Iterable[bytes]) -> list[tuple[bytes, bytes]]:
    """Everything a body gives."""
    reader = AwsEventReader()
    found = [pair for piece in pieces for pair in reader.feed(piece)]
    return [*found, *reader.end()]


def until_failure(body: bytes) -> tuple[list[tuple[bytes, bytes]], str | None, bytes]:
    """What a body gives before it fails, the failure's code, and what was no event stream."""
    reader = AwsEventReader()
    found = []
    try:
        for pair in reader.feed(body):
            found.append(pair)
        reader.end()
    except spec.ProviderError as failed:
        return found, failed.code, reader.stray
    return found, None, reader.stray


def code(body: bytes, size: int = 0) -> str:
    """The code of the failure that ``body`` is."""
    with pytest.raises(spec.ProviderError) as caught:
        read(split(body, size))
    return caught.value.code


@pytest.mark.parametrize("size", [0, 1, 2, 7, 13, 100])
def test_split_anywhere(size: int) -> None:
    assert read(split(TWO, size)) == PAIRS


VALUES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}


@st.composite
def headers(draw: st.DrawFn) -> bytes:
    """Headers of every type of the encoding, the event's own among them."""
    names = draw(st.lists(st.text("abcxyz-", min_size=1, max_size=9), max_size=5, unique=True))
    made = [header(":event-type", "e"), header(":message-type", "event")]
    for name in names:
        kind = draw(st.sampled_from([*VALUES, 6, 7]))
        size = VALUES.get(kind)
        if kind == 7:
            value = draw(st.text(max_size=20)).encode()
        else:
            value = draw(st.binary(min_size=size or 0, max_size=20 if size is None else size))
        made.append(header(name, value, kind))
    return b"".join(draw(st.permutations(made)))


@given(
    st.lists(st.tuples(headers(), st.binary(max_size=300)), max_size=6),
    st.integers(min_value=1, max_value=400),
)
def test_what_was_framed_comes_back(messages: list[tuple[bytes, bytes]], size: int) -> None:
    body = b"".join(frame(block, payload) for block, payload in messages)
    assert read(split(body, size)) == [(b"e", payload) for _, payload in messages]


@given(st.integers(min_value=0, max_value=len(TWO) - 1), st.integers(min_value=1, max_value=255))
def test_no_damaged_byte_goes_unseen(place: int, flip: int) -> None:
    damaged = bytearray(TWO)
    damaged[place] ^= flip
    found, failed, stray = until_failure(bytes(damaged))
    assert found == (PAIRS[:1] if place >= len(FIRST) else [])
    assert failed == (None if place < 12 else "provider_bad_stream")
    assert bool(stray) == (place < 12)  # the first prelude: no event stream at all


def test_what_came_before_the_damage_is_given() -> None:
    assert until_failure(TWO[:-1] + bytes([TWO[-1] ^ 1]))[:2] == (PAIRS[:1], "provider_bad_stream")


def test_exceptions() -> None:
    [(name, payload)] = read([exception("throttlingException", {"message": "slow down"})])
    assert name == b"error"
    assert json.loads(payload) == {
        "type": "throttlingException",
        "message": "slow down",
        "details": {"message": "slow down"},
    }


def test_an_exception_whose_payload_is_no_json() -> None:
    [(_, payload)] = read([exception("internalServerException", "boom")])
    assert json.loads(payload)["message"] == "boom"


def test_unmodelled_errors() -> None:
    [(name, payload)] = read([error("InternalError", "it broke")])
    assert name == b"error"
    assert (json.loads(payload)["type"], json.loads(payload)["message"]) == ("InternalError", "it broke")


@pytest.mark.parametrize("size", [0, 1])
@pytest.mark.parametrize("body", [b'{"message": "no such model"}', b"{}", b"<html>oh</html>"])
def test_a_body_that_is_no_event_stream(body: bytes, size: int) -> None:
    reader = AwsEventReader()
    for piece in split(body, size):
        assert list(reader.feed(piece)) == []
    assert reader.end() == []
    assert reader.stray == body


def test_stray_bytes_are_bounded() -> None:
    reader = AwsEventReader()
    for _ in range(3):
        list(reader.feed(b"x" * MAX_STRAY))
    assert len(reader.stray) == MAX_STRAY


def prelude(total: int, headers_size: int) -> bytes:
    """A prelude whose checksum is right."""
    lengths = struct.pack(">II", total, headers_size)
    return lengths + struct.pack(">I", crc32(lengths))


@pytest.mark.parametrize(
    ("total", "headers_size"),
    [(2**31, 0), (MAX_HEADERS + 100, MAX_HEADERS + 1), (20, 5), (3, 0)],
    ids=["too large", "headers too large", "headers over the end", "shorter than a frame"],
)
def test_lengths_that_cannot_be(total: int, headers_size: int) -> None:
    assert code(prelude(total, headers_size) + b"\0" * 40) == "provider_bad_stream"


@pytest.mark.parametrize(
    "block",
    [b"\x05ab", header("a", b"", 99), b"\x01a\x07\x00\x09x", b"\x01a", b"\x01\xff\x07\x00\x00"],
    ids=["name over the end", "unknown type", "value over the end", "no type", "name is no text"],
)
def test_headers_that_cannot_be_read(block: bytes) -> None:
    assert code(frame(block, b"{}")) == "provider_bad_stream"


@pytest.mark.parametrize("size", [0, 1])
def test_an_end_inside_a_frame(size: int) -> None:
    assert code(TWO[:-3], size) == "provider_bad_stream"
    assert code(TWO + b"\0\0", size) == "provider_bad_stream"
