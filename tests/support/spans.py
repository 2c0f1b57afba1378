"""What a run's spans are, as a tree, from the SDK's exporter that keeps them in memory."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Sequence

from opentelemetry.sdk.trace import ReadableSpan, Span
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from app.engine.observe.content import Content
from app.engine.observe.observer import Observing
from app.engine.observe.tracing import Tracing
from app.engine.services import Services


class _Begun(SimpleSpanProcessor):
    """Also notes the names of those that have begun."""

    def __init__(self, exporter: InMemorySpanExporter) -> None:
        super().__init__(exporter)
        self.begun: list[str] = []

    def on_start(self, span: Span, parent_context: t.Any = None) -> None:
        self.begun.append(span.name)


class Traces:
    """The spans that ended in a test.

    :param content: whether they hold what was said; then without ``secrets``.
    """

    def __init__(self, made: Services, *, content: bool = False, secrets: Iterable[str] = ()) -> None:
        self.exporter = InMemorySpanExporter()
        written = Content(lambda: tuple(secrets)) if content else None
        self._processor = _Begun(self.exporter)
        made.observing = Observing(Tracing(self._processor, written, "1.0"))

    @property
    def begun(self) -> Sequence[str]:
        """Names of all that have begun, in order."""
        return self._processor.begun

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        """All of them, in order of their end."""
        return self.exporter.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        """Those of a name, in order of their end."""
        return [span for span in self.spans if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        """The only one of a name."""
        (found,) = self.named(name)
        return found

    def tree(self) -> list[str]:
        """Names in order of begin, each two spaces further in than its parent."""
        children: dict[int | None, list[ReadableSpan]] = {}
        for span in self.spans:
            children.setdefault(None if span.parent is None else span.parent.span_id, []).append(span)
        lines: list[str] = []

        def walk(parent: int | None, depth: int) -> None:
            for span in sorted(children.get(parent, ()), key=lambda s: s.start_time or 0):
                lines.append("  " * depth + span.name)
                walk(context(span).span_id, depth + 1)

        walk(None, 0)
        assert len(lines) == len(self.spans), "a span whose parent has not ended, or never was"
        return lines

    def everything(self) -> str:
        """All that would be sent."""
        return "\n".join(span.to_json() for span in self.spans)


def context(span: ReadableSpan) -> t.Any:
    """A span's ids."""
    assert span.context is not None
    return span.context


def said(span: ReadableSpan) -> dict[str, t.Any]:
    """A span's attributes."""
    return dict(span.attributes or {})


def events(span: ReadableSpan) -> list[tuple[str, dict[str, t.Any]]]:
    """A span's events."""
    return [(event.name, dict(event.attributes or {})) for event in span.events]
