"""HTTP framings and event-stream framing: any cut of the bytes gives the same."""

from __future__ import annotations

import itertools
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from providers.framing import MAX_FRAME
from providers.http_body import (
    Body,
    ChunkedBody,
    FramingError,
    Head,
    OpenBody,
    SizedBody,
    body_of,
    parse_head,
)
from providers.spec import ProviderError
from providers.sse import SseReader
from tests.providers.driving import WIRES, block, call, chunk, decode, split, sse, stop


def cut(data: bytes, at: list[int]) -> list[bytes]:
    """``data`` cut at these places, taken modulo its length."""
    places = sorted({place % (len(data) + 1) for place in at})
    edges = [0, *places, len(data)]
    return [data[a:b] for a, b in itertools.pairwise(edges)]


CUTS = st.lists(st.integers(0, 10_000), max_size=8)


def chunked(pieces: list[bytes], end: bytes = b"0\r\n\r\n") -> bytes:
    """Pieces as HTTP chunks."""
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + end


def read(body: Body, pieces: list[bytes]) -> bytes:
    """What a framing gives for these reads."""
    return b"".join(body.feed(piece) for piece in pieces)


class TestBodies:
    @settings(deadline=None)
    @given(st.lists(st.binary(min_size=1, max_size=40), max_size=5), CUTS)
    def test_chunked(self, pieces: list[bytes], at: list[int]) -> None:
        body = ChunkedBody()
        assert read(body, cut(chunked(pieces), at)) == b"".join(pieces)
        assert body.complete
        assert not body.excess

    def test_one_chunk_a_read(self) -> None:
        body = ChunkedBody()
        assert body.feed(b"5\r\nhello\r\n") == b"hello"
        assert body.feed(b"0005;ext=1\r\nworld\r\n") == b"world"
        assert not body.ends_cleanly()
        assert body.feed(b"0\r\nTrailer: x\r\n\r\n") == b""
        assert body.ends_cleanly()

    def test_bytes_after_the_end(self) -> None:
        body = ChunkedBody()
        body.feed(chunked([b"a"]) + b"HTTP/1.1")
        assert body.excess

    @pytest.mark.parametrize("line", [b"zz\r\n", b"-5\r\n", b"\r\n", b"1" * 5000])
    def test_broken_chunks(self, line: bytes) -> None:
        body = ChunkedBody()
        assert body.feed(b"2\r\nok\r\n" + line) == b"ok"
        assert body.broken is not None
        assert body.feed(b"2\r\nok\r\n") == b""
        assert not body.ends_cleanly()

    @settings(deadline=None)
    @given(st.binary(max_size=50), CUTS)
    def test_sized(self, data: bytes, at: list[int]) -> None:
        body = SizedBody(len(data))
        assert read(body, cut(data, at)) == data
        assert body.complete

    def test_sized_and_short(self) -> None:
        body = SizedBody(5)
        body.feed(b"1234")
        assert not body.ends_cleanly()
        body.feed(b"56")
        assert body.excess

    def test_compressed_although_not_asked(self) -> None:
        packer = zlib.compressobj(wbits=31)
        packed = packer.compress(b"data: x\n\n") + packer.flush()
        body = body_of(Head(200, {"content-encoding": "gzip", "content-length": str(len(packed))}, True))
        assert read(body, [packed[:5], packed[5:]]) == b"data: x\n\n"
        assert body.complete
        body = body_of(Head(200, {"content-encoding": "gzip"}, True))
        assert body.feed(b"not gzip") == b""
        assert body.broken is not None

    @pytest.mark.parametrize(
        ("headers", "kind"),
        [
            ({}, OpenBody),
            ({"content-length": "3"}, SizedBody),
            ({"content-length": "3, 3"}, SizedBody),
            ({"transfer-encoding": "chunked", "content-length": "3"}, ChunkedBody),
        ],
    )
    def test_which(self, headers: dict[str, str], kind: type) -> None:
        assert isinstance(body_of(Head(200, headers, True)), kind)

    @pytest.mark.parametrize(
        "headers", [{"content-length": "x"}, {"content-length": "3, 4"}, {"transfer-encoding": "gzip"}]
    )
    def test_which_cannot_be_told(self, headers: dict[str, str]) -> None:
        with pytest.raises(FramingError):
            body_of(Head(200, headers, True))

    def test_head(self) -> None:
        head = parse_head(b"HTTP/1.1 200 OK\r\nContent-Type: a\r\nX: 1\r\nx: 2")
        assert head == Head(200, {"content-type": "a", "x": "1, 2"}, True)
        assert not parse_head(b"HTTP/1.0 200 OK").keep_alive
        assert not parse_head(b"HTTP/1.1 200\r\nConnection: Close").keep_alive
        for bad in (b"", b"SSH-2.0-x", b"HTTP/1.1 2x0 OK", b"HTTP/2 200"):
            with pytest.raises(FramingError):
                parse_head(bad)


def events(pieces: list[bytes]) -> list[tuple[bytes, bytes]]:
    """What the reader gives for these reads and a clean end."""
    reader = SseReader()
    return [event for piece in pieces for event in reader.feed(piece)] + reader.end()


BODIES = [
    (b"data: a\n\ndata: b\n\n", [(b"", b"a"), (b"", b"b")]),
    (b"data: a\r\n\r\ndata: b\r\n\r\n", [(b"", b"a"), (b"", b"b")]),
    (b"data: a\r\rdata: b\r\r", [(b"", b"a"), (b"", b"b")]),
    (b"event: x\ndata: a\nid: 1\nretry: 5\n\n", [(b"x", b"a")]),
    (b"\xef\xbb\xbfdata: a\n\n", [(b"", b"a")]),
    (b" data: a\n\n", [(b"", b"a")]),
    (b": WAITING\n\n:ping\ndata: a\n\n", [(b"", b"a")]),
    (b"data:a\n\ndata:  b\n\ndata:[DONE]", [(b"", b"a"), (b"", b" b"), (b"", b"[DONE]")]),
    (b'data: {"a":\ndata: 1}\n\n', [(b"", b'{"a":\n1}')]),
    (b"data: {}\ndata: [DONE]\n\n", [(b"", b"{}"), (b"", b"[DONE]")]),
    (b'data:{"x":"see data: y"}\n\n', [(b"", b'{"x":"see data: y"}')]),
    (b"\n\n\ndata: a\n\n\n\n", [(b"", b"a")]),
    (b"event: only\n\n", []),
    (b"", []),
]


class TestEvents:
    @pytest.mark.parametrize(("body", "found"), BODIES)
    def test_at_every_cut(self, body: bytes, found: list[tuple[bytes, bytes]]) -> None:
        assert events([body]) == found
        assert events([body[at : at + 1] for at in range(len(body))]) == found
        for at in range(len(body)):
            assert events([body[:at], body[at:]]) == found

    def test_text_outside_fields_is_kept(self) -> None:
        reader = SseReader()
        reader.feed(b'{\n"error": 1\n}\n\n')
        assert reader.stray == b'{\n"error": 1\n}'

    def test_a_frame_over_a_megabyte(self) -> None:
        (name, payload), *rest = events(split(sse({"t": "x" * 1_200_000}), 1000))
        assert (name, len(payload), rest) == (b"", 1_200_009, [])

    def test_a_frame_without_end(self) -> None:
        reader = SseReader()
        piece = b"x" * (MAX_FRAME // 4)
        for _ in range(4):
            reader.feed(piece)
        with pytest.raises(ProviderError):
            reader.feed(piece)


CHAT = sse(
    chunk({"role": "assistant", "content": ""}),
    chunk({"reasoning_content": "denk 北"}),
    chunk({"content": "Grüße "}),
    chunk({"content": "\ud83d"}),
    chunk({"content": "\ude00"}),
    call(0, "a", "w", '{"n":'),
    call(0, arguments="1}"),
    call(1, "b", "v", ""),
    chunk({}, "tool_calls", usage={"prompt_tokens": 1}),
    "[DONE]",
)
MESSAGE = sse(
    {"type": "message_start", "message": {"model": "claude", "usage": {"input_tokens": 3}}},
    *block(0, {"type": "thinking", "thinking": ""}, {"type": "thinking_delta", "thinking": "denk 北"}),
    {"type": "ping"},
    *block(1, {"type": "text", "text": ""}, {"type": "text_delta", "text": "Grüße 🌍"}),
    *block(
        2,
        {"type": "tool_use", "id": "t", "name": "w", "input": {}},
        {"type": "input_json_delta", "partial_json": "{}"},
    ),
    *stop("tool_use"),
)


@pytest.mark.parametrize(("wire", "body"), [("openai-chat", CHAT), ("anthropic-messages", MESSAGE)])
@pytest.mark.parametrize("ends", [b"\n", b"\r\n", b"\r"])
@settings(deadline=None)
@given(at=CUTS)
def test_cuts_change_no_event(wire: str, body: bytes, ends: bytes, at: list[int]) -> None:
    body = body.replace(b"\n", ends)
    whole = decode(WIRES[wire], [body])
    assert whole.error is None
    assert decode(WIRES[wire], cut(body, at)) == whole
