"""What the framings have in common: payloads, bounds, and what a body held that was none of theirs.

Law of this room: bytes in, bytes out, and bounded: no upstream takes all memory.
"""

from __future__ import annotations

#: An event's name, which may be empty, and its JSON.
Payload = tuple[bytes, bytes]

#: A frame larger than this is no answer of a model.
MAX_FRAME = 64 * 1024 * 1024
#: Bytes after which no more is kept of what is no frame; enough to tell what it was.
MAX_STRAY = 64 * 1024


class Stray:
    """What came outside any frame: an error report, most often, where a stream was promised.

    :param between: what stood between the pieces.
    """

    __slots__ = ("_between", "_pieces", "_size")

    def __init__(self, between: bytes = b"") -> None:
        self._between = between
        self._pieces: list[bytes] = []
        self._size = 0

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def keep(self, piece: bytes) -> None:
        """Keep a piece; one that begins within the bound is kept whole, since half a report tells nothing."""
        if self._size < MAX_STRAY:
            self._pieces.append(piece)
            self._size += len(piece)

    def joined(self) -> bytes:
        """All that was kept."""
        return self._between.join(self._pieces)
