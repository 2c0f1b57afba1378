"""Writes AWS event-stream frames, for tests; knows nothing of how the program reads them."""

from __future__ import annotations

import base64
import json
import struct
import typing as t
from zlib import crc32


def header(name: str, value: str | bytes, kind: int = 7) -> bytes:
    """One header; ``value`` of a type other than text (7) and bytes (6) is written as it is."""
    data = value.encode() if isinstance(value, str) else value
    length = struct.pack(">H", len(data)) if kind in (6, 7) else b""
    return bytes([len(name)]) + name.encode() + bytes([kind]) + length + data


def frame(headers: bytes, payload: bytes) -> bytes:
    """One message with both checksums."""
    prelude = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    body = prelude + struct.pack(">I", crc32(prelude)) + headers + payload
    return body + struct.pack(">I", crc32(body))


def event(kind: str, value: t.Any) -> bytes:
    """An event with a JSON payload, headers as AWS sends them."""
    headers = (
        header(":event-type", kind)
        + header(":content-type", "application/json")
        + header(":message-type", "event")
    )
    return frame(headers, json.dumps(value).encode())


def exception(kind: str, value: t.Any) -> bytes:
    """A modelled failure inside a stream; a string is sent as it is."""
    headers = (
        header(":exception-type", kind)
        + header(":content-type", "application/json")
        + header(":message-type", "exception")
    )
    return frame(headers, value.encode() if isinstance(value, str) else json.dumps(value).encode())


def error(code: str, message: str) -> bytes:
    """An unmodelled failure inside a stream."""
    headers = (
        header(":message-type", "error") + header(":error-code", code) + header(":error-message", message)
    )
    return frame(headers, b"")


def chunk(value: t.Any) -> bytes:
    """An event of InvokeModelWithResponseStream around the model's own."""
    return event("chunk", {"bytes": base64.b64encode(json.dumps(value).encode()).decode(), "p": "abc"})
