"""Recorded answers of a vendor, and the files they are kept in.

A folder holds one family's recordings. Each is a pair of files of one name, ``<scenario>.json`` and
``<scenario>.chunks``; more than one of a scenario have a suffix: ``thinking-redacted.json``. Scenarios that are
recorded: ``text``, ``thinking``, ``tool``, ``parallel``, ``no-arguments``, ``error``, and of a family with embeddings
``embedding``. The kit makes ``cut``, ``stall``, ``cancel`` and ``replay`` from them.

``<name>.chunks`` has one piece a line, in the order the vendor sent them; empty lines are left out. ``framing`` says
how a line becomes bytes:

``sse`` (default)
    the line is the data of one event: ``data: <line>`` and an empty line. With ``event_from`` the event also has a
    name: that member of the line's JSON. A line that begins with ``:`` is a comment.
``lines``
    the line and a line feed (newline-delimited JSON).
``text``
    a JSON string: the piece as it is.
``base64``
    base64 of the piece, for binary framings.
``none``
    there is no ``.chunks`` file: the wire reads no bytes and is called directly (a model in the process).

``<name>.json`` says what was asked and what the bytes mean::

    {
        "model": "acme-large",
        "framing": "sse",
        "content_type": "text/event-stream",
        "expected": {
            "text": "It is sunny.",
            "thinking": "",
            "calls": [{"name": "weather", "arguments": {"city": "Lisbon"}}],
            "finish": "stop",
            "usage": {"input": 12, "output": 5},
        },
        "replay": ["call_7Yq"],
        "signature": "",
    }

``expected.usage`` is in Studio's own terms (``input``, ``output``, ``cache_read``, ``cache_write``, ``reasoning``,
``total``); what it does not name is not compared, and ``null`` says that the vendor states none. ``replay`` lists
texts that the next request must carry because the vendor wants them back, and ``signature`` the one that signs the
thinking. An ``error`` recording has ``status``, the report as ``body`` (any JSON) instead of a ``.chunks`` file
(with one, the error comes inside a stream), and ``expected.error``: the code it must be told as. ``headers`` adds
response headers. An ``embedding`` recording has the answer as ``body`` and ``expected.vectors``, one a text: as many
texts are asked for.

``kit.json``, optional, is the ground the recordings stand on: ``environ``, variables the family needs beside address
and key, in which ``{base}`` is the kit's address; and ``routes``, JSON answers by path, e.g. of a token endpoint.

Law of this room: what a file says is checked when it is read; a member nobody knows is an error, not a typo that
passes.
"""

from __future__ import annotations

import base64
import json
import os
import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

SCENARIOS = ("text", "thinking", "tool", "parallel", "no-arguments", "error", "embedding")

_MEMBERS = frozenset(
    (
        "model",
        "framing",
        "event_from",
        "content_type",
        "status",
        "headers",
        "body",
        "expected",
        "replay",
        "signature",
    )
)
_EXPECTED = frozenset(("text", "thinking", "calls", "finish", "usage", "error", "vectors"))
_USAGE = frozenset(("input", "output", "total", "cache_read", "cache_write", "reasoning"))


class RecordingInvalid(Exception):
    """A recording cannot be used; the message names its file and what is wrong."""


@dataclass(frozen=True, slots=True)
class Recording:
    """One recorded answer and what it means.

    :ivar scenario: one of :data:`SCENARIOS`.
    :ivar model: the model that is asked for, without the family.
    :ivar pieces: the body as the vendor sent it, piece by piece; empty for a wire that reads no bytes.
    :ivar calls: name and arguments of each expected call.
    :ivar usage: expected counts by field of ``Usage``; None when the vendor states none.
    :ivar error: the code of contract section 11 that the answer must be told as.
    :ivar replay: texts that the next request must carry. :ivar signature: the one that signs the thinking.
    :ivar vectors: of an ``embedding``, one a text.
    """

    scenario: str
    model: str
    pieces: tuple[bytes, ...] = ()
    name: str = ""
    status: int = 200
    content_type: str = "text/event-stream"
    headers: Mapping[str, str] = field(default_factory=dict)
    text: str = ""
    thinking: str = ""
    calls: tuple[tuple[str, Mapping[str, t.Any]], ...] = ()
    finish: str = "stop"
    usage: Mapping[str, int] | None = None
    error: str | None = None
    replay: tuple[str, ...] = ()
    signature: str = ""
    vectors: tuple[tuple[float, ...], ...] = ()

    @property
    def title(self) -> str:
        """Its name in reports."""
        return self.name or self.scenario


@dataclass(frozen=True, slots=True)
class Ground:
    """What ``kit.json`` says (see the module)."""

    environ: Mapping[str, str] = field(default_factory=dict)
    routes: Mapping[str, t.Any] = field(default_factory=dict)


def load(folder: str | os.PathLike[str]) -> list[Recording]:
    """The recordings in ``folder``, in order of name; none when there is no such folder.

    :raises RecordingInvalid: a file cannot be used.
    """
    found = sorted(path for path in Path(folder).glob("*.json") if path.name != "kit.json")
    return [_recording(path) for path in found]


def load_ground(folder: str | os.PathLike[str]) -> Ground:
    """What ``kit.json`` in ``folder`` says; nothing when there is none.

    :raises RecordingInvalid: it cannot be used.
    """
    path = Path(folder) / "kit.json"
    if not path.is_file():
        return Ground()
    given = _object(path, path.read_bytes())
    _known(path, given, ("environ", "routes"))
    return Ground(given.get("environ", {}), given.get("routes", {}))


def _recording(path: Path) -> Recording:
    scenario = next(
        (name for name in SCENARIOS if path.stem == name or path.stem.startswith(f"{name}-")), None
    )
    if scenario is None:
        raise RecordingInvalid(
            f"{path}: a recording is called {', '.join(SCENARIOS)}, or one of them and a suffix"
        )
    given = _object(path, path.read_bytes())
    _known(path, given, _MEMBERS)
    expected = given.get("expected")
    if not isinstance(given.get("model"), str) or not isinstance(expected, dict):
        raise RecordingInvalid(f"{path}: it needs model (a text) and expected (an object)")
    _known(path, expected, _EXPECTED)
    usage = expected.get("usage")
    _known(path, usage or {}, _USAGE)
    if (scenario == "error") != ("error" in expected):
        raise RecordingInvalid(f"{path}: an error recording, and no other, has expected.error")
    if (scenario == "embedding") != bool(expected.get("vectors")):
        raise RecordingInvalid(f"{path}: an embedding recording, and no other, has expected.vectors")
    try:
        return Recording(
            scenario,
            given["model"],
            _pieces(path, given),
            path.stem,
            int(given.get("status", 200)),
            given.get("content_type", "application/json" if "body" in given else "text/event-stream"),
            given.get("headers", {}),
            expected.get("text", ""),
            expected.get("thinking", ""),
            tuple((call["name"], call["arguments"]) for call in expected.get("calls", ())),
            expected.get("finish", "tool_calls" if expected.get("calls") else "stop"),
            usage,
            expected.get("error"),
            tuple(given.get("replay", ())),
            given.get("signature", ""),
            tuple(tuple(map(float, vector)) for vector in expected.get("vectors", ())),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise RecordingInvalid(f"{path}: {type(error).__name__}: {error}") from error


def _object(path: Path, data: bytes) -> dict[str, t.Any]:
    try:
        value = json.loads(data)
    except ValueError as error:
        raise RecordingInvalid(f"{path}: no JSON: {error}") from error
    if not isinstance(value, dict):
        raise RecordingInvalid(f"{path}: it has to be a JSON object")
    return value


def _known(path: Path, given: Mapping[str, t.Any], names: t.Collection[str]) -> None:
    unknown = sorted(set(given) - set(names))
    if unknown:
        raise RecordingInvalid(f"{path}: unknown {', '.join(unknown)}; there are {', '.join(sorted(names))}")


def _pieces(path: Path, given: Mapping[str, t.Any]) -> tuple[bytes, ...]:
    chunks = path.with_suffix(".chunks")
    if "body" in given:
        return (json.dumps(given["body"]).encode(),)
    if given.get("framing") == "none":
        return ()
    if not chunks.is_file():
        raise RecordingInvalid(f"{path}: {chunks.name} is missing")
    make = _FRAMINGS.get(given.get("framing", "sse"))
    if make is None:
        raise RecordingInvalid(f"{path}: framing is one of {', '.join(_FRAMINGS)}, none")
    lines = chunks.read_text(encoding="utf-8").splitlines()
    return tuple(make(line, given.get("event_from", "")) for line in lines if line)


def _sse(line: str, event_from: str) -> bytes:
    if line.startswith(":"):
        return f"{line}\n\n".encode()
    name = json.loads(line).get(event_from) if event_from else None
    return (f"event: {name}\n" if name else "").encode() + f"data: {line}\n\n".encode()


_FRAMINGS: Mapping[str, t.Callable[[str, str], bytes]] = {
    "sse": _sse,
    "lines": lambda line, event_from: f"{line}\n".encode(),
    "text": lambda line, event_from: str(json.loads(line)).encode(),
    "base64": lambda line, event_from: base64.b64decode(line, validate=True),
}
