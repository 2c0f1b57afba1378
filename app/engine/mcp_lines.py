"""Log lines between the process of MCP servers and its worker: whole, or cut so far out that nobody sees the cut.

Law of this room: pure; both ends use it. A line is masked before it is shortened: of a secret that was cut in two, no
half would be known. So what is carried is longer than any secret that is stored, and what is shown a small part of it.
"""

from __future__ import annotations

#: Most bytes of a line that are carried, and most characters that are shown.
CARRIED, SHOWN = 80 * 1024, 1000


class LineSplitter:
    """Bytes in pieces become lines; what of one is beyond ``most`` bytes is dropped."""

    def __init__(self, most: int = CARRIED) -> None:
        self._most = most
        self._rest = b""
        self._cut = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that are complete by now, and one that has grown too long."""
        *whole, rest = chunk.split(b"\n")
        lines = []
        for end in whole:
            if not self._cut:
                lines.append((self._rest + end)[: self._most])
            self._rest, self._cut = b"", False
        if not self._cut:
            self._rest += rest
            if len(self._rest) > self._most:
                lines.append(self._rest[: self._most])
                self._rest, self._cut = b"", True
        return lines

    def last(self) -> list[bytes]:
        """What is there when no more comes."""
        return [self._rest] if self._rest else []
