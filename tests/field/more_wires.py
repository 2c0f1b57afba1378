"""Speakers of the other vendor protocols; see ``wires``.

Law of this room: what a speaker sends is what the vendor's own stream looks like, frame for frame.
"""

from __future__ import annotations

import json
import struct
import typing as t
import zlib
from collections.abc import Iterable

from tests.support.vendor import Call

Json = dict[str, t.Any]


def sse(value: t.Any, event: str | None = None) -> bytes:
    """One frame of an upstream stream; strings go as they are."""
    data = value if isinstance(value, str) else json.dumps(value)
    head = f"event: {event}\n" if event else ""
    return f"{head}data: {data}\n\n".encode()


def _unescaped(value: t.Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


class Responses:
    """The Responses protocol: items with parts, each opened and closed."""

    name = "openai_responses"
    model = "openai/gpt-5"

    def __init__(self) -> None:
        self._items: dict[Call, list[Json]] = {}
        self._open: dict[Call, str | None] = {}

    def text(self, call: Call, text: str) -> None:
        """A piece of answer."""
        self._item(call, "message")
        self.event(call, {"type": "response.output_text.delta", "content_index": 0, "delta": text})
        self._items[call][-1]["content"][0]["text"] += text

    def begin(self, call: Call) -> None:
        """What comes before the first frame of text."""
        self._item(call, "message")

    def text_frame(self, text: str) -> bytes:
        """The bytes of the frame of a piece of answer, with its characters unescaped."""
        value = {"type": "response.output_text.delta", "output_index": 0, "item_id": "i0", "delta": text}
        return b"event: response.output_text.delta\ndata: " + _unescaped(value) + b"\n\n"

    def think(self, call: Call, text: str) -> None:
        """A piece of thinking."""
        self._item(call, "reasoning")
        self.event(call, {"type": "response.reasoning_summary_text.delta", "summary_index": 0, "delta": text})
        self._items[call][-1]["summary"][0]["text"] += text

    def tool(self, call: Call, index: int, call_id: str, name: str, arguments: str) -> None:
        """A whole tool call; ``arguments`` are JSON text."""
        self._close(call)
        self._item(call, f"tool {call_id}", {"call_id": call_id, "name": name})
        self.event(call, {"type": "response.function_call_arguments.delta", "delta": arguments})
        self._items[call][-1]["arguments"] = arguments

    def finish(self, call: Call, label: str | None = "stop", usage: tuple[int, int] | None = None) -> None:
        """The end of the response (None: none at all), with the usage, and of the body."""
        self._close(call, done=label != "length")
        if label is not None or usage is not None:
            cut = label == "length"
            response: Json = {
                "status": "incomplete" if cut else "completed",
                "output": self._items.get(call, []),
                "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            }
            if usage is not None:
                given, made = usage
                response["usage"] = {
                    "input_tokens": given,
                    "output_tokens": made,
                    "total_tokens": given + made,
                }
            kind = "response.incomplete" if cut else "response.completed"
            self.event(call, {"type": kind, "response": response})
        self._items.pop(call, None)
        self._open.pop(call, None)
        call.end_body()

    def error(self, call: Call, kind: str, message: str) -> None:
        """An error inside the stream."""
        self.event(call, {"type": "error", "error": {"type": kind, "code": kind, "message": message}})

    def event(self, call: Call, value: Json) -> None:
        """One typed event, of the item that is open."""
        if call not in self._items:
            self._items[call], self._open[call] = [], None
            call.send_bytes(sse({"type": "response.created", "response": {"model": "m"}}, "response.created"))
        place = {
            "output_index": max(0, len(self._items[call]) - 1),
            "item_id": f"i{len(self._items[call]) - 1}",
        }
        call.send_bytes(sse({**place, **value}, value["type"]))

    def results(self, body: t.Any) -> list[tuple[str, str]]:
        """Id and content of every tool result in a request, in order."""
        return [(i["call_id"], i["output"]) for i in body["input"] if i.get("type") == "function_call_output"]

    def assistant(self, body: t.Any) -> list[Json]:
        """What the model said and did in a request."""
        return [
            i
            for i in body["input"]
            if i.get("type") in ("message", "function_call", "reasoning") and i.get("role") != "user"
        ]

    def said(self, body: t.Any) -> list[str]:
        """Texts of the assistant messages of a request."""
        return [_joined(i["content"]) for i in body["input"] if i.get("role") == "assistant"]

    def _item(self, call: Call, kind: str, more: Json | None = None) -> None:
        if self._open.get(call) == kind:
            return
        self._close(call)
        if call not in self._items:
            self.event(call, {"type": "response.in_progress"})
        items = self._items[call]
        item: Json = {"id": f"i{len(items)}", "type": kind.partition(" ")[0]}
        if kind == "message":
            item |= {"role": "assistant", "content": [{"type": "output_text", "text": "", "annotations": []}]}
        elif kind == "reasoning":
            item |= {"summary": [{"type": "summary_text", "text": ""}]}
        else:
            item |= {"type": "function_call", "arguments": "", **(more or {})}
        items.append(item)
        self._open[call] = kind
        empty = {"content": []} if kind == "message" else {"summary": []} if kind == "reasoning" else {}
        self.event(call, {"type": "response.output_item.added", "item": {**item, **empty}})

    def _close(self, call: Call, done: bool = True) -> None:
        if self._open.get(call) is not None:
            self._open[call] = None
            item = self._items[call][-1]
            status = {"status": "completed" if done else "incomplete"}
            self.event(call, {"type": "response.output_item.done", "item": {**item, **status}})


class Gemini:
    """The Gemini protocol: parts; arguments are objects and come whole."""

    name = "gemini"
    model = "gemini/gemini-2.5-flash"
    _labels: t.ClassVar = {"stop": "STOP", "tool_calls": "STOP", "length": "MAX_TOKENS", "other": "OTHER"}

    def text(self, call: Call, text: str) -> None:
        """A piece of answer."""
        self._part(call, {"text": text})

    def begin(self, call: Call) -> None:
        """Nothing comes before the first frame of text."""

    def running(self, call: Call, text: str, given: int, made: int) -> None:
        """A piece of answer with the usage up to now."""
        counts = {"promptTokenCount": given, "candidatesTokenCount": made, "totalTokenCount": given + made}
        value = {"candidates": [{"content": {"parts": [{"text": text}], "role": "model"}}]}
        call.send_bytes(sse({**value, "usageMetadata": counts}))

    def text_frame(self, text: str) -> bytes:
        """The bytes of the frame of a piece of answer, with its characters unescaped."""
        value = {"candidates": [{"content": {"parts": [{"text": text}], "role": "model"}, "index": 0}]}
        return b"data: " + _unescaped(value) + b"\r\n\r\n"

    def think(self, call: Call, text: str) -> None:
        """A piece of thinking."""
        self._part(call, {"text": text, "thought": True})

    def tool(self, call: Call, index: int, call_id: str, name: str, arguments: str) -> None:
        """A whole tool call; ``arguments`` are JSON text."""
        self._part(
            call, {"functionCall": {"id": call_id, "name": name, "args": json.loads(arguments or "{}")}}
        )

    def finish(self, call: Call, label: str | None = "stop", usage: tuple[int, int] | None = None) -> None:
        """The finish reason (None: none at all), the usage, the end of the body."""
        value: Json = {"candidates": [{"content": {"parts": [{"text": ""}], "role": "model"}, "index": 0}]}
        if label is not None:
            value["candidates"][0]["finishReason"] = self._labels.get(label, label)
        if usage is not None:
            given, made = usage
            counts = {
                "promptTokenCount": given,
                "candidatesTokenCount": made,
                "totalTokenCount": given + made,
            }
            value["usageMetadata"] = counts
        if label is not None or usage is not None:
            call.send_bytes(b"data: " + json.dumps(value).encode() + b"\r\n\r\n")
        call.end_body()

    def error(self, call: Call, kind: str, message: str) -> None:
        """An error inside the stream."""
        code, status = (429, "RESOURCE_EXHAUSTED") if "rate" in kind else (503, "UNAVAILABLE")
        call.send_bytes(sse({"error": {"code": code, "message": message, "status": status}}))

    def results(self, body: t.Any) -> list[tuple[str, str]]:
        """Id and content of every tool result in a request, in order."""
        parts = [
            p["functionResponse"] for c in body["contents"] for p in c["parts"] if "functionResponse" in p
        ]
        return [(part.get("id", ""), _flat(part["response"])) for part in parts]

    def assistant(self, body: t.Any) -> list[Json]:
        """The model's contents of a request."""
        return [content for content in body["contents"] if content["role"] == "model"]

    def said(self, body: t.Any) -> list[str]:
        """Texts of the model's contents of a request."""
        return [
            "".join(p.get("text", "") for p in content["parts"] if not p.get("thought"))
            for content in self.assistant(body)
        ]

    def _part(self, call: Call, part: Json) -> None:
        value = {"candidates": [{"content": {"parts": [part], "role": "model"}, "index": 0}]}
        call.send_bytes(b"data: " + json.dumps(value).encode() + b"\r\n\r\n")


def aws_frame(event: str, value: Json, kind: str = "event", *, raw: bool = False) -> bytes:
    """One message of an AWS event stream; ``kind`` is ``event`` or ``exception``; ``raw``: nothing is escaped."""
    named = {f":{kind}-type": event, ":content-type": "application/json", ":message-type": kind}
    headers = b"".join(
        bytes([len(name)]) + name.encode() + b"\x07" + struct.pack(">H", len(text)) + text.encode()
        for name, text in named.items()
    )
    payload = _unescaped(value) if raw else json.dumps(value).encode()
    prelude = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    front = prelude + struct.pack(">I", zlib.crc32(prelude)) + headers + payload
    return front + struct.pack(">I", zlib.crc32(front))


class Converse:
    """Bedrock's Converse protocol: binary frames, blocks by index."""

    name = "bedrock_converse"
    model = "bedrock/us.anthropic.claude-sonnet-4-20250514-v1:0"
    _labels: t.ClassVar = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"}

    def __init__(self) -> None:
        self._open: dict[Call, tuple[int, str | None]] = {}

    def text(self, call: Call, text: str) -> None:
        """A piece of answer."""
        self._delta(call, "text", {"text": text})

    def begin(self, call: Call) -> None:
        """What comes before the first frame of text."""
        self._block(call, "text")

    def text_frame(self, text: str) -> bytes:
        """The bytes of the frame of a piece of answer, with its characters unescaped."""
        return aws_frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": text}}, raw=True)

    def think(self, call: Call, text: str) -> None:
        """A piece of thinking."""
        self._delta(call, "thinking", {"reasoningContent": {"text": text}})

    def tool(self, call: Call, index: int, call_id: str, name: str, arguments: str) -> None:
        """A whole tool call; ``arguments`` are JSON text."""
        self._block(call, f"tool {call_id}")
        start = {"toolUse": {"toolUseId": call_id, "name": name}}
        self._send(call, "contentBlockStart", {"contentBlockIndex": self._open[call][0], "start": start})
        self._delta(call, f"tool {call_id}", {"toolUse": {"input": arguments}})

    def finish(self, call: Call, label: str | None = "stop", usage: tuple[int, int] | None = None) -> None:
        """The stop reason (None: none at all), the usage, the end of the body."""
        self._close(call)
        if label is not None:
            self._send(call, "messageStop", {"stopReason": self._labels.get(label, label)})
        if usage is not None:
            given, made = usage
            counts = {"inputTokens": given, "outputTokens": made, "totalTokens": given + made}
            self._send(call, "metadata", {"usage": counts})
        self._open.pop(call, None)
        call.end_body()

    def error(self, call: Call, kind: str, message: str) -> None:
        """An error inside the stream."""
        self._begin(call)
        name = "throttlingException" if "rate" in kind else "serviceUnavailableException"
        call.send_bytes(aws_frame(name, {"message": message}, "exception"))

    def results(self, body: t.Any) -> list[tuple[str, str]]:
        """Id and content of every tool result in a request, in order."""
        parts = [p["toolResult"] for m in body["messages"] for p in m["content"] if "toolResult" in p]
        return [(part["toolUseId"], _joined(part["content"])) for part in parts]

    def assistant(self, body: t.Any) -> list[Json]:
        """The assistant messages of a request."""
        return [m for m in body["messages"] if m["role"] == "assistant"]

    def said(self, body: t.Any) -> list[str]:
        """Texts of the assistant messages of a request."""
        return [_joined(m["content"]) for m in self.assistant(body)]

    def _begin(self, call: Call) -> None:
        if call not in self._open:
            self._open[call] = (-1, None)
            call.content_type = "application/vnd.amazon.eventstream"
            self._send(call, "messageStart", {"role": "assistant"})

    def _send(self, call: Call, event: str, value: Json) -> None:
        self._begin(call)
        call.send_bytes(aws_frame(event, {**value, "p": "abcd"}))

    def _block(self, call: Call, kind: str) -> None:
        self._begin(call)
        if self._open[call][1] != kind:
            self._close(call)
            self._open[call] = (self._open[call][0] + 1, kind)

    def _delta(self, call: Call, kind: str, delta: Json) -> None:
        self._block(call, kind)
        self._send(call, "contentBlockDelta", {"contentBlockIndex": self._open[call][0], "delta": delta})

    def _close(self, call: Call) -> None:
        self._begin(call)
        index, kind = self._open[call]
        if kind is not None:
            self._open[call] = (index, None)
            self._send(call, "contentBlockStop", {"contentBlockIndex": index})


class Cohere:
    """Cohere's chat protocol, version 2."""

    name = "cohere_chat"
    model = "cohere/command-a-reasoning-08-2025"
    _labels: t.ClassVar = {
        "stop": "COMPLETE",
        "tool_calls": "TOOL_CALL",
        "length": "MAX_TOKENS",
        "other": "OTHER",
    }

    def __init__(self) -> None:
        self._kinds: dict[Call, list[str]] = {}

    def text(self, call: Call, text: str) -> None:
        """A piece of answer."""
        self._content(call, "text", text)

    def begin(self, call: Call) -> None:
        """What comes before the first frame of text."""
        self._content(call, "text", "")

    def text_frame(self, text: str) -> bytes:
        """The bytes of the frame of a piece of answer, with its characters unescaped."""
        value = {"type": "content-delta", "index": 0, "delta": {"message": {"content": {"text": text}}}}
        return b"event: content-delta\ndata: " + _unescaped(value) + b"\n\n"

    def think(self, call: Call, text: str) -> None:
        """A piece of thinking."""
        self._content(call, "thinking", text)

    def tool(self, call: Call, index: int, call_id: str, name: str, arguments: str) -> None:
        """A whole tool call; ``arguments`` are JSON text."""
        function: Json = {"name": name, "arguments": ""}
        calls = {"id": call_id, "type": "function", "function": function}
        self._event(call, "tool-call-start", {"index": index, "delta": {"message": {"tool_calls": calls}}})
        piece = {"function": {"arguments": arguments}}
        self._event(call, "tool-call-delta", {"index": index, "delta": {"message": {"tool_calls": piece}}})
        self._event(call, "tool-call-end", {"index": index})

    def finish(self, call: Call, label: str | None = "stop", usage: tuple[int, int] | None = None) -> None:
        """The finish reason (None: none at all), the usage, the end of the body."""
        delta: Json = {}
        if label is not None:
            delta["finish_reason"] = self._labels.get(label, label)
        if usage is not None:
            counts = {"input_tokens": usage[0], "output_tokens": usage[1]}
            delta["usage"] = {"billed_units": counts, "tokens": counts}
        if delta:
            self._event(call, "message-end", {"delta": delta})
        call.send_bytes(sse("[DONE]"))
        self._kinds.pop(call, None)
        call.end_body()

    def error(self, call: Call, kind: str, message: str) -> None:
        """An error inside the stream."""
        call.send_bytes(sse({"error": {"type": kind, "message": message}}))

    def results(self, body: t.Any) -> list[tuple[str, str]]:
        """Id and content of every tool result in a request, in order."""
        return [(m["tool_call_id"], _flat(m["content"])) for m in body["messages"] if m["role"] == "tool"]

    def assistant(self, body: t.Any) -> list[Json]:
        """The assistant messages of a request."""
        return [m for m in body["messages"] if m["role"] == "assistant"]

    def said(self, body: t.Any) -> list[str]:
        """Texts of the assistant messages of a request."""
        return [_joined(m.get("content") or "") for m in self.assistant(body)]

    def _content(self, call: Call, kind: str, text: str) -> None:
        kinds = self._kinds.setdefault(call, [])
        if not kinds or kinds[-1] != kind:
            kinds.append(kind)
            content = {"type": kind, kind: ""}
            start = {"index": len(kinds) - 1, "delta": {"message": {"content": content}}}
            self._event(call, "content-start", start)
        delta = {"message": {"content": {kind: text}}}
        if not text:
            return
        self._event(call, "content-delta", {"index": len(kinds) - 1, "delta": delta})

    def _event(self, call: Call, kind: str, value: Json) -> None:
        call.send_bytes(sse({"type": kind, **value}, kind))


class Ollama:
    """Ollama's own protocol: JSON lines; arguments are objects and come whole."""

    name = "ollama_chat"
    model = "ollama/qwen3"

    def text(self, call: Call, text: str) -> None:
        """A piece of answer."""
        self._line(call, {"message": {"role": "assistant", "content": text}, "done": False})

    def begin(self, call: Call) -> None:
        """Nothing comes before the first line of text."""
        call.content_type = "application/x-ndjson"

    def text_frame(self, text: str) -> bytes:
        """The bytes of the line of a piece of answer, with its characters unescaped."""
        return _unescaped({"message": {"role": "assistant", "content": text}, "done": False}) + b"\n"

    def think(self, call: Call, text: str) -> None:
        """A piece of thinking."""
        message = {"role": "assistant", "content": "", "thinking": text}
        self._line(call, {"message": message, "done": False})

    def tool(self, call: Call, index: int, call_id: str, name: str, arguments: str) -> None:
        """A whole tool call; ``arguments`` are JSON text."""
        function = {"index": index, "name": name, "arguments": json.loads(arguments or "{}")}
        message = {"role": "assistant", "content": "", "tool_calls": [{"id": call_id, "function": function}]}
        self._line(call, {"message": message, "done": False})

    def finish(self, call: Call, label: str | None = "stop", usage: tuple[int, int] | None = None) -> None:
        """The last line (None: none at all), with the usage, and the end of the body."""
        if label is not None or usage is not None:
            last: Json = {"message": {"role": "assistant", "content": ""}, "done": True}
            if label is not None:
                last["done_reason"] = {"tool_calls": "stop"}.get(label, label)
            if usage is not None:
                last |= {"prompt_eval_count": usage[0], "eval_count": usage[1]}
            self._line(call, last)
        call.end_body()

    def error(self, call: Call, kind: str, message: str) -> None:
        """An error inside the stream."""
        self._line(call, {"error": message})

    def results(self, body: t.Any) -> list[tuple[str, str]]:
        """Name and content of every tool result in a request, in order: this vendor knows no ids."""
        return [(m.get("tool_call_id", ""), m["content"]) for m in body["messages"] if m["role"] == "tool"]

    def assistant(self, body: t.Any) -> list[Json]:
        """The assistant messages of a request."""
        return [m for m in body["messages"] if m["role"] == "assistant"]

    def said(self, body: t.Any) -> list[str]:
        """Texts of the assistant messages of a request."""
        return [m.get("content") or "" for m in self.assistant(body)]

    def _line(self, call: Call, value: Json) -> None:
        call.content_type = "application/x-ndjson"
        call.send_bytes(json.dumps({"model": "qwen3", **value}).encode() + b"\n")


def _joined(content: str | Iterable[Json]) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def _flat(content: t.Any) -> str:
    """The text of a result in whichever shape the vendor wants it."""
    if isinstance(content, list):
        return "".join(_flat(part.get("text") or part["document"]["data"]) for part in content)
    if isinstance(content, dict):
        only = (
            content.get("content", content.get("output", content.get("error"))) if len(content) == 1 else None
        )
        return only if isinstance(only, str) else json.dumps(content)
    return str(content)
