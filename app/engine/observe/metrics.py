"""Metrics of a process for Prometheus, counted at the boundaries of runs, blocks, calls and decisions.

Law of this room: nothing is counted per token. Labels have few values: no id of a run, thread, key or block, no name
that a model or a caller made up, and of models only the first :data:`MODELS`. With several workers each writes a file
of its own, and whichever is asked adds them up.
"""

from __future__ import annotations

import logging
import os
import typing as t
from collections.abc import Callable, Iterable, Mapping

from gevent.threadpool import ThreadPool
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector

from app import events as ev
from app.engine import settle
from app.engine.observe.folder import VARIABLE
from plugins.spec.observer import CallEnd

if t.TYPE_CHECKING:
    from app.engine.run import Run
    from plugins.spec.families import ResolvedEmbedding, ResolvedModel
    from providers.spec import ModelRequest

log = logging.getLogger("studio.observe")

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
#: Models that have a label of their own in one process; all others are ``other``.
MODELS = 100
#: Seconds between two looks at what is counted by looking, such as open streams.
SAMPLE_S = 1.0

_LONG = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800)
_SHORT = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
_HUMAN = (1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 24 * 3600, 7 * 24 * 3600)
_LAG = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)
_LOOKED = {
    "runs_live": "Runs that are going on.",
    "streams_open": "Streams that are open.",
    "spans_dropped": "Spans that could not be sent.",
}


class Metrics:
    """The metrics of this process.

    :ivar looks: what is counted by looking, by name: ``runs_live``, ``streams_open``.
    :ivar asked: what is asked for when somebody reads the metrics, by name; may wait.
    """

    def __init__(self) -> None:
        made = self._registry = CollectorRegistry()
        self.looks: dict[str, Callable[[], float]] = {}
        self.asked: dict[str, tuple[str, Callable[[], float]]] = {}
        self._models: set[str] = set()
        self._last: float | None = None
        self._thread: ThreadPool | None = None

        def counter(name: str, doc: str, *labels: str) -> Counter:
            return Counter(f"studio_{name}", doc, labels, registry=made)

        def seconds(name: str, doc: str, buckets: Iterable[float], *labels: str) -> Histogram:
            return Histogram(f"studio_{name}_seconds", doc, labels, buckets=tuple(buckets), registry=made)

        self.started = counter("runs_started", "Runs that began.", "surface")
        self.ended = counter("runs_ended", "Runs that ended.", "surface", "status", "cause")
        self.paused = counter("runs_paused", "Times that a run paused for people.", "surface")
        self.resumed = counter("runs_resumed", "Times that a run went on.", "surface")
        self.run_s = seconds("run_duration", "From a run's begin to its end.", _LONG, "status")
        self.active_s = seconds("run_active", "The same without queues and people.", _LONG, "status")
        self.queue_s = seconds("run_queue", "How long a run stood in line for model calls.", _LONG)
        self.human_s = seconds("human_wait", "From the pause of a run to the answer.", _HUMAN)
        self.blocks = counter("blocks_ended", "Blocks that ended.", "type", "status")
        self.calls = counter("model_calls", "Attempts at model calls.", "family", "model", "outcome")
        self.call_s = seconds("model_call", "How long a model call took.", _LONG, "family")
        self.first_s = seconds("model_first_token", "From a call to its first words.", _SHORT, "family")
        self.tokens = counter("model_tokens", "Tokens used.", "family", "model", "kind")
        self.cost = counter("model_cost_dollars", "What that cost, where it is known.", "family", "model")
        self.tools = counter("tool_calls", "Tool calls that were settled.", "status")
        self.tool_s = seconds("tool_call", "How long a tool call took.", _SHORT)
        self.requested = counter("decisions_requested", "Questions that were put to people.", "kind")
        self.settled = counter("decisions_settled", "Questions that were answered, or expired.", "decision")
        self.detached = counter("subscribers_detached", "Readers that failed and were taken off their run.")
        self.lag_s = seconds("loop_lag", "How late the event loop came to its next turn.", _LAG)
        self._looked = {
            name: Gauge(f"studio_{name}", doc, registry=made, multiprocess_mode="livesum")
            for name, doc in _LOOKED.items()
        }

    def run(self, run: Run) -> RunMetrics:
        """Count what a run does."""
        return RunMetrics(self, run)

    def model(self, name: str) -> tuple[str, str]:
        """The labels of ``<family>/<model>``."""
        family, _, model = name.partition("/")
        if name not in self._models:
            if len(self._models) >= MODELS:
                return family, "other"
            self._models.add(name)
        return family, model

    def sample(self, now: float) -> None:
        """Look at what is counted by looking; called every :data:`SAMPLE_S`. ``now``: seconds that never go back."""
        if self._last is not None:
            self.lag_s.observe(max(0.0, now - self._last - SAMPLE_S))
        self._last = now
        for name, look in self.looks.items():
            self._looked[name].set(look())

    def text(self) -> bytes:
        """All of it as Prometheus reads it, of all workers. May wait."""
        if not os.environ.get(VARIABLE):
            counted = generate_latest(self._registry)
        else:  # tens of milliseconds for many workers and models, in which streams would stand still
            self._thread = self._thread or ThreadPool(1)
            counted = self._thread.apply(_of_all_workers)
        return counted + generate_latest(_Asked(self.asked))


def _of_all_workers() -> bytes:
    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]  # it has no types
    return generate_latest(registry)


class _Asked(CollectorRegistry):
    """What is asked for when somebody reads the metrics."""

    def __init__(self, asked: Mapping[str, tuple[str, Callable[[], float]]]) -> None:
        super().__init__()
        self._asked = asked

    def collect(self) -> t.Iterator[Metric]:
        for name, (doc, ask) in self._asked.items():
            try:
                found = ask()
            except Exception:  # the others are there all the same
                log.exception("studio_%s could not be asked for", name)
            else:
                yield GaugeMetricFamily(f"studio_{name}", doc, found)


class RunMetrics:
    """What one run adds."""

    __slots__ = ("_metrics", "_run", "_surface")

    def __init__(self, metrics: Metrics, run: Run) -> None:
        self._metrics = metrics
        self._run = run
        self._surface = str((run.request.origin or {}).get("surface", "other"))

    def deliver(self, envelope: ev.Envelope) -> None:
        """Take an event."""
        count = _COUNTS.get(type(envelope.event))
        if count is not None:
            count(self, envelope.event)

    def model_call(
        self, block: str, model: ResolvedModel | ResolvedEmbedding, request: ModelRequest | None
    ) -> CallCount:
        """See :class:`plugins.spec.observer.CallObserver`."""
        now_ms = self._run.services.clock.now_ms
        return CallCount(self._metrics, f"{model.family.id}/{model.model}", now_ms)

    def close(self) -> None:
        """The run leaves this process."""
        if self._run.emitter.detached:
            self._metrics.detached.inc(self._run.emitter.detached)

    # -- one method per event ----------------------------------------------------------------

    def _started(self, event: ev.RunStarted) -> None:
        self._metrics.started.labels(self._surface).inc()

    def _terminal(self, event: ev.Terminal) -> None:
        metrics, usage = self._metrics, settle.usage_of(event)
        status = settle.status_of(event)
        metrics.ended.labels(self._surface, status, settle.cause_of(event) or "").inc()
        metrics.run_s.labels(status).observe(usage.get("durationMs", 0) / 1000)
        metrics.active_s.labels(status).observe(usage.get("activeMs", 0) / 1000)
        metrics.queue_s.observe(usage.get("queuedMs", 0) / 1000)

    def _paused(self, event: ev.RunPaused) -> None:
        self._metrics.paused.labels(self._surface).inc()

    def _resumed(self, event: ev.RunResumed) -> None:
        self._metrics.resumed.labels(self._surface).inc()
        if event.human_wait_ms is not None:
            self._metrics.human_s.observe(event.human_wait_ms / 1000)

    def _block(self, event: ev.BlockFinished) -> None:
        self._metrics.blocks.labels(self._run.state.blocks[event.block].type, event.status).inc()

    def _tool(self, event: ev.ToolFinished) -> None:
        self._metrics.tools.labels(event.status).inc()
        self._metrics.tool_s.observe(max(0, event.at - event.started_at) / 1000)

    def _usage(self, event: ev.UsageReported) -> None:
        labels = self._metrics.model(event.model)
        for kind, count in event.tokens.items():
            if kind != "total":
                self._metrics.tokens.labels(*labels, kind).inc(count)
        if event.cost:
            self._metrics.cost.labels(*labels).inc(event.cost)

    def _requested(self, event: ev.DecisionRequested) -> None:
        kind = event.review.get("kind")
        self._metrics.requested.labels(kind if kind in ("answer", "tool") else "other").inc()

    def _settled(self, event: ev.DecisionSettled) -> None:
        self._metrics.settled.labels(event.decision).inc()


class CallCount:
    """One attempt at a model call."""

    __slots__ = ("_began", "_metrics", "_model", "_now_ms")

    def __init__(self, metrics: Metrics, model: str, now_ms: Callable[[], int]) -> None:
        self._metrics = metrics
        self._model = model
        self._now_ms = now_ms
        self._began = now_ms()

    def ended(self, end: CallEnd) -> None:
        """See :class:`plugins.spec.observer.SeenCall`."""
        metrics = self._metrics
        family, model = metrics.model(self._model)
        outcome = "ok" if end.finished is not None else "cancelled"
        if end.error is not None:
            outcome = end.error.code
        metrics.calls.labels(family, model, outcome).inc()
        metrics.call_s.labels(family).observe(max(0, self._now_ms() - self._began) / 1000)
        if end.first_at is not None:
            metrics.first_s.labels(family).observe(max(0, end.first_at - self._began) / 1000)


_COUNTS: Mapping[type, Callable[[RunMetrics, t.Any], None]] = {
    ev.RunStarted: RunMetrics._started,
    ev.RunPaused: RunMetrics._paused,
    ev.RunResumed: RunMetrics._resumed,
    ev.BlockFinished: RunMetrics._block,
    ev.ToolFinished: RunMetrics._tool,
    ev.UsageReported: RunMetrics._usage,
    ev.DecisionRequested: RunMetrics._requested,
    ev.DecisionSettled: RunMetrics._settled,
    ev.RunCompleted: RunMetrics._terminal,
    ev.RunFailed: RunMetrics._terminal,
    ev.RunCancelled: RunMetrics._terminal,
    ev.RunTimedOut: RunMetrics._terminal,
}
