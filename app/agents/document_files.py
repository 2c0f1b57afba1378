"""What a file says, as text that can be searched and quoted.

Law of this room: pure, and slow for large files: callers run it beside the hub. The text that comes out is what is
stored, what passages quote and what their spans count in. A format we cannot read is refused, never guessed at.
"""

from __future__ import annotations

import codecs
import json
import re
import typing as t
from collections.abc import Callable, Iterator
from pathlib import PurePath

from app.encoding import clean_text

#: What a collection may be called, and what that is in words.
COLLECTION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
COLLECTION_WORDS = "1 to 64 letters, digits, '.', '_' and '-', with a letter or digit first"
#: Most characters of a source and of a text.
MAX_SOURCE, MAX_TEXT = 500, 20_000_000
#: Endings that say more than "text"; other files are text if they are UTF-8.
MEDIA_TYPES = {
    ".csv": "text/csv",
    ".htm": "text/html",
    ".html": "text/html",
    ".json": "application/json",
    ".markdown": "text/markdown",
    ".md": "text/markdown",
    ".txt": "text/plain",
}
_HEADING = re.compile(r"#{1,6}[ \t]+(.+)")
_MEDIA_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]+/[a-z0-9!#$&^_.+-]+")
_KINDS = "Send text, such as text/plain, text/markdown or text/html."
_LOOKED_AT = 10_000  # characters at the beginning of a text in which its title is looked for
_MAX_TITLE = 200
#: Most elements of HTML inside one another, as browsers have it. The parser goes through all of them at many a tag.
_DEEPEST = 512
#: Most lists and objects of JSON: the parser lets nobody else work until it is through.
_MOST_PARTS = 1_000_000
_PIECE = 64 * 1024  # bytes of HTML that the parser is given at a time
# The first bytes of what is no UTF-8; those of UTF-32 begin with those of UTF-16.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# Formats people try: the first bytes, what it is, what helps.
_BINARY = (
    (b"%PDF", "a PDF", "Convert it first, e.g. pdftotext FILE.pdf FILE.txt"),
    (b"PK\x03\x04", "a ZIP archive or an office document", "Save it as text, Markdown or HTML"),
    (b"\xd0\xcf\x11\xe0", "an office document", "Save it as text, Markdown or HTML"),
    (b"\x1f\x8b", "compressed", "Unpack it first"),
)


class Unreadable(ValueError):
    """The file is nothing we can read; the text says what helps."""


class UnknownKind(Unreadable):
    """It is the kind that cannot be read, whatever the file holds."""


class TooLong(Unreadable):
    """The text has more characters than are kept of one document."""

    def __init__(self) -> None:
        super().__init__(f"its text has over {MAX_TEXT // 1_000_000} million characters. Split it.")


class Read(t.NamedTuple):
    """A file's text, and its title where it states one."""

    text: str
    title: str | None
    media_type: str


def media_type(name: str) -> str:
    """What a file's name says that it is."""
    return MEDIA_TYPES.get(PurePath(name).suffix.lower(), "text/plain")


def read(data: bytes | str, kind: str) -> Read:
    """The text of a file.

    :param kind: its media type, with or without parameters; any kind of text is taken.
    :raises Unreadable: it is no text, or not of that kind.
    """
    name = known_kind(kind)
    text = data if isinstance(data, str) else _decoded(data)
    reader = _READERS.get(name)
    text, title = (text, None) if reader is None else reader(text)
    if len(text) > MAX_TEXT:
        raise TooLong
    return Read(text, title, name)


def known_kind(kind: str) -> str:
    """A media type without its parameters, in small letters.

    :raises UnknownKind: it is none, or nothing we can read.
    """
    name = kind.partition(";")[0].strip().lower()
    if not _MEDIA_TYPE.fullmatch(name):
        raise UnknownKind(f"{name[:100]!r} is no media type. {_KINDS}")
    if not (
        name.startswith("text/") or name in _READERS or name.endswith(("+json", "+xml", "/xml", "/yaml"))
    ):
        raise UnknownKind(f"{name[:100]} cannot be read. {_KINDS}")
    return name


def _decoded(data: bytes) -> str:
    for start, what, cure in _BINARY:
        if data.startswith(start):
            raise Unreadable(f"it is {what}, not text. {cure}.")
    encoding = next((name for mark, name in _MARKS if data.startswith(mark)), "utf-8-sig")
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise Unreadable(f"it is no text in UTF-8 (byte {error.start}). Save it as UTF-8.") from None


def _markdown(text: str) -> tuple[str, str | None]:
    """The first heading is the title; what closes a heading (``## Title ##``) is not part of it."""
    for line in text[:_LOOKED_AT].splitlines():
        if found := _HEADING.match(line):
            heading = found[1].rstrip()
            bare = heading.rstrip("#")
            if title := _title(bare if bare[-1:] in ("", " ", "\t") else heading):
                return text, title
    return text, None


def _json(text: str) -> tuple[str, str | None]:
    """On many lines, with letters as they are: a chunk ends between members."""
    if text.count("[") + text.count("{") > _MOST_PARTS:
        raise Unreadable(
            "it is JSON of over a million lists and objects. Split it, or add it as text (.txt)."
        )
    try:
        return "".join(_lines_of(json.loads(text))), None
    except Unreadable:
        raise
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"it is no JSON: {error}. Correct it, or add it as text (.txt).") from None


def _lines_of(value: t.Any) -> Iterator[str]:
    """Piece by piece: what is deep inside others begins its lines with many blanks, so a megabyte can be gigabytes.

    :raises TooLong: it is going to be.
    """
    left = MAX_TEXT
    for part in json.JSONEncoder(ensure_ascii=False, indent=1).iterencode(value):
        if (left := left - len(part)) < 0:
            raise TooLong
        yield part


def _html(text: str) -> tuple[str, str | None]:
    from lxml import etree  # the parser of the standard library needs minutes for a page of some kinds

    page = _Page()
    parser = etree.HTMLParser(target=page, encoding="utf-8", huge_tree=True)
    try:
        data = clean_text(text).replace("\0", "\ufffd").encode()
        for at in range(0, max(len(data), 1), _PIECE):
            parser.feed(data[at : at + _PIECE])
        parser.close()
    except etree.LxmlError as error:
        raise Unreadable(f"it is no HTML that can be read: {str(error)[:200]}. Save it as text.") from None
    lines = (" ".join(line.split()) for line in "".join(page.parts).split("\n"))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip(), _title("".join(page.title))


def _title(text: str) -> str | None:
    return " ".join(text.split())[:_MAX_TITLE] or None


# fmt: off
_PARAGRAPHS = frozenset({
    "address", "article", "aside", "blockquote", "dd", "details", "div", "dl", "dt", "fieldset", "figure", "footer",
    "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "main", "nav", "ol", "p", "pre", "section", "table",
    "ul",
})
# fmt: on


_UNSEEN = frozenset({"head", "noscript", "script", "style", "template"})
_LINES = frozenset({"br", "caption", "li", "option", "tr"})
_CELLS = frozenset({"td", "th"})
_LINED = frozenset({"pre", "textarea"})


class _Page:
    """What a reader of an HTML page sees, paragraphs apart; the parser calls it."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.title: list[str] = []
        self._unseen = 0
        self._titled = False
        self._depth = self._lined = 0

    def start(self, tag: str, _attributes: t.Any) -> None:
        """An element begins."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise Unreadable(f"its HTML has over {_DEEPEST} elements inside one another. Save it as text.")
        self._unseen += tag in _UNSEEN
        self._lined += tag in _LINED
        self._titled = tag == "title" and not self.title
        if tag in _PARAGRAPHS:
            self.parts.append("\n\n")
        elif tag in _LINES:
            self.parts.append("\n")
        elif tag in _CELLS:
            self.parts.append(" ")

    def end(self, tag: str) -> None:
        """An element ends; the parser ends each, in order."""
        self._depth -= 1
        self._unseen -= tag in _UNSEEN
        self._lined -= tag in _LINED
        self._titled = False
        if tag in _PARAGRAPHS:
            self.parts.append("\n\n")

    def data(self, text: str) -> None:
        """Text; line ends of the source are blanks, except where a reader sees them."""
        if self._titled:
            self.title.append(text)
        elif not self._unseen:
            self.parts.append(text if self._lined else text.replace("\n", " "))

    def close(self) -> None:
        """The page ends."""


_READERS: dict[str, Callable[[str], tuple[str, str | None]]] = {
    "application/json": _json,
    "text/html": _html,
    "text/markdown": _markdown,
}
