"""AWS event-stream framing (``application/vnd.amazon.eventstream``): binary frames in, named payloads out.

Law of this room: framing only. A frame is believed after both of its checksums; one that is damaged ends the
answer, since nothing behind it can be found again. Layout and header types: "Event stream encoding" of the
Amazon Transcribe developer guide, and Smithy's ``vnd.amazon.eventstream`` page; bounds as in botocore.

::

    total length 4 | headers length 4 | CRC of these 8 | headers | payload | CRC of all before
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from zlib import crc32

import orjson

from providers.errors import failure
from providers.framing import Payload, Stray

#: The media type, as it is asked for.
AWS_STREAM = "application/vnd.amazon.eventstream"
#: Bytes before the headers, and of a frame without headers and payload.
_PRELUDE, _LEAST = 12, 16
MAX_HEADERS = 128 * 1024
MAX_PAYLOAD = 24 * 1024 * 1024
_MAX_FRAME = _LEAST + MAX_HEADERS + MAX_PAYLOAD
#: Bytes of a header value by its type; 6 (bytes) and 7 (text) say their length themselves.
_SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
_BYTES, _TEXT = 6, 7
#: Streams have a handful of different header blocks; more than this and they are not worth keeping.
_MAX_KNOWN = 64

_three = struct.Struct(">III").unpack_from
_one = struct.Struct(">I").unpack_from
_short = struct.Struct(">H").unpack_from


class AwsEventReader:
    """Cuts a byte stream into ``(event type, payload)`` pairs; the pieces may be cut anywhere.

    A message of type ``exception`` or ``error`` becomes ``(b"error", {"type", "message", "details"})``.
    """

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self._size = 0
        self._need = _PRELUDE
        self._begun = False
        self._stray = Stray()
        self._known: dict[bytes, tuple[bytes, bool, str]] = {}

    @property
    def stray(self) -> bytes:
        """The beginning of a body that does not start with a frame: an error report, most often."""
        return self._stray.joined()

    def feed(self, data: bytes) -> Iterator[Payload]:
        """The events that ``data`` completes, one by one, so that those before a damaged frame are not lost.

        :raises ProviderError: ``provider_bad_stream`` for a frame that is damaged, malformed or too large.
        """
        if self._held:
            self._held.append(data)
            self._size += len(data)
            if self._size < self._need:  # a frame in many pieces is joined once, not once a piece
                return
            data = b"".join(self._held)
            self._held = []
        at, size = 0, len(data)
        self._need = _PRELUDE
        while size - at >= _PRELUDE:
            total, headers, checksum = _three(data, at)
            if crc32(data[at : at + 8]) != checksum:
                self._no_prelude(data)
                return
            if headers > MAX_HEADERS or total > _MAX_FRAME or total < headers + _LEAST:
                raise failure(
                    "provider_bad_stream", detail=f"a frame of {total} bytes, {headers} of them headers"
                )
            self._begun = True
            if size - at < total:
                self._need = total
                break
            yield self._frame(data, at, total, headers)
            at += total
        if at < size:
            self._held = [data[at:]]
            self._size = size - at

    def end(self) -> list[Payload]:
        """Nothing: a frame says its own length.

        :raises ProviderError: ``provider_bad_stream`` when the body ended inside one.
        """
        if not self._held:
            return []
        if not self._begun:  # too short to be told from text
            self._no_prelude(b"".join(self._held))
            return []
        raise failure("provider_bad_stream", detail="the body ended inside a frame")

    def _no_prelude(self, data: bytes) -> None:
        """Damage, or a body that was no event stream from its first byte on; the rest of that is kept, too."""
        if self._begun:
            raise failure("provider_bad_stream", detail="a frame whose prelude is damaged")
        self._stray.keep(data)

    def _frame(self, data: bytes, at: int, total: int, headers: int) -> Payload:
        end = at + total - 4
        if crc32(data[at:end]) != _one(data, end)[0]:
            raise failure("provider_bad_stream", detail="a frame that is damaged")
        start = at + _PRELUDE
        block = data[start : start + headers]
        known = self._known.get(block)
        if known is None:
            known = _meaning(block)
            if len(self._known) < _MAX_KNOWN:
                self._known[block] = known
        name, fails, message = known
        payload = data[start + headers : end]
        return (b"error", _report(name, message, payload)) if fails else (name, payload)


def _meaning(block: bytes) -> tuple[bytes, bool, str]:
    """What a header block says: the event's type, whether it reports a failure, the failure's own words."""
    headers = dict(_headers(block))
    kind = headers.get(":message-type", "event")
    if kind == "event":
        return headers.get(":event-type", "").encode(), False, ""
    name = headers.get(":exception-type") or headers.get(":error-code") or kind
    return name.encode(), True, headers.get(":error-message", "")


def _headers(block: bytes) -> Iterator[tuple[str, str]]:
    """The text headers of a block; others are stepped over."""
    at = 0
    try:
        while at < len(block):
            name, at = _take(block, at + 1, block[at])
            kind = block[at]
            if kind in (_BYTES, _TEXT):
                value, at = _take(block, at + 3, _short(block, at + 1)[0])
                if kind == _TEXT:
                    yield name.decode(), value.decode()
            else:
                _, at = _take(block, at + 1, _SIZES[kind])
    except (IndexError, KeyError, UnicodeDecodeError, struct.error) as error:
        raise failure("provider_bad_stream", detail="a frame whose headers cannot be read") from error


def _take(block: bytes, start: int, length: int) -> tuple[bytes, int]:
    end = start + length
    if end > len(block):
        raise IndexError(end)
    return block[start:end], end


def _report(name: bytes, message: str, payload: bytes) -> bytes:
    """An exception as an error report: AWS writes its kind in a header and only the words in the payload."""
    try:
        details = orjson.loads(payload)
    except ValueError:
        details = payload.decode("utf-8", "replace")
    if isinstance(details, dict):
        message = str(details.get("message") or details.get("Message") or message)
    elif isinstance(details, str):
        message = message or details
    return orjson.dumps({"type": name.decode(), "message": message, "details": details})
