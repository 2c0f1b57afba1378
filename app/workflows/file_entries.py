"""Entries of an agent's ``files``: what they may say, and what a file is.

Law of this room: a file's kind is read off its first bytes; what an entry, a name or a server says of it is
believed only where the bytes cannot tell (plain text). Pure: nothing is fetched here.
"""

from __future__ import annotations

import binascii
import codecs
import io
import typing as t
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote_to_bytes

from app.errors import Problem
from app.schemas import derive
from app.schemas.paths import join, shown
from app.workflows.template_syntax import is_template

#: Files of one agent, and their bytes together (contract section 8).
MAX_FILES = 15
MAX_BYTES = 50 * 1024 * 1024

#: Characters or bytes of a file that are looked at between two steps; a step. Text in base64 comes in fours.
_PIECE = 1024 * 1024
Step = Callable[[], None]

Kind = t.Literal["image", "pdf", "text"]

#: What an entry may be, by the key that says it.
SOURCES = ("url", "data", "text", "file")
_MAGIC: tuple[tuple[bytes, Kind, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image", "image/png"),
    (b"\xff\xd8\xff", "image", "image/jpeg"),
    (b"GIF87a", "image", "image/gif"),
    (b"GIF89a", "image", "image/gif"),
)
#: Bytes before the header that readers of PDF put up with (ISO 32000-1, Annex H, implementation note 13).
_PDF_LEAD = 1024
_KINDS: Mapping[str, Kind] = {
    "image/png": "image",
    "image/jpeg": "image",
    "image/gif": "image",
    "image/webp": "image",
    "application/pdf": "pdf",
}
#: Media types of text that do not begin with ``text/``.
_TEXTS = frozenset(
    {"application/json", "application/xml", "application/yaml", "application/javascript", "application/csv"}
)


def _no_step() -> None:
    """Nobody waits."""


class FileRefused(ValueError):
    """A file that cannot be used; the text says why and what could."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One file as a document or a request names it: by address, by its content, as text, or by the id of one that was
    uploaded.
    """

    url: str | None = None
    data: str | None = field(default=None, metadata={"doc": "base64, or a data: URL"})
    text: str | None = None
    file: str | None = field(default=None, metadata={"doc": "its id, of POST /api/files", "most": 255})
    media_type: str | None = field(default=None, metadata={"most": 255})
    name: str | None = field(default=None, metadata={"most": 255})


def file_problems(value: t.Any, path: str) -> list[Problem]:
    """What is wrong with an agent's ``files``: a template that gives a list, or a list of entries."""
    if value is None:
        return []
    if isinstance(value, str):
        if is_template(value):
            return []  # what it says is looked at with the other templates
        return [Problem(path, 'must be a list of files, or a template that gives one: "{{ input.files }}"')]
    if not isinstance(value, list):
        return [Problem(path, f"must be a list of files, not {shown(value)}")]
    problems = []
    if len(value) > MAX_FILES:
        problems.append(Problem(path, f"must have at most {MAX_FILES} entries; it has {len(value)}"))
    for index, raw in enumerate(value[:MAX_FILES]):
        problems += _entry_problems(raw, join(path, index))
    return problems


def _entry_problems(raw: t.Any, path: str) -> list[Problem]:
    if isinstance(raw, str) and is_template(raw):
        return []
    templated = isinstance(raw, Mapping) and any(
        isinstance(value, str) and is_template(value) for value in raw.values()
    )
    try:
        entry = entry_of(raw, path)
        if not templated and entry.url is None and entry.file is None:
            content_of(entry)
    except FileRefused as refused:
        return [Problem(path, str(refused))]
    except InvalidEntry as invalid:
        return invalid.problems
    return []


class InvalidEntry(ValueError):
    """An entry that is none; ``problems`` says what is wrong, by path."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(f"{p.path}: {p.message}" for p in problems))
        self.problems = problems


def entry_of(raw: t.Any, path: str) -> Entry:
    """An entry as a value; a text is an address or a ``data:`` URL.

    :raises InvalidEntry: it is no entry.
    """
    if isinstance(raw, str):
        raw = {"data" if raw[:5].lower() == "data:" else "url": raw}
    entry, problems = derive.load(Entry, raw, path)
    if entry is None:
        raise InvalidEntry(problems)
    given = [name for name in SOURCES if getattr(entry, name) is not None]
    if len(given) != 1:
        has = " and ".join(given) or "none of them"
        raise InvalidEntry(
            [Problem(path, f"needs one of {', '.join(SOURCES[:-1])} and {SOURCES[-1]}; it has {has}")]
        )
    url = entry.url
    if url is not None and not is_template(url) and not url.lower().startswith(("http://", "https://")):
        if url[:5].lower() == "data:":
            return Entry(data=url, media_type=entry.media_type, name=entry.name)
        raise InvalidEntry([Problem(join(path, "url"), "must begin with http:// or https://")])
    return entry


def content_of(entry: Entry, step: Step = _no_step) -> tuple[bytes, str]:
    """The bytes of an entry with ``data`` or ``text``, and the media type that goes with them (may be empty).

    :param step: called now and then; may let others go on.
    :raises FileRefused: the data is no base64 or no ``data:`` URL.
    """
    stated = entry.media_type or ""
    if entry.text is not None:
        return entry.text.encode("utf-8", "replace"), stated
    data = entry.data or ""
    if data[:5].lower() != "data:":
        return _decoded(data, step), stated
    head, comma, body = data[5:].partition(",")
    if not comma:
        raise FileRefused("its data: URL has no comma; write data:image/png;base64,…")
    media_type, *options = head.split(";")
    raw = _decoded(body, step) if "base64" in (o.strip().lower() for o in options) else unquote_to_bytes(body)
    return raw, stated or media_type


def _decoded(data: str, step: Step) -> bytes:
    decoded = io.BytesIO()  # its value is no copy
    try:
        decoded.writelines(_from_base64(data, step))
        return decoded.getvalue()
    except (binascii.Error, ValueError):
        raise FileRefused("its data is no base64; encode the file's bytes, or use text") from None


def _from_base64(data: str, step: Step) -> Iterator[bytes]:
    """White space may be anywhere in it.

    :raises ValueError: it is no base64; binascii's error is one.
    """
    rest = ""
    for start in range(0, len(data), _PIECE):
        rest += "".join(data[start : start + _PIECE].split())
        padding = rest.find("=")
        if padding < 0:
            whole = len(rest) - len(rest) % 4
            yield binascii.a2b_base64(rest[:whole], strict_mode=True)
            rest = rest[whole:]
        elif len(rest) - padding > 2:
            raise ValueError("more than the padding")
        step()
    yield binascii.a2b_base64(rest, strict_mode=True)


def sniff(data: bytes, stated: str = "", step: Step = _no_step) -> tuple[Kind, str, bytes]:
    """Kind, media type and bytes of a file; text comes back as UTF-8 without a mark.

    :param stated: what somebody says it is; believed only of text. :param step: see :func:`content_of`.
    :raises FileRefused: it is empty, none of the kinds there are, or text that is said to be something else.
    """
    if not data:
        raise FileRefused("is empty; leave it out")
    for magic, kind, media_type in _MAGIC:
        if data.startswith(magic):
            return kind, media_type, data
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image", "image/webp", data
    if b"%PDF-" in data[:_PDF_LEAD]:
        return "pdf", "application/pdf", data
    text = _text(data, step)
    if text is None:
        raise FileRefused("is neither an image (PNG, JPEG, GIF, WebP) nor a PDF nor text in UTF-8")
    if _kind_of(stated) is not None:  # an error page where a picture was meant, most often
        raise FileRefused(f"is said to be {_bare(stated)}, but its bytes are text")
    return "text", stated if _is_text(stated) else "text/plain", text


def _text(data: bytes, step: Step) -> bytes | None:
    """``data`` as UTF-8 without its mark, or None when it is no text."""
    wide = data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    decoder = codecs.getincrementaldecoder("utf-16" if wide else "utf-8")()
    written = []
    try:
        for start in range(0, len(data), _PIECE):
            text = decoder.decode(data[start : start + _PIECE], start + _PIECE >= len(data))
            if "\0" in text:
                return None
            if wide:
                written.append(text.encode())
            step()
    except UnicodeError:
        return None
    return b"".join(written) if wide else data.removeprefix(codecs.BOM_UTF8)


def _is_text(media_type: str) -> bool:
    plain = _bare(media_type)
    return plain.startswith("text/") or plain in _TEXTS or plain.endswith(("+json", "+xml"))


def known_kind(raw: t.Any) -> Kind | None:
    """The kind of an entry as far as it is known before a run: from its content, else from its media type."""
    try:
        entry = entry_of(raw, "")
        if entry.url is None and entry.file is None and not is_template(entry.data or entry.text or ""):
            data, stated = content_of(entry)
            return sniff(data, stated)[0]
    except (FileRefused, InvalidEntry):
        return None
    return _kind_of(entry.media_type or "")


def _kind_of(media_type: str) -> Kind | None:
    """The kind a media type names, when it is not text."""
    return _KINDS.get(_bare(media_type))


def _bare(media_type: str) -> str:
    """A media type without its parameters."""
    return media_type.partition(";")[0].strip().lower()
