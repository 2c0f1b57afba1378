"""Which passages a text really cites.

Law of this room: pure, linear in the text, and doubtful cases are no citation. A text cites a passage when it names it
as ``[n]`` and what it says there stands in the passage, letter by letter: a quotation right before the mark, else the
sentence that the mark is at the end of. Passages are parts of stored documents (:mod:`app.blocks.retrieve`), so what
stands in one stands in its document.
"""

from __future__ import annotations

import re
import typing as t
import unicodedata
from collections.abc import Iterator, Mapping, Sequence

#: Fewer letters and digits than this prove nothing: every passage has a "yes".
LEAST = 8
#: Marks and words that stand together: ``[1]``, ``[1, 2]``, ``[1][2]``.
_MARKS = re.compile(r"(?:\[\d{1,4}(?:[ \t]*[,;][ \t]*\d{1,4}){0,50}\][ \t]*){1,50}")
_NUMBER = re.compile(r"\d{1,4}")
_SENTENCE_END = re.compile(r"[.!?:;](?=\s)|[。！？]|\n[ \t]*\n|^[ \t]*[-*#>|]+\s", re.MULTILINE)
_QUOTED = re.compile(r"[\"“”„«»‹›]([^\"“”„«»‹›]{1,5000})[\"“”„«»‹›][ \t]*[.!?,]?\Z")
_LEFT_OUT = re.compile(r"\[?(?:…|\.{3})\]?")
_LETTERS = re.compile(r"[^\W_]+")


def cited(text: str, passages: Sequence[t.Any]) -> list[Mapping[str, t.Any]]:
    """The passages that ``text`` cites, each once, in the order in which it does.

    :param passages: with ``index``, the number they are named by, and ``text``; as ``results`` of a ``retrieve`` block.
    """
    known = {passage.get("index"): passage for passage in passages if isinstance(passage, Mapping)}
    plain: dict[t.Any, str] = {}
    found: dict[int, Mapping[str, t.Any]] = {}
    for said, numbers in _claims(text):
        for number in numbers:
            passage = known.get(number)
            if passage is None or number in found:
                continue
            if number not in plain:
                plain[number] = _words(str(passage.get("text", "")))
            if _stands(said, plain[number]):
                found[number] = passage
    return list(found.values())


def _claims(text: str) -> Iterator[tuple[str, list[int]]]:
    """What is said before each group of marks, and the numbers in it."""
    start = 0
    for marks in _MARKS.finditer(text):
        yield _said(text[start : marks.start()]), [int(number) for number in _NUMBER.findall(marks[0])]
        start = marks.end()


def _said(before: str) -> str:
    """The quotation that ``before`` ends with, else its last sentence."""
    quoted = _QUOTED.search(before)
    if quoted is not None:
        return quoted[1]
    before = before.rstrip().rstrip(".!?。！？")
    ends = [found.end() for found in _SENTENCE_END.finditer(before)]
    return before[ends[-1] :] if ends else before


def _stands(said: str, passage: str) -> bool:
    """Whether all of it is in the passage, in its order; what it says to have left out may be anything."""
    pieces = [words for piece in _LEFT_OUT.split(said) if (words := _words(piece))]
    if len("".join(pieces).replace(" ", "")) < LEAST:
        return False
    place = 0
    for piece in pieces:
        place = passage.find(piece, place)
        if place < 0:
            return False
        place += len(piece)
    return True


def _words(text: str) -> str:
    """Letters and digits alone, small, with one space between words."""
    return " ".join(_LETTERS.findall(unicodedata.normalize("NFKC", text).casefold()))
