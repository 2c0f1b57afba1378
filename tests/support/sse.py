"""Reads Server-Sent Events the way a careful client does.

Law of this room: the parser follows the WHATWG rules and knows no event of ours; what a frame means is for
the test to say.
"""

from __future__ import annotations

import http.client
import json
import socket
import time
import typing as t
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Frame:
    """One dispatched event, or one comment line (``comment`` set, everything else empty).

    ``at`` is the monotonic time in seconds at which its last byte was read.
    """

    data: str = ""
    id: str | None = None
    event: str | None = None
    comment: str | None = None
    at: float = 0.0

    def json(self) -> t.Any:
        """The data, decoded."""
        return json.loads(self.data)


@dataclass
class Parser:
    """Bytes in, frames out; keeps what is incomplete."""

    retry: int | None = None
    _tail: bytes = b""
    _data: list[str] = field(default_factory=list)
    _event: str | None = None
    _id: str | None = None

    def feed(self, piece: bytes) -> list[Frame]:
        """The frames that ``piece`` completes, in order."""
        lines = (self._tail + piece).split(b"\n")
        self._tail = lines.pop()
        frames = []
        for line in lines:
            frame = self._line(line.removesuffix(b"\r").decode())
            if frame is not None:
                frames.append(frame)
        return frames

    def _line(self, line: str) -> Frame | None:
        now = time.monotonic()
        if not line:
            if not self._data:
                self._event = self._id = None
                return None
            frame = Frame("\n".join(self._data), self._id, self._event, at=now)
            self._data, self._event, self._id = [], None, None
            return frame
        if line.startswith(":"):
            return Frame(comment=line[1:].removeprefix(" "), at=now)
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._event = value
        elif name == "id":
            self._id = value
        elif name == "retry":
            self.retry = int(value)
        return None


def parse(body: bytes) -> list[Frame]:
    """All frames of a whole body, comments included."""
    return Parser().feed(body)


class EventStream:
    """An open stream: iterate it for frames, or :meth:`close` it to leave as a client would.

    :ivar status: HTTP status.
    :ivar headers: response headers, case ignored.
    """

    def __init__(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> None:
        self._connection, self._response, self._parser = connection, response, Parser()
        self.status = response.status
        self.headers = response.headers

    def __iter__(self) -> t.Iterator[Frame]:
        while piece := self._response.read1(65536):
            yield from self._parser.feed(piece)

    def events(self) -> t.Iterator[Frame]:
        """The frames without comments."""
        return (frame for frame in self if frame.comment is None)

    def body(self) -> bytes:
        """What is left of the body, whole."""
        return self._response.read()

    def close(self) -> None:
        """Drop the connection at once."""
        self._response.close()
        self._connection.close()

    def __enter__(self) -> t.Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def post(
    port: int, path: str, body: t.Any, headers: t.Mapping[str, str] | None = None, timeout: float = 30.0
) -> EventStream:
    """POST ``body`` as JSON to ``127.0.0.1:port`` and return once the headers are here."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    connection.request(
        "POST", path, json.dumps(body).encode(), {"Content-Type": "application/json", **(headers or {})}
    )
    return EventStream(connection, connection.getresponse())


def get(
    port: int,
    path: str,
    headers: t.Mapping[str, str] | None = None,
    timeout: float = 30.0,
    receive_buffer: int | None = None,
) -> EventStream:
    """GET ``path`` from ``127.0.0.1:port`` and return once the headers are here.

    :param receive_buffer: bytes that the kernel takes in for us; what a slow reader has.
    """
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    if receive_buffer is not None:
        connection.sock = sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        sock.settimeout(timeout)
        sock.connect(("127.0.0.1", port))
    connection.request("GET", path, headers=dict(headers or {}))
    return EventStream(connection, connection.getresponse())


def request(
    port: int,
    method: str,
    path: str,
    body: bytes | None = None,
    headers: t.Mapping[str, str] | None = None,
    timeout: float = 30.0,
) -> tuple[int, http.client.HTTPMessage, bytes]:
    """One whole exchange with ``127.0.0.1:port``: status, headers, body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request(method, path, body, dict(headers or {}))
        response = connection.getresponse()
        return response.status, response.headers, response.read()
    finally:
        connection.close()


def standing(frames: t.Iterable[Frame]) -> dict[str, str]:
    """The standing answer text per block of an agent-events stream: chunks added, retractions applied."""
    text: dict[str, str] = {}
    for frame in frames:
        if frame.comment is not None:
            continue
        value = frame.json()
        if not isinstance(value, dict):
            continue
        if "chunk" in value:
            text[value["blockId"]] = text.get(value["blockId"], "") + value["chunk"]
        elif value.get("event") == "chunk_reset":
            text[value["blockId"]] = ""
    return text
