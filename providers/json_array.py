"""JSON values that arrive in pieces: an array of objects, one object, or objects after one another.

Law of this room: framing only, like ``sse``. An object is handed over as soon as its last brace came; what stands
between objects (brackets, commas, white space) says nothing. What Google sends where nobody asked for events.
"""

from __future__ import annotations

import re

from providers.errors import failure
from providers.framing import MAX_FRAME, Payload, Stray

#: Bytes that matter inside an object; inside a string only the last two do.
_MARKS = re.compile(rb'[{}"\\]')
_STRING_MARKS = re.compile(rb'["\\]')
_BETWEEN = b"[], \t\r\n\xef\xbb\xbf"


class JsonArrayReader:
    """Cuts a byte stream into the objects of its outermost level; the pieces may be cut anywhere."""

    def __init__(self) -> None:
        self._held: list[bytes] = []  # the open object so far
        self._size = 0
        self._depth = 0
        self._in_string = False
        self._escaped = False  # the last byte was a backslash inside a string
        self._stray = Stray()

    @property
    def stray(self) -> bytes:
        """What came between objects and was no JSON."""
        return self._stray.joined()

    def feed(self, data: bytes) -> list[Payload]:
        """The objects that ``data`` completes.

        :raises ProviderError: ``provider_bad_stream`` for an object over the size of ``framing.MAX_FRAME``.
        """
        found: list[Payload] = []
        at = 0
        while at < len(data):
            if not self._depth:
                at = self._next_object(data, at)
                continue
            end = self._object_end(data, at)
            self._held.append(data[at:end])
            self._size += end - at
            if self._size > MAX_FRAME:
                raise failure("provider_bad_stream", detail="a single object that is too large")
            at = end
            if not self._depth:
                found.append((b"", b"".join(self._held)))
                self._held, self._size = [], 0
        return found

    def end(self) -> list[Payload]:
        """An object that the body ended inside of, as far as it came: it is no JSON, and that is the point."""
        held, self._held = self._held, []
        return [(b"", b"".join(held))] if held else []

    def _next_object(self, data: bytes, at: int) -> int:
        """Where the next object begins, or the end; its brace is left to :meth:`_object_end`."""
        start = data.find(b"{", at)
        between = data[at:] if start < 0 else data[at:start]
        if odd := between.strip(_BETWEEN):
            self._stray.keep(odd)
        if start < 0:
            return len(data)
        self._depth = 1
        self._held.append(b"{")
        self._size = 1
        return start + 1

    def _object_end(self, data: bytes, at: int) -> int:
        """The position after the open object's last byte in ``data``, or the end of ``data``."""
        if self._escaped:
            self._escaped = False
            at += 1
        while at < len(data):
            mark = (_STRING_MARKS if self._in_string else _MARKS).search(data, at)
            if mark is None:
                break
            at = mark.end()
            byte = mark[0]
            if byte == b'"':
                self._in_string = not self._in_string
            elif byte == b"\\":
                if at == len(data):
                    self._escaped = True
                at += 1
            else:
                self._depth += 1 if byte == b"{" else -1
                if not self._depth:
                    return at
        return len(data)
