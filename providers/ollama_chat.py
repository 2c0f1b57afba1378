"""Ollama's own chat wire: JSON lines, from the server's ``/api/chat`` and ``/api/generate``.

Law of this room: the decoder is sans-IO, and a call makes a turn of calls whatever reason the last line gives.
What goes out is in ``ollama_chat_request``.
"""

from __future__ import annotations

import typing as t

from providers import errors, http
from providers.decoding import EventStreamDecoder, count
from providers.ndjson import NdjsonReader
from providers.ollama_chat_request import build_request
from providers.spec import FinishReason, ModelEvent, ModelRequest, TextDelta, Usage
from providers.surrogates import whole_text, whole_value

#: Reasons of the last line. Older servers give none; ``load`` and ``unload`` are no answers.
_DONE: dict[str, FinishReason | None] = {
    "": "stop",
    "stop": "stop",
    "length": "length",
    "load": None,
    "unload": None,
}


class OllamaDecoder(EventStreamDecoder):
    """Lines of one answer to model events."""

    def __init__(self, request: ModelRequest) -> None:
        super().__init__(request, NdjsonReader())
        self._thinking: list[str] = []
        self._last: dict[str, t.Any] | None = None

    def _value(self, value: dict[str, t.Any], out: list[ModelEvent]) -> None:
        # The common line first: a piece of text and nothing else.
        if self._plain and not value.get("done"):
            try:
                message = value["message"]
                text = message["content"]
                if text and type(text) is str and len(message) == 2 and "role" in message:
                    self.moved = self._answered = True
                    out.append(TextDelta(text))
                    return
            except (KeyError, TypeError):
                pass
        if value.get("error"):
            raise errors.in_band_error(value)
        model = value.get("model")
        if model and isinstance(model, str):
            self._model = model
        message = value.get("message")
        if isinstance(message, dict):
            self._message(message, message.get("content"), out)
        elif "response" in value:
            self._message(value, value["response"], out)
        elif not value.get("done") and errors.has_error(value):
            raise errors.in_band_error(value)
        if value.get("done"):
            self._done(value, out)

    def _message(self, message: dict[str, t.Any], text: t.Any, out: list[ModelEvent]) -> None:
        self.moved = True
        thinking = message.get("thinking")
        if thinking and isinstance(thinking, str):
            self._thinking.append(thinking)
            self._think(thinking, out)
        if text and isinstance(text, str):
            self._say(text, out)
        calls = message.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, dict):
                self._call(call, out)

    def _call(self, call: dict[str, t.Any], out: list[ModelEvent]) -> None:
        """A call, which comes whole; its id is beside the function or in it."""
        function = call.get("function")
        function = function if isinstance(function, dict) else call
        name = function.get("name")
        self._flush(out)
        opened = self._calls.begin(
            out, str(call.get("id") or function.get("id") or ""), name if isinstance(name, str) else ""
        )
        arguments = function.get("arguments")
        if isinstance(arguments, str):
            opened.fragments.append(arguments)
        else:
            opened.value = arguments if self._plain else whole_value(arguments)
        opened.closed = True

    def _done(self, value: dict[str, t.Any], out: list[ModelEvent]) -> None:
        self.moved = True
        self._last = value
        self._label = _DONE.get(str(value.get("done_reason") or ""), "other")
        self._finish(out, sentinel=True)

    def _usage(self) -> Usage | None:
        """A prompt that the server had wholly cached is not counted by older ones."""
        given, made = count(self._last, "prompt_eval_count"), count(self._last, "eval_count")
        if given is None and made is None:
            return None
        return Usage(input=given, output=made, total=None if given is None or made is None else given + made)

    def _replay(self) -> t.Any:
        """Thinking, which goes back with this turn; None where there was none."""
        return {"thinking": whole_text("".join(self._thinking))} if self._thinking else None


#: The wire; its switches are listed in ``ollama_chat_request``.
WIRE = http.HttpWire("ollama_chat", build_request, OllamaDecoder, json_stream=True)
