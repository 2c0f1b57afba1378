"""Texts that can be found again, whatever became of them.

Law of this room: nothing here knows the program. A mark begins and ends with a sign of its own, so that half of one is
found too; a piece of personal data is looked for by what it is. Secrets and personal data stand in a drawn case as
names (``%%…%%``) that are filled in when it is played, with others each time.
"""

from __future__ import annotations

import base64
import functools
import json
import re
import typing as t
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from tests.leaks.personal import personal

#: What a mark is about, by the letter that stands in it.
CLASSES: Mapping[str, str] = {
    "n": "name of a block, an agent or a workflow",
    "m": "name of a model",
    "p": "prompt",
    "d": "description of a tool or a route",
    "c": "other configuration",
    "a": "arguments of a tool",
    "r": "result of a tool or a request",
    "t": "thinking",
    "s": "stored secret, or key of a vendor",
    "v": "what a vendor said of a failure",
    "e": "how a failure is told",
    "x": "reason of a decision inside",
    "g": "text of a turn that went on to tools",
    "w": "answer",
    "q": "what a person is asked",
    "i": "what was asked of the run",
    "f": "text of a file that was sent along",
    "l": "name of such a file",
    "h": "how a chat greets those who are in",
    "u": "who got in at a gate",
    "k": "key under which a request may be sent again",
    "b": "body of a request that is refused",
    "z": "whatever belongs to a voter in a secret ballot",
    "P": "personal data that is redacted",
}
_HEAD, _TAIL = "ZqMark", "kraMqZ"
_NAME = re.compile(r"%%([A-Za-z])(?:([a-z-]+):)?(\d+)%%")


def mark(letter: str, number: int) -> str:
    """The name of a mark, for a drawn case."""
    assert letter in CLASSES
    return f"%%{letter}{number}%%"


def filled(text: str, serial: int, secrets: Sequence[str]) -> str:
    """A text of a drawn case with everything in it that it names."""

    def fill(name: re.Match[str]) -> str:
        letter, kind, number = name[1], name[2], int(name[3])
        if letter == "S":
            return secrets[number % len(secrets)] if secrets else "none"
        if letter == "P":
            return personal(kind, serial, number)
        return made(letter, serial, number)

    return _NAME.sub(fill, text)


def made(letter: str, serial: int, number: int, middle: str = "") -> str:
    """A mark."""
    return f"{_HEAD}{letter}{serial:05d}{number:02d}{middle}{letter}{_TAIL}"


def everywhere(value: t.Any, serial: int, secrets: Sequence[str]) -> t.Any:
    """Any JSON value of a drawn case, filled."""
    if isinstance(value, str):
        return filled(value, serial, secrets)
    if isinstance(value, Mapping):
        return {filled(k, serial, secrets): everywhere(v, serial, secrets) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [everywhere(item, serial, secrets) for item in value]
    return value


# -- finding them again ----------------------------------------------------------------------------------


def _cores(text: str) -> Iterator[str]:
    """What base64 of anything that holds ``text`` holds, at each of the three places it may begin."""
    data = text.encode()
    for before in range(3):
        coded = base64.b64encode(b"\0" * before + data + b"\0\0").decode()
        yield coded[-(-8 * before // 6) : 8 * (before + len(data)) // 6]


def _others(text: str) -> Iterator[str]:
    """Forms of a text that neither case nor escapes explain."""
    for case in dict.fromkeys((text, text.lower(), text.upper())):
        yield case.encode().hex()
        yield case.encode().hex().upper()
        yield from _cores(case)
        yield "".join(f"\\u{ord(sign):04x}" for sign in case)
        yield "".join(f"%{ord(sign):02x}" for sign in case)
        yield "".join(f"%{ord(sign):02X}" for sign in case)
        yield "".join(f"&#{ord(sign)};" for sign in case)


#: A mark in other forms, by its first or last seven characters, with what of each form is in all of them.
_HIDDEN: tuple[tuple[str, str, str], ...] = tuple(
    (sign, form, letter)
    for letter in CLASSES
    for whole, part in ((_HEAD + letter, _HEAD), (letter + _TAIL, _TAIL))
    for sign, form in zip(_others(part), _others(whole), strict=True)
)
_SIGNS: tuple[str, ...] = tuple(dict.fromkeys(sign for sign, _, _ in _HIDDEN))


@dataclass(frozen=True, slots=True)
class Find:
    """Something that was found. ``letter``: of :data:`CLASSES`; ``around``: for whoever reads the failure."""

    letter: str
    around: str


def marks_in(text: str, may: str = "") -> list[Find]:
    """The marks in a text, in whatever form, but those of classes that may be in it."""
    found = [
        Find((hit[1] or hit[2]).lower(), _around(text, hit.start()))
        for hit in _unless(may).finditer(text)
        if (hit[1] or hit[2]).lower() in CLASSES
    ]
    signs = {sign for sign in _SIGNS if sign in text}
    if signs:
        found += [
            Find(letter, _around(text, text.index(form)))
            for sign, form, letter in _HIDDEN
            if sign in signs and letter not in may and form in text
        ]
    return found


@functools.cache
def _unless(may: str) -> re.Pattern[str]:
    letters = "".join(letter for letter in CLASSES if letter not in may and letter != "P") or "-"
    either = f"[{letters}{letters.upper()}]"
    heads, tails = (f"(?:{text}|{text.lower()}|{text.upper()})" for text in (_HEAD, _TAIL))
    return re.compile(f"{heads}({either})|({either}){tails}")


def pieces_of(value: str) -> list[str]:
    """What of a piece of personal data must not be anywhere: it, a good part of it, it in other forms."""
    signs = len(value)
    most = signs if value.isdigit() else max(8, signs * 3 // 4)
    found = [value[:most], value[-most:], quote(value[:most], safe=""), value.encode().hex()]
    found += [json.dumps(value)[1:-1], *_cores(value)]
    return list(dict.fromkeys(found))


def pieces_in(text: str, values: Iterable[str]) -> list[Find]:
    """Personal data in a text, in whatever form."""
    return [
        Find("P", _around(text, text.index(piece)))
        for value in values
        for piece in pieces_of(value)
        if piece in text
    ]


def _around(text: str, place: int) -> str:
    return text[max(0, place - 90) : place + 60].replace("\n", "⏎")


# -- texts of an answer ----------------------------------------------------------------------------------


def spoken(body: str) -> str:
    """An answer as its readers take it in: its texts without the escapes of JSON, and those of each channel of a
    stream joined, since a mark may be cut over frames.
    """
    channels: dict[tuple[str, ...], list[str]] = {}
    texts: list[str] = []
    for line in body.splitlines():
        value = _json(line.removeprefix("data: "))
        if value is None:
            continue
        told = value.get("data", value) if isinstance(value, dict) else value
        who = str(value.get("blockId", "")) if isinstance(value, dict) else ""
        if isinstance(told, dict):
            who += str(told.get("blockId", "")) + str(told.get("node_id", ""))
        _gather(value, (who,), channels, texts)
    joined = ["".join(parts) for parts in channels.values() if len(parts) > 1]
    return "\n".join([*texts, *joined])


def _json(line: str) -> t.Any:
    if not line.startswith(("{", "[", '"')):
        return None
    try:
        return json.loads(line)
    except ValueError:
        return None


def _gather(
    value: t.Any, path: tuple[str, ...], channels: dict[tuple[str, ...], list[str]], texts: list[str]
) -> None:
    if isinstance(value, str):
        channels.setdefault(path, []).append(value)
        texts.append(value)
    elif isinstance(value, dict):
        for name, item in value.items():
            texts.append(name)
            _gather(item, (*path, name), channels, texts)
    elif isinstance(value, list):
        for item in value:
            _gather(item, path, channels, texts)
