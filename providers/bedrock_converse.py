"""The ConverseStream wire: every model family that Amazon Bedrock serves, in AWS's own event frames.

Law of this room: what the vendor sent in a turn goes back as it came, block by block and in order; only a call's id
is ours where the vendor's was taken. A block has no start of its own kind but for tools, so the first delta says what
it is. A tool that the vendor ran itself is shown as a call like any other, and its result goes back with the turn.
Source: API_runtime_ConverseStream of the Amazon Bedrock API reference. The request side, with the switches a family
may set, is ``bedrock_request``.
"""

from __future__ import annotations

import base64
import binascii
import typing as t

import orjson

from providers import http
from providers.aws_events import AwsEventReader
from providers.aws_failures import aws_error
from providers.bedrock_request import WIRE_NAME, build_request
from providers.decoding import EventStreamDecoder, count, place
from providers.errors import failure, in_band_error, says_failure
from providers.spec import (
    FinishReason,
    Json,
    ModelEvent,
    ModelRequest,
    TextDelta,
    ThinkingDelta,
    Usage,
)
from providers.surrogates import whole_text
from providers.tool_calls import OpenCall

_STOP: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "guardrail_intervened": "content_filter",
    "content_filtered": "content_filter",
}
#: The model wrote what the service could not read; without anything usable beside it that is no answer.
_MALFORMED = frozenset({"malformed_model_output", "malformed_tool_use"})
#: What Nova writes in the place of its thinking (Amazon Nova 2 user guide: reasoning capabilities).
_REDACTED = "[REDACTED]"
_SERVER_TOOL = "server_tool_use"


_loads = orjson.loads


class _Block:
    """One content block under assembly. ``text`` is its text or thinking, ``parts`` a tool result or redacted bytes."""

    __slots__ = ("call", "citations", "data", "kind", "parts", "text")

    def __init__(self, kind: str, data: Json) -> None:
        self.kind = kind
        self.data = data
        self.text: list[str] = []
        self.parts: list[t.Any] = []
        self.citations: list[Json] = []
        self.call: OpenCall | None = None


class ConverseDecoder(EventStreamDecoder):
    """Events of one message to model events."""

    def __init__(self, request: ModelRequest) -> None:
        super().__init__(request, AwsEventReader())
        self._event = b""
        self._blocks: list[_Block] = []
        self._open: dict[t.Any, _Block] = {}
        self._stated: Json | None = None
        self._thinking_tokens: int | None = None

    def _take(self, payloads: t.Iterable[tuple[bytes, bytes]], out: list[ModelEvent]) -> None:
        """As the base does, but the frame says what a payload is; the payload itself does not."""
        for name, payload in payloads:
            if self.done:
                return
            try:
                value = _loads(payload)
            except ValueError:
                value = self._unusual(payload, out)
            if type(value) is not dict:
                continue
            if name == b"error":
                raise in_band_error(value)
            self._event = name
            self._value(value, out)

    def _value(self, value: Json, out: list[ModelEvent]) -> None:
        # The common event first: a piece of text in a block that is open.
        if self._event == b"contentBlockDelta" and self._plain:
            try:
                text = value["delta"]["text"]
                block = self._open[value["contentBlockIndex"]]
                if text and type(text) is str and block.kind == "text":
                    block.text.append(text)
                    self.moved = self._answered = True
                    out.append(TextDelta(text))
                    return
            except (KeyError, TypeError):
                pass
        handler = _EVENTS.get(self._event)
        if handler is not None:
            self.moved = True
            handler(self, value, out)
        elif says_failure(kind := self._event.decode("ascii", "replace")):
            raise in_band_error({"type": kind, **value})

    def _message_start(self, value: Json, out: list[ModelEvent]) -> None:
        """A message begins; one that begins again numbers its blocks anew."""
        self._open = {}

    def _block_start(self, value: Json, out: list[ModelEvent]) -> None:
        start = value.get("start")
        if not isinstance(start, dict):
            return
        index = place(value.get("contentBlockIndex"))
        if isinstance(tool := start.get("toolUse"), dict):
            self._flush(out)
            block = self._add(index, "toolUse", dict(tool))
            block.call = self._calls.begin(out, str(tool.get("toolUseId") or ""), str(tool.get("name") or ""))
        elif isinstance(result := start.get("toolResult"), dict):
            self._add(index, "toolResult", dict(result))

    def _block_delta(self, value: Json, out: list[ModelEvent]) -> None:
        delta = value.get("delta")
        if not isinstance(delta, dict):
            return
        index = place(value.get("contentBlockIndex"))
        for key, given in delta.items():
            handler = _DELTAS.get(key)
            if handler is not None:
                handler(self, index, given, out)

    def _block_stop(self, value: Json, out: list[ModelEvent]) -> None:
        block = self._open.get(place(value.get("contentBlockIndex")))
        if block is not None and block.call is not None:
            block.call.closed = True

    def _message_stop(self, value: Json, out: list[ModelEvent]) -> None:
        reason = str(value.get("stopReason") or "")
        self._label = _STOP.get(reason, "other")
        self.finished = True
        if reason in _MALFORMED and not self._answered and not self._calls.calls:
            self._broken = failure("provider_bad_stream", detail=reason)
        fields = value.get("additionalModelResponseFields")
        usage = fields.get("usage") if isinstance(fields, dict) else None
        if isinstance(usage, dict):
            self._thinking_tokens = count(usage.get("output_tokens_details"), "thinking_tokens")

    def _metadata(self, value: Json, out: list[ModelEvent]) -> None:
        """The last event, with what the call took."""
        if isinstance(usage := value.get("usage"), dict):
            self._stated = usage
        if self._label is not None:
            self._finish(out, sentinel=True)

    # -- deltas ------------------------------------------------------------------------------

    def _text(self, index: t.Any, text: t.Any, out: list[ModelEvent]) -> None:
        if isinstance(text, str):
            self._block(index, "text").text.append(text)
            self._say(text, out)

    def _thinking(self, index: t.Any, given: t.Any, out: list[ModelEvent]) -> None:
        if not isinstance(given, dict):
            return
        block = self._block(index, "reasoningContent")
        text = given.get("text")
        if text and isinstance(text, str):
            block.text.append(text)
            if text == _REDACTED:
                out.append(ThinkingDelta("", True))
            else:
                self._think(text, out)
        if given.get("signature"):
            block.data["signature"] = given["signature"]
        if isinstance(redacted := given.get("redactedContent"), str):
            if not block.parts:
                out.append(ThinkingDelta("", True))
            block.parts.append(redacted)

    def _input(self, index: t.Any, given: t.Any, out: list[ModelEvent]) -> None:
        block = self._open.get(index)
        piece = given.get("input") if isinstance(given, dict) else None
        if block is None or block.call is None or not piece:
            return
        if isinstance(piece, str):
            block.call.fragments.append(piece)
        else:
            block.call.value = piece

    def _result(self, index: t.Any, given: t.Any, out: list[ModelEvent]) -> None:
        """What a tool of the vendor's own gave: pieces of text, which grow, or whole values."""
        if not isinstance(given, list):
            return
        parts = self._block(index, "toolResult").parts
        for part in given:
            if isinstance(part, dict) and isinstance(part.get("text"), str) and parts and "text" in parts[-1]:
                parts[-1] = {"text": parts[-1]["text"] + part["text"]}
            elif isinstance(part, dict):
                parts.append(part)

    def _cite(self, index: t.Any, given: t.Any, out: list[ModelEvent]) -> None:
        if not isinstance(given, dict):
            return
        self._block(index, "text").citations.append(given)
        location = given.get("location")
        web = location.get("web") if isinstance(location, dict) else None
        url = web.get("url") if isinstance(web, dict) else given.get("source")
        if isinstance(url, str) and url.startswith(("http://", "https://")):
            self._cite_source(url, given.get("title"), out)

    # -- blocks ------------------------------------------------------------------------------

    def _block(self, index: t.Any, kind: str) -> _Block:
        """The open block at ``index``; a new one where there is none, or one of another kind."""
        block = self._open.get(index)
        return block if block is not None and block.kind == kind else self._add(index, kind, {})

    def _add(self, index: t.Any, kind: str, data: Json) -> _Block:
        block = _Block(kind, data)
        self._blocks.append(block)
        self._open[index] = block
        return block

    def _usage(self) -> Usage | None:
        """What AWS calls input is only what no cache had a part in (Bedrock user guide: prompt caching)."""
        if self._stated is None:
            return None
        fresh, output = count(self._stated, "inputTokens"), count(self._stated, "outputTokens")
        read = count(self._stated, "cacheReadInputTokens", "cacheReadInputTokenCount")
        written = count(self._stated, "cacheWriteInputTokens", "cacheWriteInputTokenCount")
        given = None if fresh is None else fresh + (read or 0) + (written or 0)
        total = count(self._stated, "totalTokens")
        if given is not None and output is not None:
            total = max(total or 0, given + output)
        return Usage(given, output, total, read, written, self._thinking_tokens)

    def _replay(self) -> t.Any:
        """The turn's content, as the next request must carry it; None when it had none."""
        ours = {block.call.vendor_id: block.call.id for block in self._blocks if block.call is not None}
        return [built for block in self._blocks if (built := _rebuilt(block, ours)) is not None] or None


_Handler = t.Callable[[ConverseDecoder, Json, list[ModelEvent]], None]

_EVENTS: dict[bytes, _Handler] = {
    b"messageStart": ConverseDecoder._message_start,
    b"contentBlockStart": ConverseDecoder._block_start,
    b"contentBlockDelta": ConverseDecoder._block_delta,
    b"contentBlockStop": ConverseDecoder._block_stop,
    b"messageStop": ConverseDecoder._message_stop,
    b"metadata": ConverseDecoder._metadata,
}

_DELTAS: dict[str, t.Callable[[ConverseDecoder, t.Any, t.Any, list[ModelEvent]], None]] = {
    "text": ConverseDecoder._text,
    "reasoningContent": ConverseDecoder._thinking,
    "toolUse": ConverseDecoder._input,
    "toolResult": ConverseDecoder._result,
    "citation": ConverseDecoder._cite,
}

#: The wire; its switches are listed in ``bedrock_request``.
WIRE = http.HttpWire(WIRE_NAME, build_request, ConverseDecoder, aws_error)


def _rebuilt(block: _Block, ours: dict[str, str | None]) -> Json | None:
    """A block as it goes back; None for an empty text, which the vendor refuses.

    :param ours: the vendor's call ids to ours.
    """
    text = whole_text("".join(block.text))
    if block.kind == "text":
        return _text_block(text, block.citations)
    if block.kind == "reasoningContent":
        if block.parts:
            return {"reasoningContent": {"redactedContent": _joined(block.parts)}}
        return {"reasoningContent": {"reasoningText": {"text": text, **block.data}}}
    if block.call is not None:
        given = {"toolUseId": block.call.id, "name": block.call.name, "input": block.call.parsed() or {}}
        server = {"type": _SERVER_TOOL} if block.data.get("type") == _SERVER_TOOL else {}
        return {"toolUse": {**given, **server}}
    call_id = str(block.data.get("toolUseId"))
    return {"toolResult": {**block.data, "toolUseId": ours.get(call_id) or call_id, "content": block.parts}}


def _text_block(text: str, citations: list[Json]) -> Json | None:
    if not text.strip():
        return None
    if citations:
        return {"citationsContent": {"content": [{"text": text}], "citations": citations}}
    return {"text": text}


def _joined(pieces: list[str]) -> str:
    """Redacted bytes in pieces as one; each piece is base64 by itself."""
    if len(pieces) == 1:
        return pieces[0]
    try:
        return base64.b64encode(b"".join(base64.b64decode(piece, validate=True) for piece in pieces)).decode()
    except (binascii.Error, ValueError):
        return "".join(pieces)
