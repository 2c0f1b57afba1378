"""What Anthropic's Messages protocol says, whoever carries it: Anthropic, clouds that serve Claude, copies.

Law of this room: what the vendor sent in a turn goes back as it came, block by block and in order, whatever
the block is; only a call's id is ours where the vendor's was taken. Blocks that the vendor ran by itself
(server tools, MCP) are no calls of ours: they are kept for the next turn and nothing else. The request
side, with the switches a family may set, is ``anthropic_request``.
"""

from __future__ import annotations

import json
import typing as t

from providers import errors
from providers.decoding import EventStreamDecoder, Reader, count, place
from providers.spec import (
    FinishReason,
    ModelEvent,
    ModelRequest,
    TextDelta,
    ThinkingDelta,
    Usage,
    UsageStated,
)
from providers.surrogates import whole_text
from providers.tool_calls import OpenCall

_STOP: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "refusal",
}


class _Block:
    """One content block under assembly. ``text`` is its text or thinking, ``json`` a server tool's input."""

    __slots__ = ("call", "citations", "data", "json", "kind", "text")

    def __init__(self, kind: str, data: dict[str, t.Any]) -> None:
        self.kind = kind
        self.data = data
        self.text: list[str] = []
        self.json: list[str] = []
        self.citations: list[t.Any] = []
        self.call: OpenCall | None = None


class AnthropicDecoder(EventStreamDecoder):
    """Events of one message to model events.

    :param reader: for hosts that wrap the events in a framing of their own.
    """

    def __init__(self, request: ModelRequest, reader: Reader | None = None) -> None:
        super().__init__(request, reader)
        self._blocks: list[_Block] = []
        self._open: dict[t.Any, _Block] = {}
        self._stated: dict[str, t.Any] | None = None

    def _value(self, value: dict[str, t.Any], out: list[ModelEvent]) -> None:
        # The common event first: a piece of text in a block that is open.
        kind = value.get("type")
        if kind == "content_block_delta" and self._plain:
            try:
                delta = value["delta"]
                if delta["type"] == "text_delta" and (text := delta["text"]) and type(text) is str:
                    self._open[value["index"]].text.append(text)
                    self.moved = self._answered = True
                    out.append(TextDelta(text))
                    return
            except (KeyError, TypeError):
                pass
        if kind == "ping":
            return
        handler = _EVENTS.get(kind) if isinstance(kind, str) else None
        if handler is not None:
            self.moved = True
            handler(self, value, out)
        elif value.get("error") or errors.has_error(value):
            raise errors.in_band_error(value.get("error") or value)

    def _start(self, value: dict[str, t.Any], out: list[ModelEvent]) -> None:
        """A message begins; a gateway that starts over says so by a second one, and its indexes begin anew."""
        message = value.get("message")
        self._open = {}
        if isinstance(message, dict):
            model = message.get("model")
            self._model = model if isinstance(model, str) and model else self._model
            self._note_usage(message.get("usage"))
            if (stated := self._usage()) is not None:
                out.append(UsageStated(stated))

    def _block_start(self, value: dict[str, t.Any], out: list[ModelEvent]) -> None:
        given = value.get("content_block")
        if not isinstance(given, dict):
            return
        block = self._add(place(value.get("index")), str(given.get("type")), dict(given))
        if block.kind == "text":
            self._text(block, given.get("text"), out)
        elif block.kind == "thinking":
            self._thinking(block, given.get("thinking"), out)
        elif block.kind == "redacted_thinking":
            out.append(ThinkingDelta("", True))
        elif block.kind == "tool_use":
            self._flush(out)
            block.call = self._calls.begin(out, str(given.get("id") or ""), str(given.get("name") or ""))
            if given.get("input"):
                block.call.value = given["input"]

    def _block_delta(self, value: dict[str, t.Any], out: list[ModelEvent]) -> None:
        delta = value.get("delta")
        if not isinstance(delta, dict):
            return
        kind = delta.get("type")
        index = place(value.get("index"))
        block = self._open.get(index)
        if block is None:  # a copy of the protocol that leaves out the starts
            block = self._add(index, "thinking" if kind == "thinking_delta" else "text", {})
        if kind == "text_delta":
            self._text(block, delta.get("text"), out)
        elif kind == "thinking_delta":
            self._thinking(block, delta.get("thinking"), out)
        elif kind == "signature_delta":
            block.data["signature"] = delta.get("signature")
        elif kind == "input_json_delta":
            self._input(block, delta.get("partial_json"))
        elif kind == "citations_delta":
            self._cite(block, delta.get("citation"), out)
        else:
            _merge(block.data, delta)

    def _block_stop(self, value: dict[str, t.Any], out: list[ModelEvent]) -> None:
        block = self._open.get(place(value.get("index")))
        if block is not None and block.call is not None:
            block.call.closed = True

    def _message_delta(self, value: dict[str, t.Any], out: list[ModelEvent]) -> None:
        self._note_usage(value.get("usage"))
        delta = value.get("delta")
        reason = delta.get("stop_reason") if isinstance(delta, dict) else None
        if reason:
            self._label = _STOP.get(str(reason), "other")
            self.finished = True

    def _message_stop(self, value: dict[str, t.Any], out: list[ModelEvent]) -> None:
        self._finish(out, sentinel=True)

    def _add(self, index: t.Any, kind: str, data: dict[str, t.Any]) -> _Block:
        block = _Block(kind, data)
        self._blocks.append(block)
        self._open[index] = block
        return block

    def _text(self, block: _Block, text: t.Any, out: list[ModelEvent]) -> None:
        if text and isinstance(text, str):
            block.text.append(text)
            self._say(text, out)

    def _thinking(self, block: _Block, text: t.Any, out: list[ModelEvent]) -> None:
        if text and isinstance(text, str):
            block.text.append(text)
            self._think(text, out)

    def _input(self, block: _Block, piece: t.Any) -> None:
        if not piece or not isinstance(piece, str):
            return
        (block.json if block.call is None else block.call.fragments).append(piece)

    def _cite(self, block: _Block, citation: t.Any, out: list[ModelEvent]) -> None:
        if not isinstance(citation, dict):
            return
        block.citations.append(citation)
        self._cite_source(citation.get("url"), citation.get("title"), out)

    def _note_usage(self, usage: t.Any) -> None:
        """Counts are running totals: the last one stated of each counts."""
        if isinstance(usage, dict):
            stated = {key: value for key, value in usage.items() if value is not None}
            self._stated = {**(self._stated or {}), **stated}

    def _usage(self) -> Usage | None:
        """The vendor's ``input_tokens`` leave out what its cache was read or written for; ours hold all of it."""
        if self._stated is None:
            return None
        fresh = count(self._stated, "input_tokens")
        read = count(self._stated, "cache_read_input_tokens")
        written = count(self._stated, "cache_creation_input_tokens")
        return Usage(
            input=None if fresh is None else fresh + (read or 0) + (written or 0),
            output=count(self._stated, "output_tokens"),
            cache_read=read,
            cache_write=written,
            reasoning=count(self._stated.get("output_tokens_details"), "thinking_tokens"),
        )

    def _replay(self) -> t.Any:
        """The turn's content, as the next request must carry it; None when it had none."""
        return [built for block in self._blocks if (built := _rebuilt(block)) is not None] or None


_Handler = t.Callable[[AnthropicDecoder, dict[str, t.Any], list[ModelEvent]], None]

_EVENTS: dict[str, _Handler] = {
    "message_start": AnthropicDecoder._start,
    "content_block_start": AnthropicDecoder._block_start,
    "content_block_delta": AnthropicDecoder._block_delta,
    "content_block_stop": AnthropicDecoder._block_stop,
    "message_delta": AnthropicDecoder._message_delta,
    "message_stop": AnthropicDecoder._message_stop,
}


def _merge(data: dict[str, t.Any], delta: dict[str, t.Any]) -> None:
    """A delta of a kind we do not know: texts grow, anything else is replaced."""
    for key, value in delta.items():
        if key == "type":
            continue
        grown = data.get(key)
        data[key] = grown + value if isinstance(grown, str) and isinstance(value, str) else value


def _rebuilt(block: _Block) -> dict[str, t.Any] | None:
    """A block as it goes back; None for an empty text, which the vendor refuses."""
    data = block.data
    text = whole_text("".join(block.text))
    if block.kind == "text":
        if not text:
            return None
        return {
            **data,
            "type": "text",
            "text": text,
            **({"citations": block.citations} if block.citations else {}),
        }
    if block.kind == "thinking":
        return {**data, "type": "thinking", "thinking": text}
    if block.call is not None:
        return {**data, "id": block.call.id, "name": block.call.name, "input": block.call.parsed() or {}}
    if block.json:
        return {**data, "input": _parsed("".join(block.json))}
    return data


def _parsed(text: str) -> t.Any:
    try:
        return json.loads(text)
    except ValueError:
        return {}
