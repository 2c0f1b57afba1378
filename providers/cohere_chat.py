"""Cohere's own chat wire: version 2 of its chat API.

Law of this room: the decoder is sans-IO, and the plan that a model makes before its calls is thinking. What goes
out is in ``cohere_chat_request``, with the switches a family may set.
"""

from __future__ import annotations

import typing as t

from providers import errors, http
from providers.cohere_chat_request import build_request
from providers.decoding import EventStreamDecoder, count, place
from providers.spec import (
    FinishReason,
    ModelEvent,
    ModelRequest,
    ProviderErrorCode,
    TextDelta,
    Usage,
)
from providers.surrogates import whole_text
from providers.tool_calls import OpenCall

_FINISH: dict[str, FinishReason] = {
    "COMPLETE": "stop",
    "STOP_SEQUENCE": "stop",
    "MAX_TOKENS": "length",
    "TOOL_CALL": "tool_calls",
    "ERROR_TOXIC": "content_filter",
}
#: Labels by which the vendor says that it failed, when it does not say how.
_FAILED: dict[str, ProviderErrorCode] = {
    "ERROR": "provider_unavailable",
    "TIMEOUT": "provider_unavailable",
    "ERROR_LIMIT": "context_length_exceeded",
}


class CohereDecoder(EventStreamDecoder):
    """Events of one chat answer to model events."""

    def __init__(self, request: ModelRequest) -> None:
        super().__init__(request)
        #: Runs of content as ``[type, pieces]``, in order.
        self._parts: list[tuple[str, list[str]]] = []
        self._plan: list[str] = []
        self._open: dict[t.Any, OpenCall] = {}
        self._stated: dict[str, t.Any] | None = None

    def _value(self, value: dict[str, t.Any], out: list[ModelEvent]) -> None:
        kind = value.get("type")
        # The common event first: a piece of text of the part that is open.
        if kind == "content-delta" and self._plain:
            try:
                content = value["delta"]["message"]["content"]
                if len(content) == 1 and (text := content["text"]) and type(text) is str:
                    run, pieces = self._parts[-1]
                    if run == "text":
                        pieces.append(text)
                        self.moved = self._answered = True
                        out.append(TextDelta(text))
                        return
            except (KeyError, TypeError, IndexError):
                pass
        handler = _EVENTS.get(kind if isinstance(kind, str) else "")
        if handler is not None:
            self.moved = True
            handler(self, value, out)
        elif errors.has_error(value):
            raise errors.in_band_error(value)

    def _content(self, value: dict[str, t.Any], out: list[ModelEvent]) -> None:
        content = _message(value).get("content")
        for part in content if isinstance(content, list) else [content]:
            if isinstance(part, str):
                part = {"text": part}
            if not isinstance(part, dict):
                continue
            if (thinking := part.get("thinking")) and isinstance(thinking, str):
                self._run("thinking").append(thinking)
                self._think(thinking, out)
            if (text := part.get("text")) and isinstance(text, str):
                self._run("text").append(text)
                self._say(text, out)

    def _run(self, kind: str) -> list[str]:
        if not self._parts or self._parts[-1][0] != kind:
            self._parts.append((kind, []))
        return self._parts[-1][1]

    def _tool_plan(self, value: dict[str, t.Any], out: list[ModelEvent]) -> None:
        plan = _message(value).get("tool_plan")
        if plan and isinstance(plan, str):
            self._plan.append(plan)
            self._think(plan, out)

    def _call_start(self, value: dict[str, t.Any], out: list[ModelEvent]) -> None:
        self._flush(out)
        for call in _calls(value):
            function = _dict(call.get("function"))
            name = function.get("name")
            opened = self._calls.begin(out, str(call.get("id") or ""), name if isinstance(name, str) else "")
            self._open[place(value.get("index"))] = opened
            _add(opened, function.get("arguments"))

    def _call_delta(self, value: dict[str, t.Any], out: list[ModelEvent]) -> None:
        opened = self._open.get(place(value.get("index"))) or (
            self._calls.calls[-1] if self._calls.calls else None
        )
        for call in _calls(value):
            if opened is not None:
                _add(opened, _dict(call.get("function")).get("arguments"))

    def _call_end(self, value: dict[str, t.Any], out: list[ModelEvent]) -> None:
        opened = self._open.get(place(value.get("index")))
        if opened is not None:
            opened.closed = True

    def _citation(self, value: dict[str, t.Any], out: list[ModelEvent]) -> None:
        """Sources that have an address; a document of the request without one is no source to go to."""
        citations = _message(value).get("citations")
        for citation in citations if isinstance(citations, list) else [citations]:
            sources = _dict(citation).get("sources")
            for source in sources if isinstance(sources, list) else ():
                found = _dict(_dict(source).get("document") or _dict(source).get("tool_output"))
                self._cite_source(found.get("url"), found.get("title"), out)

    def _message_end(self, value: dict[str, t.Any], out: list[ModelEvent]) -> None:
        delta = _dict(value.get("delta"))
        if (usage := delta.get("usage")) and isinstance(usage, dict):
            self._stated = usage
        label = str(delta.get("finish_reason") or "").upper()
        if error := delta.get("error"):
            raise errors.in_band_error(error)
        if label in _FAILED:
            raise errors.failure(_FAILED[label], detail=f"finish_reason {label}")
        if label:
            self._label = _FINISH.get(label, "other")
            self.finished = True

    def _nothing(self, value: dict[str, t.Any], out: list[ModelEvent]) -> None:
        """Progress that says nothing."""

    def _usage(self) -> Usage | None:
        """What the model read and wrote; ``billed_units`` leaves out what the vendor adds to the prompt."""
        if self._stated is None:
            return None
        tokens = self._stated.get("tokens")
        given, made = count(tokens, "input_tokens"), count(tokens, "output_tokens")
        if given is None and made is None:
            return None
        return Usage(
            input=given,
            output=made,
            total=None if given is None or made is None else given + made,
            cache_read=count(self._stated, "cached_tokens"),
            reasoning=count(tokens, "reasoning_tokens"),
        )

    def _replay(self) -> t.Any:
        """Plan and thinking, which go back with this turn; None where it had neither."""
        replay: dict[str, t.Any] = {}
        if self._plan:
            replay["tool_plan"] = whole_text("".join(self._plan))
        if any(kind == "thinking" for kind, _ in self._parts):
            replay["content"] = [
                {"type": kind, kind: whole_text("".join(pieces))} for kind, pieces in self._parts
            ]
        return replay or None


_Handler = t.Callable[[CohereDecoder, dict[str, t.Any], list[ModelEvent]], None]

_EVENTS: dict[str, _Handler] = {
    "message-start": CohereDecoder._nothing,
    "content-start": CohereDecoder._content,
    "content-delta": CohereDecoder._content,
    "content-end": CohereDecoder._nothing,
    "tool-plan-delta": CohereDecoder._tool_plan,
    "tool-call-start": CohereDecoder._call_start,
    "tool-call-delta": CohereDecoder._call_delta,
    "tool-call-end": CohereDecoder._call_end,
    "citation-start": CohereDecoder._citation,
    "citation-end": CohereDecoder._nothing,
    "message-end": CohereDecoder._message_end,
}

#: The wire; its switches are listed in ``cohere_chat_request``.
WIRE = http.HttpWire("cohere_chat", build_request, CohereDecoder)


def _dict(value: t.Any) -> dict[str, t.Any]:
    return value if isinstance(value, dict) else {}


def _message(value: dict[str, t.Any]) -> dict[str, t.Any]:
    return _dict(_dict(value.get("delta")).get("message"))


def _calls(value: dict[str, t.Any]) -> list[dict[str, t.Any]]:
    """The call of an event, which the vendor gives as an object and its reference as a list."""
    calls = _message(value).get("tool_calls")
    return [call for call in (calls if isinstance(calls, list) else [calls]) if isinstance(call, dict)]


def _add(call: OpenCall, arguments: t.Any) -> None:
    if isinstance(arguments, str):
        if arguments:
            call.fragments.append(arguments)
    elif arguments is not None:
        call.value = arguments
