"""A client of agent events, as the contract lets one be written: it keeps what stands per block."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable

from app import encoding
from app.events import Envelope
from app.streams.agent_events import AgentEvents, AgentEventsOptions
from app.streams.projection import Projection


class Reader:
    """What a client knows after reading ``stream``.

    :ivar frames: decoded data of every frame but the sentinel.
    :ivar ids: the ``id`` of each frame, None where it had none, the sentinel's included.
    :ivar standing: text per block; ``chunks`` holds it in pieces.
    """

    def __init__(self, stream: bytes) -> None:
        self.frames: list[dict[str, t.Any]] = []
        self.ids: list[str | None] = []
        self.chunks: dict[str, list[str]] = {}
        self.ended = False
        parts = stream.decode().split("\n\n")
        assert parts.pop() == ""
        for part in parts:
            self._part(part)

    @property
    def standing(self) -> dict[str, str]:
        """The text that stands, per block."""
        return {block: "".join(chunks) for block, chunks in self.chunks.items() if chunks}

    def events(self, name: str) -> list[dict[str, t.Any]]:
        """The frames with this ``event``."""
        return [frame for frame in self.frames if frame.get("event") == name]

    def _part(self, part: str) -> None:
        assert not self.ended, "something follows the sentinel"
        lines = part.split("\n")
        assert len(lines) <= 2
        data = lines.pop()
        assert data.startswith("data: ")
        self.ids.append(lines[0].removeprefix("id: ") if lines else None)
        value = encoding.loads(data[6:])
        if value == "[DONE]":
            self.ended = True
            return
        self.frames.append(value)
        if "event" not in value:
            assert set(value) == {"blockId", "chunk"}
            assert value["chunk"]
            self.chunks.setdefault(value["blockId"], []).append(value["chunk"])
        elif value["event"] == "chunk_reset":
            assert self.chunks.get(value["blockId"]), "a reset of nothing"
            self.chunks[value["blockId"]] = []


def project(options: AgentEventsOptions, envelopes: Iterable[Envelope]) -> bytes:
    """The bytes of a whole stream."""
    projection: Projection = AgentEvents(options)
    return b"".join(projection.frames(envelope) for envelope in envelopes)


def read(options: AgentEventsOptions, envelopes: Iterable[Envelope]) -> Reader:
    """The stream as a client understands it."""
    return Reader(project(options, envelopes))
