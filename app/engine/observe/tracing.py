"""The OpenTelemetry side of a process: ids, resource, sampler, and a sender that nobody waits for.

Law of this room: the SDK reads the standard ``OTEL_*`` variables; what is ours is where it does not fit a server of
greenlets. In every child process that is forked its batch processor and its provider start threads, and whoever waits
for a thread there lets the server's greenlets run on in the child; ours start nothing. Batches are small, since
encoding one holds the hub.
"""

from __future__ import annotations

import logging
import os
import random
import typing as t
from collections import deque

from gevent.event import Event
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.environment_variables import (
    OTEL_BSP_MAX_EXPORT_BATCH_SIZE,
    OTEL_BSP_MAX_QUEUE_SIZE,
    OTEL_BSP_SCHEDULE_DELAY,
)
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator

from app.engine.observe.content import Content
from app.engine.observe.spans import RunSpans
from app.engine.scope import spawn_service

if t.TYPE_CHECKING:
    from app.engine.run import Run

log = logging.getLogger("studio.observe")

#: Most spans that wait to be sent; more are dropped and counted. Most of one request: encoding one takes about 70 µs.
QUEUE, BATCH, DELAY_MS = 4096, 32, 2000


class RunIds(IdGenerator):
    """Gives the ids that were said beforehand: a run's trace and its first span follow from the run's id."""

    def __init__(self) -> None:
        self.trace = 0
        self.span = 0

    def generate_trace_id(self) -> int:
        """See ``IdGenerator``."""
        return self.trace

    def generate_span_id(self) -> int:
        """See ``IdGenerator``."""
        found, self.span = self.span, 0
        return found or random.getrandbits(64) or 1

    def is_trace_id_random(self) -> bool:
        """Of a run's id 80 bits are random, and come last."""
        return True


class Batches(SpanProcessor):
    """Sends spans that have ended, a batch at a time, from a greenlet of its own.

    A span that ends is put into a list, and that is all whoever ends it waits for. An exporter that fails or hangs
    holds up only this; what does not fit into the list meanwhile is dropped.

    :ivar dropped: spans that did not fit.
    """

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self._most = _number(OTEL_BSP_MAX_QUEUE_SIZE, QUEUE)
        self._batch = min(self._most, _number(OTEL_BSP_MAX_EXPORT_BATCH_SIZE, BATCH))
        self._delay = _number(OTEL_BSP_SCHEDULE_DELAY, DELAY_MS) / 1000
        self._waiting: deque[ReadableSpan] = deque()
        self._wake = Event()
        self._ended = False
        self.dropped = 0
        self._task = spawn_service(self._send)

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """See ``SpanProcessor``."""

    def on_end(self, span: ReadableSpan) -> None:
        """Take a span; never waits."""
        if self._ended or not span.context.trace_flags.sampled:
            return
        if len(self._waiting) >= self._most:
            if not self.dropped:
                log.warning("spans are dropped: they are not sent as fast as they come")
            self.dropped += 1
            return
        self._waiting.append(span)
        if len(self._waiting) >= self._batch:
            self._wake.set()

    def _send(self) -> None:
        while not self._ended:
            self._wake.wait(self._delay)
            self._wake.clear()
            self._export()
        self._export()
        self._exporter.shutdown()

    def _export(self) -> None:
        waiting = self._waiting
        while waiting:
            batch = [waiting.popleft() for _ in range(min(self._batch, len(waiting)))]
            try:
                self._exporter.export(
                    batch
                )  # waits for the network, and so lets others run between two batches
            except Exception:
                log.exception("%d spans could not be sent", len(batch))

    def shutdown(self) -> None:
        """Send what is left."""
        self.close(30.0)

    def close(self, seconds: float) -> None:
        """Send what is left, for ``seconds`` at most."""
        if self._ended:
            return
        self._ended = True
        self._wake.set()
        self._task.join(seconds)
        if self._waiting or self.dropped:
            log.warning("%d spans were not sent", len(self._waiting) + self.dropped)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Nothing of ours asks for it."""
        self._wake.set()
        return True


def _number(variable: str, default: int) -> int:
    text = os.environ.get(variable, "").strip()
    return int(text) if text.isdecimal() and int(text) > 0 else default


def check() -> None:
    """See that the SDK takes its variables.

    :raises ValueError: it does not; the message names one.
    """
    SpanLimits()
    OTLPSpanExporter().shutdown()


def otlp() -> SpanProcessor:
    """Sends by OTLP over HTTP, as ``OTEL_EXPORTER_OTLP_*`` say."""
    wanted = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or os.environ.get(
        "OTEL_EXPORTER_OTLP_PROTOCOL"
    )
    if wanted not in (None, "", "http/protobuf"):
        log.warning("spans are sent by http/protobuf; OTEL_EXPORTER_OTLP_PROTOCOL=%s is not offered", wanted)
    return Batches(OTLPSpanExporter())


def _resource(version: str) -> Resource:
    """What the spans are of; ``OTEL_SERVICE_NAME`` and ``OTEL_RESOURCE_ATTRIBUTES`` go before what we say."""
    given = OTELResourceDetector().detect().attributes
    ours = {"service.name": "studio", "service.version": version}
    return Resource.create({name: value for name, value in ours.items() if name not in given})


class _Provider(TracerProvider):
    """Does nothing in a child process: ours make no spans."""

    def _handle_fork(self) -> None:
        """See ``TracerProvider``, which would look anew for what its process is, in threads."""


class Tracing:
    """What makes the spans of this process.

    :param processor: takes the spans that have ended.
    :param content: writes down what was said; None: nothing of it. :param version: of this program.
    """

    def __init__(self, processor: SpanProcessor, content: Content | None = None, version: str = "") -> None:
        self.content = content
        self._processor = processor
        self._ids = RunIds()
        self._provider = _Provider(
            resource=_resource(version), id_generator=self._ids, shutdown_on_exit=False
        )
        self._provider.add_span_processor(processor)
        self.tracer = self._provider.get_tracer("studio", version)

    @property
    def dropped(self) -> int:
        """Spans that could not be sent as fast as they came."""
        return self._processor.dropped if isinstance(self._processor, Batches) else 0

    def run(self, run: Run) -> RunSpans | None:
        """Begin the spans of a run; None: the sampler does not want them."""
        spans = RunSpans(self, run)
        return spans if spans.recording else None

    def first_span(
        self,
        trace_id: str,
        span_id: int,
        name: str,
        start: int,
        attributes: t.Any,
        links: t.Sequence[trace.Link],
    ) -> trace.Span:
        """A span without a parent, with ids that were said beforehand."""
        self._ids.trace, self._ids.span = int(trace_id, 16), span_id
        try:
            return self.tracer.start_span(
                name, Context(), attributes=attributes, links=links, start_time=start
            )
        finally:
            self._ids.span = 0

    def close(self, seconds: float) -> None:
        """Send what was not sent yet, for ``seconds`` at most."""
        if isinstance(self._processor, Batches):
            self._processor.close(seconds)
        else:
            self._processor.shutdown()
