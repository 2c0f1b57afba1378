"""The span of a model call: one for all attempts at one model, as the GenAI conventions want it.

Law of this room: a failed attempt leaves the span open, since it may be repeated; whoever knows that it is not ends it
(:meth:`CallSpan.give_up`).
"""

from __future__ import annotations

import functools
import typing as t
from urllib.parse import urlsplit

from opentelemetry.trace import Span, SpanKind

from app.engine.observe import names
from plugins.spec.families import ResolvedEmbedding, ResolvedModel
from plugins.spec.observer import CallEnd
from providers.spec import ModelRequest

if t.TYPE_CHECKING:
    from app.engine.observe.spans import Opened, RunSpans

_MS = 1_000_000


def begin(
    spans: RunSpans,
    parent: Opened,
    block: str,
    model: ResolvedModel | ResolvedEmbedding,
    request: ModelRequest | None,
    ts: int,
) -> CallSpan:
    """The span of a call that begins."""
    operation, name = "embeddings" if request is None else "chat", f"{model.family.id}/{model.model}"
    attributes: dict[str, t.Any] = {
        names.OPERATION: operation,
        names.PROVIDER: names.provider_name(model.family.id),
        names.REQUEST_MODEL: model.model,
        "studio.model": name,
        "studio.block.id": block,
        **_server(model.connection.base_url),
    }
    if request is not None:
        attributes.update(_asked(request))
        if spans.content is not None:
            if request.system:
                attributes[names.SYSTEM] = spans.content.system(request)
            attributes[names.INPUT] = spans.content.prompt(request)
    made = spans.start(parent, f"{operation} {model.model}", ts, attributes, SpanKind.CLIENT)
    return CallSpan(spans, made, name, ts, request is not None)


class CallSpan:
    """See the module.

    :ivar model: ``<family>/<model>``. :ivar failed: the last attempt failed, and may be repeated.
    """

    __slots__ = ("_attempts", "_began", "_chat", "_ended_at", "_span", "_spans", "_tokens", "failed", "model")

    def __init__(self, spans: RunSpans, span: Span, model: str, ts: int, chat: bool) -> None:
        self._chat = chat
        self._spans = spans
        self._span = span
        self._began = ts
        self._ended_at = ts
        self._attempts = 1
        self._tokens: dict[str, int] = {}
        self.model = model
        self.failed = ""

    def again(self, ts: int) -> CallSpan:
        """A further attempt begins."""
        self.failed = ""
        self._attempts += 1
        self._began = ts
        return self

    def ended(self, end: CallEnd) -> None:
        """See :class:`plugins.spec.observer.SeenCall`."""
        ts, span = self._spans.now_ms(), self._span
        self._ended_at = ts
        for name, count in (end.tokens or {}).items():
            self._tokens[name] = self._tokens.get(name, 0) + count
        if end.error is not None:
            self.failed = end.error.code
            attributes: dict[str, t.Any] = {names.ERROR: self.failed, "studio.attempt": self._attempts}
            if end.error.status is not None:
                attributes["http.response.status_code"] = end.error.status
            span.add_event("attempt_failed", attributes, ts * _MS)
            return
        if end.first_at is not None:
            span.set_attribute(names.FIRST_CHUNK, max(0, end.first_at - self._began) / 1000)
        if end.finished is not None and end.finished.model:
            span.set_attribute(names.RESPONSE_MODEL, end.finished.model)
        if self._spans.content is not None and (end.text or end.calls):
            span.set_attribute(names.OUTPUT, self._spans.content.answer(end))
        self._end("error" if end.finished is None else end.finished.reason)

    def give_up(self) -> None:
        """It will not be repeated. Nothing happens to a call that has ended."""
        if not self._span.is_recording():
            return
        if self.failed:
            self._spans.failed(self._span, self.failed, None)
        self._end("error")

    def _end(self, reason: str) -> None:
        span = self._span
        for name, attribute in names.USAGE.items():
            if name in self._tokens:
                span.set_attribute(attribute, self._tokens[name])
        if self._chat:
            span.set_attribute(names.FINISH_REASONS, [reason])
        if self._attempts > 1:
            span.set_attribute("studio.attempts", self._attempts)
        span.end(self._ended_at * _MS)


def _asked(request: ModelRequest) -> dict[str, t.Any]:
    """The parameters of a request, as far as they were given."""
    given: dict[str, t.Any] = {
        "gen_ai.request.temperature": request.temperature,
        "gen_ai.request.top_p": request.top_p,
        "gen_ai.request.max_tokens": request.max_tokens,
        "gen_ai.request.seed": request.seed,
        "gen_ai.request.stop_sequences": list(request.stop) or None,
        "gen_ai.request.reasoning.level": None if request.thinking is None else str(request.thinking),
        "gen_ai.output.type": None if request.response_format is None else "json",
    }
    return {
        "gen_ai.request.stream": True,
        **{name: value for name, value in given.items() if value is not None},
    }


@functools.lru_cache(maxsize=256)
def _server(address: str) -> dict[str, t.Any]:
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:
        return {}
    if not host:
        return {}
    return {"server.address": host, "server.port": port or (443 if parts.scheme == "https" else 80)}
