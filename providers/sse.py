"""Server-sent events as vendors really send them, bytes in, payloads out.

Law of this room: framing only. Nothing here knows what a payload means, and nothing here reads a
socket. Follows the WHATWG text (LF, CRLF and CR, comments, several ``data`` lines, a byte order mark)
and forgives what vendors get wrong: a space before ``data:``, events without a blank line between
them, a last event without one, JSON where an event stream was promised.
"""

from __future__ import annotations

import orjson

from providers.framing import LineFraming, Payload


class SseReader(LineFraming):
    """Cuts a byte stream into ``(event name, data)`` pairs; the pieces may be cut anywhere."""

    frame = "event"

    def __init__(self) -> None:
        super().__init__()
        self._cr = False

    def feed(self, data: bytes) -> list[Payload]:
        """The events that ``data`` completes.

        :raises ProviderError: ``provider_bad_stream`` for a frame over ``framing.MAX_FRAME`` bytes.
        """
        if self._cr or b"\r" in data:
            data = self._unify(data)
        if self._held:
            if b"\n" not in data:  # a frame in many pieces is joined once, not once a piece
                self._hold(data)
                return []
            data = self._with_held(data)
        elif data[:6] == b"data: " and data.find(b"\n") == len(data) - 2 and data[-1:] == b"\n":
            return [(b"", data[6:-2])]  # the common read: one event of one line
        blocks = data.split(b"\n\n")
        rest = blocks.pop()
        if rest:
            self._hold(rest)
        found: list[Payload] = []
        for block in blocks:
            head, mark, payload = block.partition(b"data: ")
            if not mark or b"\n" in payload:
                self._parse(block, found)
            elif not head:
                found.append((b"", payload))
            elif head[:6] == b"event:" and head.find(b"\n") == len(head) - 1:
                found.append((head[6:].strip(), payload))
            else:
                self._parse(block, found)
        return found

    def end(self) -> list[Payload]:
        """The event that the end of a body completes: vendors leave out the last blank line."""
        found: list[Payload] = []
        self._cr = False
        if self._held:
            self._parse(b"".join(self._held), found)
            self._held = []
        return found

    def _unify(self, data: bytes) -> bytes:
        """``data`` with LF line ends; a CR at its end waits for what follows."""
        if self._cr:
            data = b"\r" + data
        self._cr = data.endswith(b"\r")
        if self._cr:
            data = data[:-1]
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _parse(self, block: bytes, found: list[Payload]) -> None:
        name = b""
        lines: list[bytes] = []
        for raw in block.split(b"\n"):
            line = raw.lstrip(b" \xef\xbb\xbf")
            if line.startswith(b"data:"):
                lines.append(line[6:] if line.startswith(b"data: ") else line[5:])
            elif line.startswith(b"event:"):
                name = line[6:].strip()
            elif line and not line.startswith((b":", b"id:", b"retry:")):
                self._stray.keep(raw)
        if len(lines) == 1:
            found.append((name, lines[0]))
        elif lines:
            self._several(name, lines, found)

    def _several(self, name: bytes, lines: list[bytes], found: list[Payload]) -> None:
        """One value over several lines, as the standard has it, or several events nobody separated."""
        joined = b"\n".join(lines)
        try:
            orjson.loads(joined)
        except ValueError:
            found.extend((name, line) for line in lines)
        else:
            found.append((name, joined))
