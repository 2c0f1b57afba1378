"""What LangChain's messages hold, in plain values. Pure.

Law of this room: thinking and the payloads of tools never get into outputs: readers' rights to them are judged where
they are told as events.
"""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Iterator, Mapping, Sequence

_MAX_DEPTH = 32
_DETAILS = (
    ("input_token_details", "cache_read", "cacheRead"),
    ("input_token_details", "cache_creation", "cacheWrite"),
    ("output_token_details", "reasoning", "reasoning"),
)


def pieces(message: t.Any) -> Iterator[tuple[t.Literal["text", "thinking", "redacted"], str]]:
    """The parts of a message, or of a piece of one, in order."""
    extra = getattr(message, "additional_kwargs", None) or {}
    if isinstance(thinks := extra.get("reasoning_content"), str) and thinks:
        yield "thinking", thinks
    content = message.content
    if isinstance(content, str):
        if content:
            yield "text", content
        return
    for block in content:
        if isinstance(block, str):
            yield "text", block
        elif isinstance(block, Mapping):
            yield from _block(block)


def _block(block: Mapping[str, t.Any]) -> Iterator[tuple[t.Literal["text", "thinking", "redacted"], str]]:
    kind = block.get("type")
    if kind in ("text", "output_text", "text_delta") and isinstance(block.get("text"), str):
        yield "text", block["text"]
    elif kind == "thinking" and isinstance(block.get("thinking"), str):
        yield "thinking", block["thinking"]
    elif kind == "redacted_thinking":
        yield "redacted", ""
    elif kind in ("reasoning", "reasoning_content"):
        said = block.get("reasoning", block.get("text", block.get("summary")))
        if isinstance(said, str):
            yield "thinking", said
        elif isinstance(said, Sequence):
            yield from (
                ("thinking", part["text"]) for part in said if isinstance(part, Mapping) and "text" in part
            )


def text_of(message: t.Any) -> str:
    """What a message says."""
    return "".join(text for kind, text in pieces(message) if kind == "text")


def is_ai(value: t.Any) -> bool:
    """Whether it is what a model said, or a piece of it."""
    return getattr(value, "type", None) in ("ai", "AIMessageChunk")


def calls_tools(message: t.Any) -> bool:
    """Whether it asks for tools."""
    return bool(getattr(message, "tool_calls", None) or getattr(message, "tool_call_chunks", None))


def answer_in(messages: t.Any) -> str | None:
    """The text of the last message of a list, when a model said it and asked for nothing."""
    last = messages[-1] if isinstance(messages, list) and messages else messages
    return text_of(last) if is_ai(last) and not calls_tools(last) else None


def tokens_of(usage: Mapping[str, t.Any]) -> dict[str, int]:
    """Counts in Studio's spelling; what was not said is left out."""
    found = {
        name: usage[key]
        for key, name in (("input_tokens", "input"), ("output_tokens", "output"), ("total_tokens", "total"))
        if isinstance(usage.get(key), int)
    }
    for where, key, name in _DETAILS:
        count = (usage.get(where) or {}).get(key)
        if isinstance(count, int):
            found[name] = count
    return found


def plain(value: t.Any, depth: int = 0) -> t.Any:
    """A value as JSON has it. Of messages what was said, by people and finally by models."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if depth > _MAX_DEPTH:
        return "[too deep]"
    if isinstance(value, Mapping):
        return {str(key): plain(item, depth + 1) for key, item in value.items()}
    if _is_message(value):
        return said(value)
    if isinstance(value, (list, tuple, set, frozenset)):
        items = (plain(item, depth + 1) for item in value if not _is_message(item) or said(item) is not None)
        return list(items)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name), depth + 1) for each in dataclasses.fields(value)}
    if hasattr(value, "model_dump"):
        return plain(value.model_dump(), depth + 1)
    return str(value)


def said(message: t.Any) -> dict[str, str] | None:
    """``{role, content}`` of a message; None of one that is for the model's ears, or not final."""
    kind = getattr(message, "type", "")
    roles = {"human": "user", "ai": "assistant", "AIMessageChunk": "assistant"}
    if kind not in roles or calls_tools(message):
        return None
    return {"role": roles[kind], "content": text_of(message)}


def _is_message(value: t.Any) -> bool:
    return hasattr(value, "additional_kwargs") and hasattr(value, "content") and hasattr(value, "type")
