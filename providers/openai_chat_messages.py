"""The conversation as the chat-completions wire sends it: files, cache marks, and what a vendor wants back.

Law of this room: what a vendor sent beside text and calls goes back as it came, to that vendor only; nothing of
earlier thinking ever becomes text. The switches are listed in ``openai_chat_request``.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping, Sequence

from providers.request_parts import (
    data_url,
    file_base64,
    file_text,
    hashed,
    safe_name,
    sent_arguments,
    shortened,
)
from providers.spec import (
    AssistantMessage,
    FilePart,
    Json,
    Message,
    ModelRequest,
    ToolCall,
    ToolResult,
    UserMessage,
)

WIRE_NAME = "openai_chat"


_MARK = {"cache_control": {"type": "ephemeral"}}
#: The longest call id that OpenAI takes on this wire.
MAX_ID = 40
_ALNUM9 = re.compile("[A-Za-z0-9]{9}")


def messages_of(request: ModelRequest) -> list[Json]:
    """The ``messages`` member of one request."""
    dialect = request.dialect
    marks = request.cache and dialect.get("cache") == "anthropic"
    messages: list[Json] = []
    if request.system:
        messages.append({"role": "system", "content": _marked(request.system, marks)})
    last_user = _last_user(request.messages)
    ids = _CallIds(dialect.get("call_ids"))
    for at, message in enumerate(request.messages):
        if isinstance(message, UserMessage):
            messages.append({"role": "user", "content": _user(message, dialect, marks and at == last_user)})
        elif isinstance(message, ToolResult):
            messages.append(
                {"role": "tool", "tool_call_id": ids.sent(message.call_id), "content": message.content}
            )
        else:
            ids.note(message)
            messages.append(_assistant(message, dialect, ids, in_loop=at > last_user))
    return _split_calls(messages) if dialect.get("split_calls") else messages


def _last_user(messages: Sequence[Message]) -> int:
    return max((at for at, message in enumerate(messages) if isinstance(message, UserMessage)), default=-1)


def _marked(text: str, marks: bool) -> t.Any:
    return [{"type": "text", "text": text, **_MARK}] if marks else text


def _user(message: UserMessage, dialect: Mapping[str, t.Any], marked: bool) -> t.Any:
    """A plain string where that says it all: some servers take nothing else."""
    if not message.files:
        return _marked(message.text, marked)
    parts = [_file(part, dialect) for part in message.files]
    if message.text:
        parts.append({"type": "text", "text": message.text})
    if marked:
        parts[-1] = {**parts[-1], **_MARK}
    return parts


def _file(part: FilePart, dialect: Mapping[str, t.Any]) -> Json:
    if part.kind == "text":
        return {"type": "text", "text": file_text(part)}
    if part.kind == "image":
        return {"type": "image_url", "image_url": {"url": data_url(part)}}
    name = part.name or "document.pdf"
    match dialect.get("pdf"):
        case "document_url":
            return {"type": "document_url", "document_url": data_url(part), "document_name": name}
        case "file_url":
            return {"type": "file_url", "file_url": {"url": file_base64(part)}, "file_name": name}
        case _:
            return {"type": "file", "file": {"filename": name, "file_data": data_url(part)}}


class _CallIds:
    """Ids in the alphabet and length that a vendor takes; ids that it gave out itself go back as they are."""

    def __init__(self, rule: str | None) -> None:
        self._rule = rule
        self._own: set[str] = set()

    def note(self, message: AssistantMessage) -> None:
        if message.wire == WIRE_NAME:
            self._own.update(call.id for call in message.calls)

    def sent(self, call_id: str) -> str:
        if call_id in self._own:
            return call_id
        if self._rule == "alnum9":
            return call_id if _ALNUM9.fullmatch(call_id) else hashed(call_id)[:9]
        return shortened(call_id, MAX_ID)


def _assistant(
    message: AssistantMessage, dialect: Mapping[str, t.Any], ids: _CallIds, *, in_loop: bool
) -> Json:
    built: Json = {"role": "assistant", "content": message.text or ("" if not message.calls else None)}
    replay = message.replay if message.wire == WIRE_NAME and isinstance(message.replay, Mapping) else {}
    extras = replay.get("calls") or {}
    if message.calls:
        built["tool_calls"] = [{**_call(call, ids), **extras.get(call.id, {})} for call in message.calls]
    rule = dialect.get("replay_thinking", "loop")
    if rule == "always" or (rule == "loop" and in_loop):
        built.update(replay.get("thinking") or {})
        for key in ("reasoning_details", "reasoning_signature"):
            if replay.get(key):
                built[key] = replay[key]
        if replay.get("parts"):
            built["content"] = replay["parts"]
    required = dialect.get("thinking_required")
    if required and in_loop and message.calls:
        built.setdefault(required, "")
    return built


def _call(call: ToolCall, ids: _CallIds) -> Json:
    return {
        "id": ids.sent(call.id),
        "type": "function",
        "function": {"name": safe_name(call.name), "arguments": sent_arguments(call)},
    }


def _split_calls(messages: list[Json]) -> list[Json]:
    """Each result right behind a message with its call alone, for servers that refuse a result behind a result."""
    split: list[Json] = []
    calls: dict[str, Json] = {}
    for message in messages:
        if message["role"] == "assistant":
            made = message.get("tool_calls") or []
            calls = {call["id"]: call for call in made[1:]}
            split.append({**message, "tool_calls": made[:1]} if made else message)
            continue
        if message["role"] == "tool" and message["tool_call_id"] in calls:
            call = calls.pop(message["tool_call_id"])
            split.append({"role": "assistant", "content": None, "tool_calls": [call]})
        split.append(message)
    return split
