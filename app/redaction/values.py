"""Masking of values that are known, whatever form they come back in.

Law of this room: an answer may repeat what it was asked with: as it was, quoted, escaped, in base64. Each form is
looked for as a plain text, so that a long answer costs milliseconds; a value that comes back in a form nobody
foresaw was sent back on purpose, by someone who has it anyway.
"""

from __future__ import annotations

import base64
import functools
import html
import json
import re
import typing as t
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import quote, quote_plus

from app import encoding

MASK = "***"
#: A shorter value stands in any text by chance and is no secret to speak of.
SHORTEST = 6

_BASE64_RUN = re.compile(r"[A-Za-z0-9+/_=-]{6,}")
_URL_SAFE = str.maketrans("+/", "-_")


class ValueMask:
    """Replaces ``values`` by ``***``; those shorter than :data:`SHORTEST` are left alone."""

    __slots__ = ("_cores", "_forms")

    def __init__(self, values: Iterable[str]) -> None:
        long_enough = {value for value in values if len(value) >= SHORTEST}
        forms = {form for value in long_enough for form in forms_of(value) if len(form) >= SHORTEST}
        # The longest first: a form inside of another must not leave the rest of it standing.
        self._forms = tuple(sorted(forms, key=len, reverse=True))
        self._cores = tuple({core for value in long_enough for core in cores_of(value)})

    def __bool__(self) -> bool:
        return bool(self._forms)

    def text(self, text: str) -> str:
        """``text`` without the values."""
        for form in self._forms:
            if form in text:
                text = text.replace(form, MASK)
        cores = [core for core in self._cores if core in text]
        if cores:
            text = _BASE64_RUN.sub(
                lambda run: MASK if any(core in run[0] for core in cores) else run[0], text
            )
        return text

    def json(self, text: str) -> str:
        """``text`` without the values. Where it is JSON that spells one in its own way, it is written anew."""
        text = self.text(text)
        if "\\" not in text:  # JSON has no other way to spell
            return text
        try:
            plain = encoding.dumps(encoding.loads(text)).decode()
        except ValueError:
            return text
        masked = self.text(plain)
        return text if masked == plain else masked

    def value(self, value: t.Any) -> t.Any:
        """A JSON value without the values, in its keys and numbers too; the same one where it holds none."""
        written = encoding.dumps(value).decode()
        return value if self.text(written) == written else self._without(value)

    def _without(self, value: t.Any) -> t.Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(key)): self._without(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._without(item) for item in value]
        written = encoding.dumps(value).decode()
        return value if self.text(written) == written else MASK


def value_mask(values: Iterable[str]) -> ValueMask:
    """The mask of ``values``; that of the same ones is made once, since making it costs more than using it."""
    return _made(frozenset(values))


@functools.lru_cache(maxsize=64)
def _made(values: frozenset[str]) -> ValueMask:
    return ValueMask(values)


def forms_of(value: str) -> Iterator[str]:
    """``value`` as it stands in a header, an address, a page, a JSON or a Python text."""
    for line in {value, value.strip(), *(line.strip() for line in value.splitlines())}:
        for case in {line, line.lower(), line.upper()}:
            yield from _spelled(case)
        yield line.encode("utf-8", "replace").hex()
        yield line.encode("latin-1", "replace").hex()
        # Sent in one encoding, read in the other.
        yield line.encode("utf-8", "replace").decode("latin-1")
        yield line.encode("latin-1", "replace").decode("utf-8", "replace")


def _spelled(line: str) -> Iterator[str]:
    yield line
    for charset in ("utf-8", "latin-1"):
        for safe in ("", "/"):
            quoted = quote(line, safe=safe, encoding=charset, errors="replace")
            yield quoted
            yield re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), quoted)
        yield quote_plus(line, encoding=charset, errors="replace")
    for only_ascii in (True, False):
        escaped = json.dumps(line, ensure_ascii=only_ascii)[1:-1]
        yield escaped
        yield json.dumps(escaped)[1:-1]  # a text inside a JSON text that is a text in JSON
    yield json.dumps(line)[1:-1].replace("/", "\\/")
    yield repr(line)[1:-1]
    yield html.escape(line)
    yield html.escape(line).replace("&#x27;", "&#39;").replace("&quot;", "&#34;")


def cores_of(value: str) -> Iterator[str]:
    """What base64 of anything that holds ``value`` holds, at each of the three places it may begin."""
    for charset in ("utf-8", "latin-1"):
        data = value.encode(charset, "replace")
        for before in range(3):
            coded = base64.b64encode(b"\0" * before + data).decode()
            core = coded[-(-8 * before // 6) : 8 * (before + len(data)) // 6]
            yield core
            yield core.translate(_URL_SAFE)
