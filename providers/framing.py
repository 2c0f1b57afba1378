"""What the framings have in common: payloads, bounds, and what a body held that was none of theirs.

Law of this room: bytes in, bytes out, and bounded: no upstream takes all memory.
"""

from __future__ import annotations

from providers.spec import ProviderError

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


class LineFraming:
    """Base of the framings whose frames end at line ends: what waits for its end, and what was no frame.

    A frame in many pieces is joined once, not once a piece, and bounded by :data:`MAX_FRAME`.

    :cvar frame: what a frame is called in a message.
    """

    frame = "frame"

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self._size = 0
        self._stray = Stray(b"\n")

    @property
    def stray(self) -> bytes:
        """Lines that were no frame, joined: the body, when the vendor sent nothing of what it had promised."""
        return self._stray.joined()

    def _hold(self, data: bytes) -> None:
        self._held.append(data)
        self._size += len(data)
        if self._size > MAX_FRAME:
            raise ProviderError(
                "provider_bad_stream", f"The provider sent a single {self.frame} that is too large."
            )

    def _with_held(self, data: bytes) -> bytes:
        """``data`` behind what waited for it."""
        self._held.append(data)
        data = b"".join(self._held)
        self._held = []
        self._size = 0
        return data
