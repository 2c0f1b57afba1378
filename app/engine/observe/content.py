"""What was said, as spans hold it where the operator wants it.

Law of this room: every text is masked and bounded; messages have the shape of the GenAI conventions' schemas, as JSON.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterable, Mapping, Sequence

from app import encoding
from app.redaction.secrets import mask
from plugins.spec.observer import CallEnd
from providers.spec import AssistantMessage, Message, ModelRequest, ToolResult

#: Most characters of one text, and most messages of one prompt: the first ones that fit, and the newest.
MOST, MESSAGES = 8_000, 40


class Filter(t.Protocol):
    """What masks a run; see :class:`app.engine.redaction.Redaction`."""

    def other(self, value: t.Any) -> t.Any:
        """A value as it may be told."""

    def begun(self, text: str) -> str:
        """A text that was cut off, as it may be told."""


class Content:
    """Writes texts down.

    :param secrets: the values that must not be in them. :param within: what masks the run; None: nothing does.
    """

    def __init__(self, secrets: Callable[[], Iterable[str]], within: Filter | None = None) -> None:
        self._secrets = secrets
        self._within = within

    def within(self, redaction: Filter) -> Content:
        """The same for a run in which something is masked."""
        return Content(self._secrets, redaction)

    def text(self, text: str) -> str:
        """A text without secrets, cut where it is long."""
        return self._bounded(text if self._within is None else self._within.other(text))

    def _bounded(self, text: str) -> str:
        masked = mask(text, self._secrets())
        return masked if len(masked) <= MOST else f"{masked[:MOST]}… ({len(masked)} characters)"

    def value(self, value: t.Any) -> str:
        """Any value, as JSON."""
        plain = value if self._within is None else self._within.other(value)
        return self.text(encoding.dumps(plain).decode())

    def system(self, request: ModelRequest) -> str:
        """The system prompt."""
        return self._json([_text(self.text(request.system or ""))])

    def prompt(self, request: ModelRequest) -> str:
        """The messages of a request; of a long conversation its end."""
        return self._json([self._message(message) for message in request.messages[-MESSAGES:]])

    def answer(self, end: CallEnd) -> str:
        """What a call came to."""
        said = "".join(end.text)
        if end.finished is None and self._within is not None:  # stopped, perhaps in the middle of a value
            said = self._bounded(self._within.begun(said))
        else:
            said = self.text(said)
        parts = [_text(said)] if said else []
        parts += [self._call(call.id, call.name, call.arguments or call.raw) for call in end.calls]
        reason = "error" if end.finished is None else end.finished.reason
        return self._json([{"role": "assistant", "parts": parts, "finish_reason": reason}])

    def documents(self, results: Sequence[Mapping[str, t.Any]]) -> str:
        """What a search found, without its text."""
        return self._json([{"id": found.get("documentId"), "score": found.get("score")} for found in results])

    def _message(self, message: Message) -> dict[str, t.Any]:
        if isinstance(message, ToolResult):
            result = {
                "type": "tool_call_response",
                "id": message.call_id,
                "response": self.text(message.content),
            }
            return {"role": "tool", "parts": [result]}
        if isinstance(message, AssistantMessage):
            said = [_text(self.text(message.text))] if message.text else []
            calls = [self._call(call.id, call.name, call.arguments or call.raw) for call in message.calls]
            return {"role": "assistant", "parts": [*said, *calls]}
        files = [
            {"type": "file", "modality": file.kind, "name": self.text(file.name)} for file in message.files
        ]
        return {"role": "user", "parts": [*files, _text(self.text(message.text))]}

    def _call(self, id: str, name: str, arguments: t.Any) -> dict[str, t.Any]:
        return {"type": "tool_call", "id": id, "name": self.text(name), "arguments": self.value(arguments)}

    def _json(self, value: t.Any) -> str:
        return encoding.dumps(value).decode()


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "content": text}
