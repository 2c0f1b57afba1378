"""Text that vendors cut in the middle of a character.

Law of this room: what leaves is always encodable as UTF-8. A JSON escape of half a character
(``"\\ud83d"``) is legal JSON and no legal text; orjson refuses it, so such payloads are read by the
slower parser here, the two halves are joined across deltas, and a half that stays alone is U+FFFD.
"""

from __future__ import annotations

import json
import math
import re
import typing as t
from collections.abc import Mapping

import orjson

_LONE = re.compile("[\ud800-\udfff]")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def tolerant_loads(payload: bytes) -> t.Any:
    """JSON that strict parsers refuse: half characters, broken UTF-8 (replaced), NaN and the infinities (null).

    :raises ValueError: it is no JSON either way.
    """
    try:
        return json.loads(payload.decode("utf-8", "replace"), parse_constant=lambda _: None)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def whole_text(text: str) -> str:
    """``text`` with pairs of halves joined and every lone half replaced by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        text = _PAIR.sub(lambda m: m[0].encode("utf-16", "surrogatepass").decode("utf-16"), text)
        return _LONE.sub("\ufffd", text)
    return text


def whole_value(value: t.Any) -> t.Any:
    """A JSON value with :func:`whole_text` done to every text in it, and null for what is no number."""
    if isinstance(value, str):
        return whole_text(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, (list, tuple)):
        return [whole_value(item) for item in value]
    if isinstance(value, Mapping):
        return {whole_text(str(key)): whole_value(item) for key, item in value.items()}
    return value


def encode(body: Mapping[str, t.Any]) -> bytes:
    """A request's ``body`` as JSON; text that is none (half a character from a caller) is made whole first."""
    try:
        return orjson.dumps(body)
    except TypeError:
        return json.dumps(whole_value(body), ensure_ascii=False, separators=(",", ":")).encode()


class HalfJoiner:
    """Joins halves across the deltas of one channel (text, thinking, or one call's arguments)."""

    def __init__(self) -> None:
        self._high = ""

    def push(self, text: str) -> str:
        """``text`` made whole; a first half at its end is held for the next delta."""
        text = self._high + text
        self._high = ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            self._high = text[-1]
            text = text[:-1]
        return whole_text(text)

    def flush(self) -> str:
        """What is still held, now known to stay alone."""
        held, self._high = self._high, ""
        return "\ufffd" if held else ""
