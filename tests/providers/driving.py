"""Drives decoders and wires for tests, and says what came out in a form that compares well."""

from __future__ import annotations

import itertools
import json
import typing as t
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from providers import spec
from providers.anthropic_messages import WIRE as ANTHROPIC
from providers.openai_chat import WIRE as OPENAI
from providers.openai_responses import WIRE as RESPONSES

WIRES: dict[str, t.Any] = {
    "openai-chat": OPENAI,
    "openai-responses": RESPONSES,
    "anthropic-messages": ANTHROPIC,
}


def request(**changes: t.Any) -> spec.ModelRequest:
    """A request that mints ``minted_1``, ``minted_2``, …"""
    ids = itertools.count(1)
    given: dict[str, t.Any] = {
        "model": "m",
        "messages": [spec.UserMessage("hi")],
        "mint_id": lambda: f"minted_{next(ids)}",
    }
    return spec.ModelRequest(**{**given, **changes})


def tools(*names: str) -> tuple[spec.ToolSpec, ...]:
    """Tools of these names that take anything."""
    return tuple(spec.ToolSpec(name, f"Does {name}.", {"type": "object"}) for name in names)


@dataclass
class Seen:
    """What a model call said. ``order``: kinds in order of arrival, runs of one kind folded, each call by itself."""

    text: str = ""
    thinking: str = ""
    started: list[tuple[str, str]] = field(default_factory=list)
    ready: list[spec.ToolCallReady] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    order: list[str] = field(default_factory=list)
    finished: spec.ModelFinished | None = None
    error: spec.ProviderError | None = None

    @property
    def calls(self) -> list[tuple[str, t.Any]]:
        """Name and arguments of each call."""
        return [(call.name, call.arguments) for call in self.ready]

    @property
    def reason(self) -> str:
        """The finish reason."""
        assert self.finished is not None, self.error and (self.error.code, self.error.detail)
        return self.finished.reason

    @property
    def code(self) -> str | None:
        """The error's code."""
        return self.error.code if self.error else None

    def add(self, event: spec.ModelEvent) -> None:
        """Take one event, checking the rules that hold for every wire."""
        assert self.finished is None, "nothing follows ModelFinished"
        match event:
            case spec.TextDelta(text):
                assert text
                text.encode()
                self.text += text
                self._note("text")
            case spec.ThinkingDelta(text, redacted):
                assert bool(text) != redacted
                text.encode()
                self.thinking += text
                self._note("redacted" if redacted else "thinking")
            case spec.ToolCallStarted(call_id, name):
                assert call_id
                assert name
                assert call_id not in [known for known, _ in self.started]
                self.started.append((call_id, name))
                self.order.append("tool")
            case spec.ToolCallReady():
                assert (event.arguments is None) == (event.error is not None)
                self.ready.append(event)
            case spec.SourceCited(url, _):
                self.sources.append(url)
            case spec.ModelFinished():
                assert [(call.id, call.name) for call in self.ready] == self.started
                self.finished = event

    def _note(self, kind: str) -> None:
        if self.order[-1:] != [kind]:
            self.order.append(kind)


def decode(wire: t.Any, pieces: Iterable[bytes], asked: spec.ModelRequest | None = None) -> Seen:
    """Feed ``pieces`` and end the body cleanly."""
    decoder = wire.decoder(asked or request())
    seen = Seen()
    try:
        for piece in pieces:
            for event in decoder.feed(piece):
                seen.add(event)
            if decoder.done:
                break
        if not decoder.done:
            for event in decoder.end():
                seen.add(event)
        if decoder.failure is not None:
            raise decoder.failure
    except spec.ProviderError as error:
        seen.error = error
    return seen


def split(body: bytes, size: int) -> list[bytes]:
    """``body`` in pieces of ``size`` bytes; 0 is whole."""
    return [body[at : at + size] for at in range(0, len(body), size)] if size else [body]


def sse(*values: t.Any) -> bytes:
    """One event a value; strings as they are."""
    return b"".join(
        b"data: " + (value if isinstance(value, str) else json.dumps(value)).encode() + b"\n\n"
        for value in values
    )


def chunk(delta: t.Any = None, finish: str | None = None, **more: t.Any) -> dict[str, t.Any]:
    """One chat-completion chunk."""
    return {"id": "c", "choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}], **more}


def call(
    index: int | None = None, call_id: str | None = None, name: str | None = None, arguments: t.Any = None
) -> t.Any:
    """A chunk with one fragment of a tool call; what is None is absent."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    made = {"index": index, "id": call_id, "function": function}
    return chunk({"tool_calls": [{key: value for key, value in made.items() if value is not None}]})


def chat(*values: t.Any, done: bool = True, asked: spec.ModelRequest | None = None) -> Seen:
    """A chat-completions body of these chunks."""
    return decode(OPENAI, [sse(*values, *(["[DONE]"] if done else []))], asked)


def message(*events: t.Any, asked: spec.ModelRequest | None = None) -> Seen:
    """A Messages body of these events between a start and nothing."""
    start = {
        "type": "message_start",
        "message": {"model": "claude", "usage": {"input_tokens": 3, "output_tokens": 1}},
    }
    return decode(ANTHROPIC, [sse(start, *events)], asked)


def block(
    index: int, start: dict[str, t.Any], *deltas: dict[str, t.Any], stop: bool = True
) -> Sequence[t.Any]:
    """The events of one content block."""
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        *([{"type": "content_block_stop", "index": index}] if stop else []),
    ]


def stop(reason: str, **usage: int) -> Sequence[t.Any]:
    """The last two events of a message."""
    return [
        {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage},
        {"type": "message_stop"},
    ]
