"""Cutting a text into chunks small enough to quote.

Law of this room: pure. A chunk is ``text[start:end]`` and says so; every character but blanks around chunks is in
one. Chunks end where a paragraph does, else a line, a sentence, a word; only a text without any of these is cut
anywhere. One that ends inside a paragraph is followed by one that repeats its last sentence or words.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Iterator

#: Most characters of a chunk: a few paragraphs, some 250 tokens of English.
CHUNK = 1200
#: Most characters that a chunk repeats of the one before.
OVERLAP = 160

_PARAGRAPH = re.compile(r"\n[^\S\n]*\n\s*")
_SENTENCE = re.compile(r"[.!?…]['\"”’)\]]*\s+|[。！？．][”’」』）]*\s*|\n\s*")
_WORD = re.compile(r"\s+")
# By preference; a line's end is a sentence's, too, so that lists and tables are cut between lines.
_BORDERS = (_PARAGRAPH, _SENTENCE, _WORD)


class Span(t.NamedTuple):
    """Characters ``start`` to ``end`` of a text, the end not included."""

    start: int
    end: int


def spans(text: str) -> Iterator[Span]:
    """The chunks of ``text``, in order; none when it is blank."""
    start, size = 0, len(text)
    while True:
        start = _past_blanks(text, start, size)
        if start == size:
            return
        border, inside = _border(text, start)
        end = border
        while text[end - 1].isspace():
            end -= 1
        yield Span(start, end)
        if border == size:
            return
        start = _again(text, end) if inside else border


def _past_blanks(text: str, start: int, size: int) -> int:
    while start < size and text[start].isspace():
        start += 1
    return start


def _border(text: str, start: int) -> tuple[int, bool]:
    """Where the chunk that begins at ``start`` ends, and whether that is inside a paragraph."""
    limit = start + CHUNK
    if len(text) <= limit:
        return len(text), False
    for border in _BORDERS:
        last = None
        for last in border.finditer(text, start + CHUNK // 2, limit):  # noqa: B007
            pass
        if last is not None:
            return last.end(), border is not _PARAGRAPH
    return limit, False


def _again(text: str, end: int) -> int:
    """Where the next chunk begins so that it repeats a sentence, or at least words, of what ends at ``end``."""
    for border in (_SENTENCE, _WORD):
        first = border.search(text, end - OVERLAP, end)
        if first is not None and first.end() < end:
            return first.end()
    return end
