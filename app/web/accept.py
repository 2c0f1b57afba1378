"""Whether a caller wants the stream, or YAML, by its ``Accept`` (contract section 6; RFC 9110, 12.5.1). Pure.

Law of this room: the stream, or another form, is for those who name it, and prefer it to JSON where they name both. A
wildcard means that the caller does not care, and a header that cannot be read says nothing: both get JSON.
"""

from __future__ import annotations

import re

STREAM, JSON = "text/event-stream", "application/json"

_TOKEN = r"[\w!#$%&'*+.^`|~-]+"
_VALUE = rf'(?:{_TOKEN}|"(?:[^"\\]|\\.)*")'
_RANGE = re.compile(
    rf"[ \t]*(?P<type>{_TOKEN}/{_TOKEN})(?P<parameters>(?:[ \t]*;[ \t]*(?:{_TOKEN}={_VALUE})?)*)[ \t]*",
    re.ASCII,
)
_PARAMETER = re.compile(rf"({_TOKEN})=({_VALUE})", re.ASCII)
_EMPTY = re.compile(r"[ \t]*")
_WEIGHT = re.compile(r"(?:0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)")
#: Longer ones are nobody's preferences.
_MOST = 8192


def wants_stream(header: str) -> bool:
    """Whether ``text/event-stream`` is acceptable, and strictly more so than an explicit ``application/json``."""
    return prefers(header, STREAM)


def prefers(header: str, *kinds: str) -> bool:
    """Whether one of ``kinds`` is acceptable, and strictly more so than an explicit ``application/json``."""
    weights = _weights(header)
    return max(weights.get(kind, 0.0) for kind in kinds) > weights.get(JSON, 0.0)


def takes_no_stream(header: str) -> bool:
    """Whether JSON is acceptable and ``text/event-stream`` is not, also by no wildcard."""
    weights = _weights(header)
    streams = (STREAM, "text/*", "*/*")
    stream = next((weights[name] for name in streams if name in weights), 0.0 if weights else 1.0)
    return not stream and weights.get(JSON, 0.0) > 0


def _weights(header: str) -> dict[str, float]:
    """The weight of each media range; that of one named twice is its highest. Empty when any of it is malformed."""
    weights: dict[str, float] = {}
    if len(header) > _MOST:
        return weights
    place = 0
    while place <= len(header):
        found = _RANGE.match(header, place)
        if found is not None:
            weight = _weight(found["parameters"])
            if weight is None:
                return {}
            name = found["type"].lower()
            weights[name] = max(weight, weights.get(name, 0.0))
        end = found.end() if found is not None else _past_spaces(header, place)
        if end < len(header) and header[end] != ",":
            return {}
        place = end + 1
    return weights


def _past_spaces(header: str, place: int) -> int:
    """An empty member of the list means nothing."""
    found = _EMPTY.match(header, place)
    return place if found is None else found.end()


def _weight(parameters: str) -> float | None:
    """``q``, 1 when there is none; None when it is no weight."""
    for name, value in _PARAMETER.findall(parameters):
        if name.lower() == "q":
            return float(value) if _WEIGHT.fullmatch(value) else None
    return 1.0
