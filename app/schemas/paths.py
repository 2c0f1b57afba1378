"""JSON paths of problems: how they are spelled, and which comes first in a document.

Law of this room: a path reads ``blocks[1].config.model``; a key that is no plain word is quoted,
``variables["a b"]``. Problems are told in the order in which a reader meets them in the document.
"""

from __future__ import annotations

import json
import re
import typing as t
from collections.abc import Iterable, Mapping, Sequence

from app.errors import Problem
from plugins import wording

Segment = str | int

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_SEGMENT = re.compile(r'\[(\d+)\]|\["((?:[^"\\]|\\.)*)"\]|([^.\[\]]+)')
_SHOWN_KEY = 100


def join(path: str, *segments: Segment) -> str:
    """``path`` extended by keys and indexes; the empty path is the document itself."""
    for segment in segments:
        if isinstance(segment, int):
            path += f"[{segment}]"
        elif _PLAIN.fullmatch(segment):
            path += f".{segment}" if path else segment
        else:
            path += f"[{json.dumps(segment[:_SHOWN_KEY], ensure_ascii=False)}]"
    return path


def split(path: str) -> list[Segment]:
    """The segments of a path made by :func:`join`."""
    segments: list[Segment] = []
    for index, quoted, plain in _SEGMENT.findall(path):
        if index:
            # A path segment longer than any list has members is a plugin's own text, not an index.
            segments.append(int(index[:9]))
        elif plain:
            segments.append(plain)
        else:
            segments.append(_unquote(quoted))
    return segments


def _unquote(text: str) -> str:
    try:
        return str(json.loads(f'"{text}"'))
    except ValueError:
        return text


def in_document_order(document: t.Any, problems: Iterable[Problem]) -> list[Problem]:
    """``problems`` without repetitions, sorted by where in ``document`` their paths point.

    What a document lacks (a missing key) comes after what it has; the order among equals stays.
    """
    unique = list(dict.fromkeys((p.path, p.message) for p in problems))
    places: dict[int, dict[str, int]] = {}
    unique.sort(key=lambda item: _place(document, item[0], places))
    return [Problem(path, message) for path, message in unique]


def _place(document: t.Any, path: str, places: dict[int, dict[str, int]]) -> tuple[int, ...]:
    """Where ``path`` points, as the index of each step in its parent.

    :param places: key positions of the mappings met so far, by identity; a sort asks for the same ones often.
    """
    place: list[int] = []
    here = document
    for segment in split(path):
        if isinstance(segment, int) and isinstance(here, Sequence) and not isinstance(here, str):
            place.append(segment)
            here = here[segment] if segment < len(here) else None
        elif isinstance(segment, str) and isinstance(here, Mapping):
            if id(here) not in places:
                places[id(here)] = {str(key): index for index, key in enumerate(here)}
            place.append(places[id(here)].get(segment, len(here)))
            here = here.get(segment)
        else:
            break
    return tuple(place)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A clause naming the nearest known names and, when there are few, all of them; empty when there are none."""
    names = list(dict.fromkeys(known))
    if not names:
        return ""
    near = wording.near(name, names)
    meant = f"Did you mean {wording.either(near)}? " if near else ""
    return f"{meant}There are: {wording.listed(names)}."


def shown(value: t.Any) -> str:
    """``value`` as it may be quoted in a message: short, and never more than a kind for what is large."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value if len(value) <= 60 else value[:57] + "…", ensure_ascii=False)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, int):
        return str(value) if -(10**20) < value < 10**20 else "a huge number"
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, (list, tuple)):
        return "a list"
    return f"a {type(value).__name__}"
