"""JSON lines as servers really send them, bytes in, payloads out.

Law of this room: framing only. A line is a value; nothing here knows what a value means, and nothing here reads a
socket. A body that was promised to be lines and is a document (an error report, a page of a proxy) is kept aside
for whoever tells what went wrong.
"""

from __future__ import annotations

from providers.framing import LineFraming, Payload

_SPACE = b" \t\r\n\xef\xbb\xbf"


class NdjsonReader(LineFraming):
    """Cuts a byte stream into lines; the pieces may be cut anywhere. The name of every payload is empty."""

    frame = "line"

    def __init__(self) -> None:
        super().__init__()
        self._given = False

    def feed(self, data: bytes) -> list[Payload]:
        """The lines that ``data`` completes.

        :raises ProviderError: ``provider_bad_stream`` for a line over ``framing.MAX_FRAME`` bytes.
        """
        if self._held:
            if b"\n" not in data:  # a line in many pieces is joined once, not once a piece
                self._hold(data)
                return []
            data = self._with_held(data)
        lines = data.split(b"\n")
        if rest := lines.pop():
            self._hold(rest)
        found: list[Payload] = []
        for line in lines:
            self._line(line, found)
        return found

    def end(self) -> list[Payload]:
        """The line that the end of a body completes: the last line end may be missing."""
        found: list[Payload] = []
        self._line(b"".join(self._held), found)
        self._held = []
        return found

    def _line(self, line: bytes, found: list[Payload]) -> None:
        line = line.strip(_SPACE)
        if not line:
            return
        # A stream begins with an object that ends on its line; what begins otherwise is no stream, to its end.
        if self._given or (not self._stray and line[:1] == b"{" and line[-1:] == b"}"):
            self._given = True
            found.append((b"", line))
        else:
            self._stray.keep(line)
