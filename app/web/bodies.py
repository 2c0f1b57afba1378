"""Large request bodies: taken in, looked through and digested in pieces, so that streams go on meanwhile.

Law of this room: nothing here is done for longer than a piece of a body takes; what a body says is for others to say.
"""

from __future__ import annotations

import hmac
import io
import re
import typing as t
from collections.abc import Callable

from app.engine.giving_way import giving_way

#: Bytes that are dealt with at once.
PIECE = 1024 * 1024
#: Of strings full of escaped quotes, which are passed over sign by sign.
_ESCAPED = PIECE // 16
_WITHIN = re.compile(rb'(?:[^"\\]|\\.)*+', re.DOTALL)
_SIGNS = (b"[", b"{", b":", b",")


def taken_in(stream: t.IO[bytes]) -> bytes:
    """All of a stream. A socket that has something to read does not let others go on by itself."""
    taken, step = io.BytesIO(), giving_way()  # its value is no copy: to make one of all at once takes long
    while piece := stream.read(PIECE):
        taken.write(piece)
        step()
    return taken.getvalue()


def digest_of(key: bytes, data: bytes) -> bytes:
    """SHA-256 of ``data`` with a key (HMAC)."""
    made, step = hmac.new(key, digestmod="sha256"), giving_way()
    for start in range(0, len(data), PIECE):
        made.update(data[start : start + PIECE])
        step()
    return made.digest()


def has_more(data: bytes, most: int) -> bool:
    """Whether there is more in some JSON than ``most`` strings, brackets, colons and commas, those in strings aside.

    :param data: JSON, or anything else.
    """
    found, at, step = 0, 0, giving_way()
    while found <= most:
        quote = data.find(b'"', at)
        end = len(data) if quote < 0 else quote
        for start in range(at, end, PIECE):
            found += sum(data.count(sign, start, min(end, start + PIECE)) for sign in _SIGNS)
            step()
        if quote < 0:
            break
        found += 1
        at = _behind(data, quote + 1, step)
        step()
    return found > most


def _behind(data: bytes, at: int, step: Callable[[], None]) -> int:
    """The place behind a string, given one inside of it at which no escape is under way."""
    while (quote := data.find(b'"', at)) >= 0:
        before = data[at:quote]
        if (len(before) - len(before.rstrip(b"\\"))) % 2 == 0:
            return quote + 1
        # Where one quote is escaped the next ones may be, too.
        within = _WITHIN.match(data, quote + 1, quote + 1 + _ESCAPED)
        at = quote + 1 if within is None else within.end()
        step()
    return len(data)
