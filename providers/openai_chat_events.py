"""Chunks of the chat-completions shape to model events, for the wires that speak it.

Law of this room: nothing a vendor sends is trusted to be where the reference puts it. The decoder is
sans-IO; whatever is absent, null, empty, repeated or out of place has a meaning here (providers.md 3).
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from providers import errors
from providers.decoding import EventStreamDecoder, count
from providers.openai_chat_snapshots import Snapshots
from providers.spec import (
    FinishReason,
    ModelEvent,
    ModelRequest,
    ProviderErrorCode,
    TextDelta,
    ThinkingDelta,
    Usage,
    UsageStated,
)

_FINISH: dict[str, FinishReason] = {
    "stop": "stop",
    "eos": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
    "sensitive": "content_filter",
    "safety": "content_filter",
    "refusal": "refusal",
}
#: Labels by which a vendor says that it failed, when no error object came.
_FAILED: dict[str, ProviderErrorCode] = {
    "error": "provider_unavailable",
    "network_error": "provider_unavailable",
    "abort": "provider_unavailable",
    "insufficient_system_resource": "provider_overloaded",
}
_THINKING_FIELDS = ("reasoning_content", "reasoning")
#: Keys of a call that some gateways want back beside it (thought signatures of Gemini behind them).
_CALL_EXTRAS = ("extra_content", "provider_specific_fields", "thought_signature")


class OpenAIChatDecoder(EventStreamDecoder):
    """Chunks of one chat completion to model events."""

    def __init__(self, request: ModelRequest) -> None:
        super().__init__(request)
        self._stated: Mapping[str, t.Any] | None = None
        self._thinking: dict[str, list[str]] = {}
        self._details: list[t.Any] = []
        self._signature: str | None = None
        self._parts: list[dict[str, t.Any]] = []
        self._whole: dict[str, t.Any] = {}
        self._snapshots = Snapshots() if request.dialect.get("cumulative") else None
        self._plain = self._plain and self._snapshots is None

    def _value(self, value: dict[str, t.Any], out: list[ModelEvent]) -> None:
        # The common chunk first: one choice, one delta, nothing but text in it.
        try:
            (choice,) = value["choices"]
            delta = choice["delta"]
            text = delta["content"]
            if (
                text
                and type(text) is str
                and self._plain
                and (len(delta) == 1 or (len(delta) == 2 and "role" in delta))
                and not choice.get("finish_reason")
                and not choice.get("index")
                and not value.get("usage")
                and not value.get("error")
            ):
                self.moved = self._answered = True
                out.append(TextDelta(text))
                return
        except (KeyError, ValueError, TypeError, AttributeError):
            pass
        self._chunk(value, out)

    def _chunk(self, value: dict[str, t.Any], out: list[ModelEvent]) -> None:
        error = value.get("error")
        if error:
            self._note_usage(value, out)
            raise errors.in_band_error(error)
        model = value.get("model")
        if model and type(model) is str:
            self._model = model
        self._note_usage(value, out)
        if "search_results" in value or "citations" in value:
            self._cite(value, out)
        choices = value.get("choices")
        if not isinstance(choices, list):
            if errors.has_error(value):
                raise errors.in_band_error(value)
            return
        for choice in choices:
            if isinstance(choice, dict) and not choice.get("index"):
                self._choice(choice, out)

    def _choice(self, choice: dict[str, t.Any], out: list[ModelEvent]) -> None:
        self.moved = True
        if type(usage := choice.get("usage")) is dict and usage:
            self._stated = usage
        delta = choice.get("delta")
        if type(delta) is dict:
            self._delta(delta, out)
        if type(message := choice.get("message")) is dict:
            self._whole = message
        if error := choice.get("error"):
            raise errors.in_band_error(error)
        finish = choice.get("finish_reason")
        if finish:
            label = str(finish).lower()
            if label in _FAILED:
                # What failed may still follow and says more than the label does.
                self._broken = errors.failure(_FAILED[label], detail=f"finish_reason {label}")
                return
            self._label = _FINISH.get(label, "other")
            self.finished = True

    def _finish(self, out: list[ModelEvent], *, sentinel: bool) -> None:
        """See the base. A whole message beside the deltas is the answer where nothing was streamed, else a repeat."""
        if self._whole and not self._answered and not self._calls.calls:
            names = ("content", "refusal", "tool_calls") + (() if self._thought else _THINKING_FIELDS)
            self._delta({name: self._whole[name] for name in names if name in self._whole}, out)
        super()._finish(out, sentinel=sentinel)

    def _delta(self, delta: dict[str, t.Any], out: list[ModelEvent]) -> None:
        get = delta.get
        more = len(delta) > ("content" in delta) + ("role" in delta)
        if more:
            self._take_thinking(delta, out)
        content = get("content")
        if content:
            if self._snapshots is not None and type(content) is str:
                content = self._snapshots.news("content", content)
            if type(content) is not str:
                self._content_parts(content, out)
            elif self._plain:
                self._answered = True
                out.append(TextDelta(content))
            else:
                self._say(content, out)
        if more:
            self._rest(delta, out)

    def _rest(self, delta: dict[str, t.Any], out: list[ModelEvent]) -> None:
        refusal = delta.get("refusal")
        if refusal and type(refusal) is str:
            self._refused = True
            self._say(refusal, out)
        calls = delta.get("tool_calls")
        if calls:
            for call in calls if isinstance(calls, list) else [calls]:
                if isinstance(call, dict):
                    self._call(call, out)
        legacy = delta.get("function_call")
        if type(legacy) is dict:
            self._call({"index": 0, "function": legacy}, out)
        for note in delta.get("annotations") or ():
            self._source(note.get("url_citation") if isinstance(note, dict) else None, out)

    def _cite(self, value: dict[str, t.Any], out: list[ModelEvent]) -> None:
        """Sources beside the choices (Perplexity), which come again with every chunk; those with a title first."""
        for key in ("search_results", "citations"):
            for source in value.get(key) or ():
                self._source({"url": source} if isinstance(source, str) else source, out)

    def _source(self, source: t.Any, out: list[ModelEvent]) -> None:
        if isinstance(source, dict):
            self._cite_source(source.get("url"), source.get("title"), out)

    def _take_thinking(self, delta: dict[str, t.Any], out: list[ModelEvent]) -> None:
        """Thinking once a delta, however many fields repeat it; every field is kept for the vendor."""
        said = False
        for field in _THINKING_FIELDS:
            value = delta.get(field)
            if not value:
                continue
            text = value if type(value) is str else _text_of(value)
            if text and self._snapshots is not None:
                text = self._snapshots.news(field, text)
            if text:
                self._thinking.setdefault(field, []).append(text)
                if not said:
                    self._think(text, out)
                said = True
        details = delta.get("reasoning_details")
        if details and type(details) is list:
            details = self._keep_details(details)
            for detail in details:
                if isinstance(detail, dict):
                    said = self._detail(detail, said, out)
        signature = delta.get("reasoning_signature")
        if signature and type(signature) is str:
            self._signature = signature

    def _keep_details(self, details: list[t.Any]) -> list[t.Any]:
        """Keep them for the vendor; what is to be said of them."""
        if self._snapshots is None:
            self._details.extend(details)
            return details
        fresh = self._snapshots.details(details)
        if self._snapshots.cumulative("reasoning_details"):
            self._details = details
        else:
            self._details.extend(details)
        return fresh

    def _detail(self, detail: dict[str, t.Any], said: bool, out: list[ModelEvent]) -> bool:
        text = detail.get("text") or detail.get("summary")
        if text and not said and type(text) is str:
            self._think(text, out)
        elif detail.get("type") == "reasoning.encrypted" and not self._thought:
            self._thought = True
            out.append(ThinkingDelta("", True))
        return said

    def _content_parts(self, content: t.Any, out: list[ModelEvent]) -> None:
        """Content as a list of typed parts, thinking among them."""
        for part in content if isinstance(content, list) else [content]:
            if isinstance(part, str):
                part = {"type": "text", "text": part}
            if not isinstance(part, dict):
                continue
            if part.get("type") == "thinking":
                text = _text_of(part.get("thinking"))
                self._keep_part("thinking", text)
                self._think(text, out)
            elif part.get("type") in ("text", "output_text"):
                text = _text_of(part.get("text"))
                self._keep_part("text", text)
                self._say(text, out)
            elif part.get("type") == "reasoning":
                # Databricks: shown, but it wants nothing back.
                self._think(_text_of(part.get("summary")), out)
            elif part.get("type") == "refusal":
                self._refused = True
                self._say(_text_of(part.get("refusal")), out)

    def _keep_part(self, kind: str, text: str) -> None:
        if not text:
            return
        if not self._parts or self._parts[-1]["type"] != kind:
            self._parts.append({"type": kind, "texts": []})
        self._parts[-1]["texts"].append(text)

    def _call(self, call: dict[str, t.Any], out: list[ModelEvent]) -> None:
        function = call.get("function")
        if not isinstance(function, dict):
            function = call
        index = call.get("index")
        vendor_id = call.get("id")
        name = function.get("name")
        arguments = function.get("arguments")
        if self._splitter is not None:
            self._splitter.flush(out)
        opened = self._calls.delta(
            out,
            index if type(index) is int else None,
            str(vendor_id) if vendor_id or vendor_id == 0 else "",
            name if type(name) is str else "",
            arguments,
        )
        for key in _CALL_EXTRAS:
            if call.get(key):
                opened.extras[key] = call[key]

    def _note_usage(self, value: dict[str, t.Any], out: list[ModelEvent]) -> None:
        usage = value.get("usage")
        if not usage:
            groq = value.get("x_groq")
            usage = groq.get("usage") if type(groq) is dict else None
        if usage and type(usage) is dict and usage != self._stated:
            self._stated = usage
            if self._label is None and (stated := self._usage()) is not None:
                out.append(UsageStated(stated))
            self.moved = True

    def _usage(self) -> Usage | None:
        stated = self._stated
        if stated is None:
            return None
        prompt = stated.get("prompt_tokens_details") or stated.get("input_tokens_details") or {}
        completion = stated.get("completion_tokens_details") or stated.get("output_tokens_details") or {}
        given = count(stated, "prompt_tokens", "input_tokens")
        made = count(stated, "completion_tokens", "output_tokens")
        total = count(stated, "total_tokens")
        thought = _either(count(completion, "reasoning_tokens"), count(stated, "reasoning_tokens"))
        if thought and None not in (given, made, total) and total == (given or 0) + (made or 0) + thought:
            made = (made or 0) + thought  # xAI counts thinking beside the completion; the total tells
        return Usage(
            input=given,
            output=made,
            total=total,
            cache_read=_either(
                count(prompt, "cached_tokens"), count(stated, "prompt_cache_hit_tokens", "cached_tokens")
            ),
            cache_write=count(prompt, "cache_write_tokens", "cache_creation_tokens"),
            reasoning=thought,
        )

    def _replay(self) -> t.Any:
        """What goes back with this turn beside its text and calls; None when that is all."""
        replay: dict[str, t.Any] = {}
        if self._thinking:
            replay["thinking"] = {field: "".join(texts) for field, texts in self._thinking.items()}
        if self._details:
            replay["reasoning_details"] = self._details
        if self._signature:
            replay["reasoning_signature"] = self._signature
        if any(part["type"] == "thinking" for part in self._parts):
            replay["parts"] = [_part(part["type"], "".join(part["texts"])) for part in self._parts]
        extras = {call.id: call.extras for call in self._calls.calls if call.extras}
        if extras:
            replay["calls"] = extras
        return replay or None


def _part(kind: str, text: str) -> dict[str, t.Any]:
    if kind == "thinking":
        return {"type": "thinking", "thinking": [{"type": "text", "text": text}]}
    return {"type": "text", "text": text}


def _text_of(value: t.Any) -> str:
    """The text in a value that may be a string, a ``{text}``, or a list of either."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return _text_of(value.get("text") or value.get("content"))
    if isinstance(value, list):
        return "".join(map(_text_of, value))
    return ""


def _either(first: int | None, second: int | None) -> int | None:
    return second if first is None else first
