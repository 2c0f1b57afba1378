"""Envelopes as bytes, for logs that are kept outside of this process.

Law of this room: what comes back is told as it was the first time: equal events, so equal bytes on every surface. A
value that no format can hold comes back in its JSON form (:mod:`app.encoding`), which is all that was ever shown of it.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterator, Sequence

import msgspec

from app import encoding
from app import events as ev


def _kinds(base: type[ev.RunEvent]) -> Iterator[type[ev.RunEvent]]:
    """The classes under ``base`` that have none under them."""
    kind: type[ev.RunEvent]
    for kind in base.__subclasses__():
        if kind.__module__.startswith(f"{ev.__name__}."):  # none that a test makes
            yield from _kinds(kind) if kind.__subclasses__() else [kind]


_EVENT: t.Any = t.Union[tuple(_kinds(ev.RunEvent))]  # noqa: UP007  # of as many as there are
_BATCH: msgspec.msgpack.Decoder[list[tuple[int, int, ev.RunEvent]]]
_BATCH = msgspec.msgpack.Decoder(t.cast(t.Any, list[tuple[int, int, _EVENT]]))
#: Fields of objects whose keys have to be text to be read back.
_OBJECTS: t.Final = {ev.BlockFinished: "output", ev.RunCompleted: "outputs", ev.RunPaused: "outputs"}


def packed(envelopes: Sequence[ev.Envelope]) -> bytes:
    """A batch of a log. Never raises for what a run can say."""
    rows: list[tuple[int, int, t.Any]] = [(each.seq, each.ts, each.event) for each in envelopes]
    if any(type(event) in _OBJECTS and _odd(event) for _, _, event in rows):
        rows = [(seq, ts, _plain(event) if _odd(event) else event) for seq, ts, event in rows]
    try:
        return msgspec.msgpack.encode(rows)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return msgspec.msgpack.encode([(seq, ts, _plain(event)) for seq, ts, event in rows])


def unpacked(data: bytes) -> list[ev.Envelope]:
    """The inverse of :func:`packed`.

    :raises msgspec.MsgspecError: it is no batch of this program.
    """
    return [ev.Envelope(*row) for row in _BATCH.decode(data)]


def _odd(event: ev.RunEvent) -> bool:
    """Whether an object of it has keys that are no text."""
    name = _OBJECTS.get(type(event))
    held = None if name is None else getattr(event, name)
    if not held:
        return False
    each = [held] if name == "output" else held.values()
    return any(type(key) is not str for value in each for key in value)


def _plain(event: t.Any) -> t.Any:
    """An event of JSON values alone."""
    if not isinstance(event, ev.RunEvent):
        return event
    fields = {name: encoding.plain(getattr(event, name)) for name in event.__struct_fields__}
    return {"is": type(event).__name__, **fields}
