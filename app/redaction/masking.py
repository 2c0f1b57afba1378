"""What is masked in one place: some finders, on text, on JSON values, on text that comes piece by piece.

Law of this room: what holds nothing comes back as it was, the very same object. Keys are masked as values are, and a
number as the text it would be written as. Nothing is taken away but what was found.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping, Sequence

from app import encoding
from app.redaction.finders import DetectorFinder, Finder
from app.redaction.sieve import Sieve, sieved

#: Digits of a number that is looked at, at least and at most.
_FEWEST, _MOST = 6, 40
#: Characters from which on the data of a file is taken for one, and what it looks like then: base64 in one piece, in
#: which a detector finds nothing but by chance. Anything else is a text like any other.
_LONG = 1024
_BASE64 = re.compile(r"(?:data:[^,\s]{0,200};base64,)?[A-Za-z0-9+/]+={0,2}", re.ASCII)


class Masking:
    """See the module. Every method raises :class:`app.redaction.finders.DetectorFailed`."""

    __slots__ = ("_always", "_sign", "finders")

    def __init__(self, finders: Sequence[Finder]) -> None:
        self.finders = tuple(finders)
        signs = [
            (finder, finder.signs if isinstance(finder, DetectorFinder) else "") for finder in self.finders
        ]
        #: Those that look at every text; the others are not asked about one without any of their signs: most texts of
        #: a JSON value are a word.
        self._always = tuple(finder for finder, needed in signs if not needed)
        every = "".join(needed for _, needed in signs)
        self._sign = re.compile(f"[{re.escape(every)}]") if every else None

    def sieve(self) -> Sieve:
        """For a text that comes piece by piece."""
        return Sieve(self.finders)

    def text(self, text: str) -> str:
        """A whole text."""
        if self._sign is None or self._sign.search(text) is not None:
            return sieved(self.finders, text) if text else text
        return sieved(self._always, text) if self._always and text else text

    def begun(self, text: str) -> str:
        """A text that was cut off: without its end, where that might still have become part of a match."""
        return self.sieve().feed(text)

    def value(self, value: t.Any) -> t.Any:
        """A JSON value, or one that has a JSON form."""
        try:
            return self._value(value)
        except RecursionError:  # as deep as that nobody reads it
            return self.text(encoding.dumps(value).decode())

    def _value(self, value: t.Any) -> t.Any:
        if isinstance(value, str):
            return self.text(value)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, (int, float)):
            return self._number(value)
        if isinstance(value, Mapping):
            return self._mapping(value)
        if isinstance(value, (list, tuple)):
            items = [self._value(item) for item in value]
            same = all(new is old for new, old in zip(items, value, strict=True))
            return value if same else items
        plain = encoding.plain(value)
        if type(plain) is type(value):  # it has no other form
            return value
        masked = self._value(plain)
        return value if masked == plain else masked

    def _mapping(self, value: Mapping[t.Any, t.Any]) -> Mapping[t.Any, t.Any]:
        masked: dict[t.Any, t.Any] = {}
        same = True
        for key, item in value.items():
            name, new = self._value(key), self._value(item)
            same = same and name is key and new is item
            masked[_unused(name, masked) if name is not key else name] = new
        return value if same else masked

    def _number(self, value: int | float) -> t.Any:
        if isinstance(value, float):
            if not value.is_integer() or abs(value) < 10**_FEWEST:
                return value
        elif not 10 ** (_FEWEST - 1) <= abs(value) < 10**_MOST:
            return value
        written = str(int(value))
        masked = self.text(written)
        return value if masked == written else masked


class AskedMasking(Masking):
    """Of what a run was asked: what files hold is theirs, and would take seconds to look at."""

    __slots__ = ()

    def value(self, value: t.Any) -> t.Any:
        """See :class:`Masking`."""
        files = value.get("files") if isinstance(value, Mapping) else None
        if not isinstance(files, list) or not any(map(_holds_data, files)):
            return super().value(value)
        masked = super().value({**value, "files": [_without_data(file) for file in files]})
        masked["files"] = [_with_data(*pair) for pair in zip(masked["files"], files, strict=True)]
        return masked


def _holds_data(file: t.Any) -> bool:
    data = file.get("data") if isinstance(file, Mapping) else None
    return isinstance(data, str) and len(data) >= _LONG and _BASE64.fullmatch(data) is not None


def _without_data(file: t.Any) -> t.Any:
    return {**file, "data": ""} if _holds_data(file) else file


def _with_data(masked: t.Any, file: t.Any) -> t.Any:
    return {**masked, "data": file["data"]} if _holds_data(file) else masked


def _unused(name: t.Any, taken: Mapping[t.Any, t.Any]) -> t.Any:
    """A key that is not there yet: two that are masked are still two."""
    if not isinstance(name, str) or name not in taken:
        return name
    number = 2
    while f"{name} {number}" in taken:
        number += 1
    return f"{name} {number}"
