"""Speaks each vendor protocol to a held call, so that one case is told once for all.

Law of this room: a speaker says what a well-behaved vendor would say; odd bytes are sent by the test itself.
"""

from __future__ import annotations

import json
import typing as t

from tests.field.more_wires import Cohere, Converse, Gemini, Ollama, Responses, sse
from tests.support.vendor import Call

__all__ = ["EVENTFUL", "FRAGMENTED", "RUNNING", "WIRES", "Chat", "Messages", "Speaker", "spoken", "sse"]


class Chat:
    """Chat completions."""

    name = "openai_chat"
    model = "openai-compatible/field"

    def text(self, call: Call, text: str) -> None:
        """A piece of answer."""
        call.text(text)

    def begin(self, call: Call) -> None:
        """Nothing comes before the first frame of text."""

    def running(self, call: Call, text: str, given: int, made: int) -> None:
        """A piece of answer with the usage up to now."""
        counts = {"prompt_tokens": given, "completion_tokens": made}
        call.send_bytes(sse({"choices": [{"index": 0, "delta": {"content": text}}], "usage": counts}))

    def text_frame(self, text: str) -> bytes:
        """The bytes of the frame of a piece of answer, with its characters unescaped."""
        chunk = {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}
        return b"data: " + json.dumps(chunk, ensure_ascii=False).encode() + b"\n\n"

    def think(self, call: Call, text: str) -> None:
        """A piece of thinking."""
        call.send({"reasoning_content": text})

    def tool(self, call: Call, index: int, call_id: str, name: str, arguments: str) -> None:
        """A whole tool call; ``arguments`` are JSON text."""
        function = {"name": name, "arguments": arguments}
        call.send({"tool_calls": [{"index": index, "id": call_id, "function": function}]})

    def finish(self, call: Call, label: str | None = "stop", usage: tuple[int, int] | None = None) -> None:
        """The finish label (None: none at all), the usage, the end of the body."""
        if label is not None:
            call.send({}, label)
        if usage is not None:
            counts = {"prompt_tokens": usage[0], "completion_tokens": usage[1]}
            call.send_bytes(sse({"choices": [], "usage": counts}))
        call.send_bytes(b"data: [DONE]\n\n")
        call.end_body()

    def error(self, call: Call, kind: str, message: str) -> None:
        """An error inside the stream."""
        call.send_bytes(sse({"error": {"message": message, "code": kind}}))

    def results(self, body: t.Any) -> list[tuple[str, str]]:
        """Id and content of every tool result in a request, in order."""
        return [(m["tool_call_id"], m["content"]) for m in body["messages"] if m["role"] == "tool"]

    def assistant(self, body: t.Any) -> list[dict[str, t.Any]]:
        """The assistant messages of a request."""
        return [m for m in body["messages"] if m["role"] == "assistant"]

    def said(self, body: t.Any) -> list[str]:
        """Texts of the assistant messages of a request."""
        return [m.get("content") or "" for m in self.assistant(body)]


_STOPS = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"}


class Messages:
    """The Messages protocol. Blocks are opened and closed as needed."""

    name = "anthropic_messages"
    model = "anthropic/claude-sonnet-4-5"

    def __init__(self) -> None:
        self._open: dict[Call, tuple[int, str | None]] = {}

    def text(self, call: Call, text: str) -> None:
        """A piece of answer."""
        self._delta(call, "text", {"type": "text", "text": ""}, {"type": "text_delta", "text": text})

    def text_frame(self, text: str) -> bytes:
        """The bytes of the frame of a piece of answer in block 0, with its characters unescaped."""
        value = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
        return (
            b"event: content_block_delta\ndata: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"
        )

    def running(self, call: Call, text: str, given: int, made: int) -> None:
        """A piece of answer and the usage up to now."""
        self.text(call, text)
        counts = {"input_tokens": given, "output_tokens": made}
        self.event(call, {"type": "message_delta", "delta": {}, "usage": counts})

    def begin(self, call: Call) -> None:
        """Open text block 0."""
        self._block(call, "text", {"type": "text", "text": ""})

    def think(self, call: Call, text: str) -> None:
        """A piece of thinking."""
        start = {"type": "thinking", "thinking": "", "signature": ""}
        self._delta(call, "thinking", start, {"type": "thinking_delta", "thinking": text})

    def tool(self, call: Call, index: int, call_id: str, name: str, arguments: str) -> None:
        """A whole tool call; ``arguments`` are JSON text."""
        self._close(call)
        start = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": arguments}
        self._delta(call, f"tool {call_id}", start, delta)

    def finish(self, call: Call, label: str | None = "stop", usage: tuple[int, int] | None = None) -> None:
        """The stop reason (None: none at all), the usage, the end of the body."""
        self._close(call)
        counts = {} if usage is None else {"input_tokens": usage[0], "output_tokens": usage[1]}
        if label is not None or usage is not None:
            reason = _STOPS.get(label or "", label)
            self.event(call, {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": counts})
        self.event(call, {"type": "message_stop"})
        self._open.pop(call, None)
        call.end_body()

    def error(self, call: Call, kind: str, message: str) -> None:
        """An error inside the stream."""
        self.event(call, {"type": "error", "error": {"type": kind, "message": message}})

    def event(self, call: Call, value: dict[str, t.Any]) -> None:
        """One typed event."""
        self._begin(call)
        call.send_bytes(sse(value, value["type"]))

    def results(self, body: t.Any) -> list[tuple[str, str]]:
        """Id and content of every tool result in a request, in order."""
        blocks = [
            b
            for m in body["messages"]
            if m["role"] == "user" and isinstance(m["content"], list)
            for b in m["content"]
        ]
        return [(b["tool_use_id"], _text(b["content"])) for b in blocks if b["type"] == "tool_result"]

    def assistant(self, body: t.Any) -> list[dict[str, t.Any]]:
        """The assistant messages of a request."""
        return [m for m in body["messages"] if m["role"] == "assistant"]

    def said(self, body: t.Any) -> list[str]:
        """Texts of the assistant messages of a request."""
        return [_text(m["content"]) for m in self.assistant(body)]

    def _begin(self, call: Call) -> None:
        if call not in self._open:
            self._open[call] = (-1, None)
            message = {"id": "msg_1", "role": "assistant", "model": "claude", "content": []}
            usage = {"input_tokens": 0, "output_tokens": 0}
            call.send_bytes(
                sse({"type": "message_start", "message": {**message, "usage": usage}}, "message_start")
            )

    def _block(self, call: Call, kind: str, start: dict[str, t.Any]) -> None:
        self._begin(call)
        if self._open[call][1] != kind:
            self._close(call)
            index = self._open[call][0] + 1
            self._open[call] = (index, kind)
            self.event(call, {"type": "content_block_start", "index": index, "content_block": start})

    def _delta(self, call: Call, kind: str, start: dict[str, t.Any], delta: dict[str, t.Any]) -> None:
        self._block(call, kind, start)
        self.event(call, {"type": "content_block_delta", "index": self._open[call][0], "delta": delta})

    def _close(self, call: Call) -> None:
        self._begin(call)
        index, kind = self._open[call]
        if kind is not None:
            self._open[call] = (index, None)
            self.event(call, {"type": "content_block_stop", "index": index})


def _text(content: t.Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(block.get("text", "") for block in content if block["type"] == "text")


Speaker = Chat | Messages | Responses | Gemini | Converse | Cohere | Ollama
WIRES: dict[str, t.Callable[[], Speaker]] = {
    "chat": Chat,
    "messages": Messages,
    "responses": Responses,
    "gemini": Gemini,
    "converse": Converse,
    "cohere": Cohere,
    "ollama": Ollama,
}


class Tape:
    """Stands where a call stands and keeps what a speaker sends.

    :ivar pieces: each send on its own.
    """

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.content_type = "text/event-stream"
        self.body = {"model": "m"}

    def send_bytes(self, piece: bytes) -> None:
        """Keep it."""
        self.pieces.append(piece)

    send = Call.send
    text = Call.text

    def end_body(self) -> None:
        """Nothing more comes."""


def spoken(speaker: Speaker, text: str) -> tuple[bytes, bytes, bytes, str]:
    """An answer of one piece: what comes before its frame, the frame, what follows, and the content type."""
    tape = t.cast("t.Any", Tape())
    speaker.begin(tape)
    before = b"".join(tape.pieces)
    tape.pieces.clear()
    speaker.finish(tape)
    return before, speaker.text_frame(text), b"".join(tape.pieces), tape.content_type


#: Those that send events as text, where a comment may stand.
EVENTFUL = [name for name in WIRES if name not in ("converse", "ollama")]
#: Those that state usage more than once.
RUNNING = ["chat", "messages", "gemini"]
#: Those whose arguments are text that comes in pieces, so that it can be cut or malformed.
FRAGMENTED = [name for name in WIRES if name not in ("gemini", "ollama")]
