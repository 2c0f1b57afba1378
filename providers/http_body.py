"""HTTP/1.1 response heads and body framings, bytes in, bytes out.

Law of this room: no sockets. A framing is fed what was read and gives the body bytes in it, as few
Python steps a read as possible: on the token path a read is one chunk.
"""

from __future__ import annotations

import functools
import typing as t
import zlib
from dataclasses import dataclass

#: Longest response head, in bytes.
MAX_HEAD = 64 * 1024


class FramingError(Exception):
    """The peer does not speak HTTP/1.1. The text is for operators."""


@dataclass(frozen=True, slots=True)
class Head:
    """A response's status and headers (names in lower case, repeated ones joined)."""

    status: int
    headers: dict[str, str]
    keep_alive: bool


def parse_head(block: bytes) -> Head:
    """A response head, without its final blank line.

    :raises FramingError: it is none.
    """
    first, *lines = block.decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    status = rest[:3]
    if not version.startswith("HTTP/1.") or not (status.isascii() and status.isdigit() and len(status) == 3):
        raise FramingError("not an HTTP/1.1 response")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        name = name.strip().lower()
        if colon and name:
            value = value.strip()
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
    tokens = headers.get("connection", "").lower()
    keep_alive = "close" not in tokens and (version == "HTTP/1.1" or "keep-alive" in tokens)
    return Head(int(status), headers, keep_alive)


class Body(t.Protocol):
    """One framing.

    ``complete``: the body's own end was read. ``excess``: bytes came after it. ``delimited``: it has an
    end of its own, so the connection may go on after it. ``broken``: the framing is, after what was given.
    """

    complete: bool
    excess: bool
    delimited: bool
    broken: FramingError | None

    def feed(self, data: bytes) -> bytes:
        """The body bytes in ``data``; none once it is broken."""

    def ends_cleanly(self) -> bool:
        """Whether the connection may end here without a byte missing."""


class ChunkedBody:
    """``Transfer-Encoding: chunked``."""

    delimited = True

    def __init__(self) -> None:
        self.complete = False
        self.excess = False
        self.broken: FramingError | None = None
        self._left = 0  # bytes left of the open chunk, its final CRLF included; 0: a size line is next
        self._held = b""
        self._trailer = False

    def feed(self, data: bytes) -> bytes:
        """See :class:`Body`."""
        if self._held:
            data = self._held + data
            self._held = b""
        if not self._left and not self._trailer:  # the common read: one whole chunk
            line = data.find(b"\r\n")
            if 0 < line < 9 and (size := _plain_size(data[:line])) and line + size + 4 == len(data):
                return data[line + 2 : -2]
        parts: list[bytes] = []
        try:
            if self.broken is None:
                self._pieces(data, parts)
        except FramingError as error:
            self.broken = error
            self._trailer = True  # no chunk is read any more
        return b"".join(parts)

    def _pieces(self, data: bytes, parts: list[bytes]) -> None:
        at, end = 0, len(data)
        while at < end and not self._trailer:
            if self._left:
                take = min(self._left, end - at)
                body = min(take, self._left - 2)
                if body > 0:
                    parts.append(data[at : at + body])
                self._left -= take
                at += take
                continue
            line = data.find(b"\r\n", at)
            if line < 0:
                self._hold(data[at:])
                return
            size = _chunk_size(data[at:line])
            at = line + 2
            if size and at + size + 2 <= end:  # a busy vendor: many whole chunks in one read
                parts.append(data[at : at + size])
                at += size + 2
                continue
            self._left = size + 2 if size else 0
            self._trailer = not size
        if self._trailer:
            self._read_trailer(data[at:])

    def ends_cleanly(self) -> bool:
        """See :class:`Body`."""
        return self.complete

    def _hold(self, data: bytes) -> None:
        if len(data) > 4096:
            raise FramingError("a chunk size line without end")
        self._held = data

    def _read_trailer(self, data: bytes) -> None:
        """Skip trailer fields up to the blank line that ends the body."""
        while not self.complete:
            line = data.find(b"\r\n")
            if line < 0:
                self._hold(data)
                return
            self.complete = line == 0
            data = data[line + 2 :]
        self.excess = bool(data)


def _plain_size(digits: bytes) -> int:
    """A size line without extension; 0 when it is something else, which the careful reading will find."""
    try:
        return int(digits, 16)
    except ValueError:
        return 0


@functools.lru_cache(maxsize=256)  # a stream's chunks are of few sizes
def _chunk_size(line: bytes) -> int:
    digits = line.split(b";", 1)[0].strip()
    try:
        if not digits.isalnum() or len(digits) > 15:
            raise ValueError
        return int(digits, 16)
    except ValueError:
        raise FramingError("a chunk without a size") from None


class SizedBody:
    """``Content-Length``."""

    delimited = True

    def __init__(self, size: int) -> None:
        self.complete = size == 0
        self.excess = False
        self.broken: FramingError | None = None
        self._left = size

    def feed(self, data: bytes) -> bytes:
        """See :class:`Body`."""
        if len(data) >= self._left:
            self.excess = len(data) > self._left
            data = data[: self._left]
            self.complete = True
        self._left -= len(data)
        return data

    def ends_cleanly(self) -> bool:
        """See :class:`Body`."""
        return self.complete


class OpenBody:
    """No length: the body is whatever comes until the connection closes."""

    complete = False
    excess = False
    delimited = False
    broken: FramingError | None = None

    def feed(self, data: bytes) -> bytes:
        """See :class:`Body`."""
        return data

    def ends_cleanly(self) -> bool:
        """See :class:`Body`."""
        return True


#: Most bytes that one read may grow to; a larger frame would be refused anyway.
MAX_INFLATED = 16 * 1024 * 1024


class InflatedBody:
    """A framing around a compressed body, for servers that compress although they were asked not to."""

    def __init__(self, inner: Body) -> None:
        self._inner = inner
        self.complete = self.excess = False
        self.delimited = inner.delimited
        self.broken: FramingError | None = None
        self._inflate = zlib.decompressobj(zlib.MAX_WBITS | 32)

    def feed(self, data: bytes) -> bytes:
        """See :class:`Body`."""
        plain = b""
        try:
            plain = self._inflate.decompress(self._inner.feed(data), MAX_INFLATED)
            self.broken = self._inner.broken
            if self._inflate.unconsumed_tail:
                self.broken = FramingError("a compressed body that grows out of all proportion")
        except zlib.error:
            self.broken = FramingError("a compressed body that cannot be read")
        self.complete, self.excess = self._inner.complete, self._inner.excess
        return plain

    def ends_cleanly(self) -> bool:
        """See :class:`Body`."""
        return self._inner.ends_cleanly()


def body_of(head: Head) -> Body:
    """The framing that ``head`` announces (RFC 9112 section 6.3).

    :raises FramingError: it cannot be told.
    """
    headers = head.headers
    body: Body
    if head.status in (204, 304):
        body = SizedBody(0)
    elif "transfer-encoding" in headers:
        if headers["transfer-encoding"].lower().split(",")[-1].strip() != "chunked":
            raise FramingError("a transfer encoding other than chunked")
        body = ChunkedBody()
    elif "content-length" in headers:
        sizes = {size.strip() for size in headers["content-length"].split(",")}
        size = sizes.pop()
        if sizes or not (size.isascii() and size.isdigit()):
            raise FramingError("a content length that is no number")
        body = SizedBody(int(size))
    else:
        body = OpenBody()
    if headers.get("content-encoding", "").lower() in ("gzip", "x-gzip", "deflate"):
        return InflatedBody(body)
    return body
