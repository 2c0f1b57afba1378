"""What a file says, as text that can be searched and quoted.

Law of this room: pure, and slow for large files: callers run it beside the hub. The text that comes out is what is
stored, what passages quote and what their spans count in. A format we cannot read is refused, never guessed at.
"""

from __future__ import annotations

import codecs
import json
import re
import typing as t
from collections.abc import Callable
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
_HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t#]*$", re.MULTILINE)
_LOOKED_AT = 10_000  # characters at the beginning of a text in which its title is looked for
_MAX_TITLE = 200
# Formats people try: the first bytes, what it is, what helps.
_BINARY = (
    (b"%PDF", "a PDF", "Convert it first, e.g. pdftotext FILE.pdf FILE.txt"),
    (b"PK\x03\x04", "a ZIP archive or an office document", "Save it as text, Markdown or HTML"),
    (b"\xd0\xcf\x11\xe0", "an office document", "Save it as text, Markdown or HTML"),
    (b"\x1f\x8b", "compressed", "Unpack it first"),
)


class Unreadable(ValueError):
    """The file is nothing we can read; the text says what helps."""


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
    name = kind.partition(";")[0].strip().lower()
    if not (
        name.startswith("text/") or name in _READERS or name.endswith(("+json", "+xml", "/xml", "/yaml"))
    ):
        raise Unreadable(
            f"{name[:100]} cannot be read. Send text, such as text/plain, text/markdown or text/html."
        )
    text = data if isinstance(data, str) else _decoded(data)
    reader = _READERS.get(name)
    if reader is None:
        return Read(text, None, name)
    return Read(*reader(text), name)


def _decoded(data: bytes) -> str:
    for start, what, cure in _BINARY:
        if data.startswith(start):
            raise Unreadable(f"it is {what}, not text. {cure}.")
    encoding = "utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise Unreadable(f"it is no text in UTF-8 (byte {error.start}). Save it as UTF-8.") from None


def _markdown(text: str) -> tuple[str, str | None]:
    found = _HEADING.search(text[:_LOOKED_AT])
    return text, _title(found[1]) if found else None


def _json(text: str) -> tuple[str, str | None]:
    """On many lines, with letters as they are: a chunk ends between members."""
    try:
        value = json.loads(text)
        return json.dumps(value, ensure_ascii=False, indent=1), None
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"it is no JSON: {error}. Correct it, or add it as text (.txt).") from None


def _html(text: str) -> tuple[str, str | None]:
    from lxml import etree  # the parser of the standard library needs minutes for a page of some kinds

    page = _Page()
    parser = etree.HTMLParser(target=page, encoding="utf-8", huge_tree=True)
    try:
        parser.feed(clean_text(text).replace("\0", "\ufffd").encode())
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


class _Page:
    """What a reader of an HTML page sees, paragraphs apart; the parser calls it."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.title: list[str] = []
        self._unseen = 0
        self._titled = False

    def start(self, tag: str, _attributes: t.Any) -> None:
        """An element begins."""
        self._unseen += tag in _UNSEEN
        self._titled = tag == "title" and not self.title
        if tag in _PARAGRAPHS:
            self.parts.append("\n\n")
        elif tag in _LINES:
            self.parts.append("\n")
        elif tag in _CELLS:
            self.parts.append(" ")

    def end(self, tag: str) -> None:
        """An element ends; the parser ends each, in order."""
        self._unseen -= tag in _UNSEEN
        self._titled = False
        if tag in _PARAGRAPHS:
            self.parts.append("\n\n")

    def data(self, text: str) -> None:
        """Text; line ends of the source are blanks."""
        if self._titled:
            self.title.append(text)
        elif not self._unseen:
            self.parts.append(text.replace("\n", " "))

    def close(self) -> None:
        """The page ends."""


_READERS: dict[str, Callable[[str], tuple[str, str | None]]] = {
    "application/json": _json,
    "text/html": _html,
    "text/markdown": _markdown,
}
