"""Who looks at the runs of a process, and at one run.

Law of this room: with spans and metrics off nothing is attached and nothing imported. What looks at a run is guarded
here: whatever it raises is logged, and neither the run nor the other one that looks notices.
"""

from __future__ import annotations

import logging
import os
import typing as t
from collections.abc import Callable, Iterable, Sequence

import gevent

from app.engine.scope import Task, spawn_service
from app.errors import StudioError
from app.events import Envelope, TextDelta, ThinkingDelta
from app.redaction.secrets import known_secrets
from plugins.spec.families import ResolvedEmbedding, ResolvedModel
from plugins.spec.observer import CallEnd, SeenCall
from providers.spec import ModelRequest

if t.TYPE_CHECKING:
    from app.config import Settings
    from app.engine.observe.metrics import Metrics
    from app.engine.observe.tracing import Tracing
    from app.engine.run import Run
    from app.engine.services import Services

log = logging.getLogger("studio.observe")

#: Events that come once a token; nobody here wants them.
_PER_TOKEN = frozenset({TextDelta, ThinkingDelta})


class Part(t.Protocol):
    """One that looks at a run."""

    def deliver(self, envelope: Envelope) -> None:
        """Take an event."""

    def model_call(
        self, block: str, model: ResolvedModel | ResolvedEmbedding, request: ModelRequest | None
    ) -> SeenCall:
        """See :class:`plugins.spec.observer.CallObserver`."""

    def close(self) -> None:
        """The run leaves this process: it has ended, pauses, or goes on elsewhere."""


class RunObserver:
    """All that look at one run: a subscriber of its emitter, and the observer of its model calls."""

    __slots__ = ("_parts",)

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = tuple(parts)

    def deliver(self, envelope: Envelope) -> None:
        """Hand an event on, unless it is one of a token."""
        if type(envelope.event) in _PER_TOKEN:
            return
        for part in self._parts:
            try:
                part.deliver(envelope)
            except Exception:
                self._lose(part)

    def flush(self) -> None:
        """There is nothing to send."""

    def model_call(
        self, block: str, model: ResolvedModel | ResolvedEmbedding, request: ModelRequest | None
    ) -> SeenCall:
        """See :class:`plugins.spec.observer.CallObserver`."""
        seen = []
        for part in self._parts:
            try:
                seen.append((part, part.model_call(block, model, request)))
            except Exception:
                self._lose(part)
        return _Seen(seen, self._lose)

    def close(self) -> None:
        """The run leaves this process."""
        for part in self._parts:
            try:
                part.close()
            except Exception:
                log.exception("what looked at a run could not be closed")
        self._parts = ()

    def _lose(self, part: Part) -> None:
        log.exception("what looked at a run failed and was taken off it")
        self._parts = tuple(other for other in self._parts if other is not part)


class _Seen:
    __slots__ = ("_lose", "_seen")

    def __init__(self, seen: Iterable[tuple[Part, SeenCall]], lose: Callable[[Part], None]) -> None:
        self._seen = tuple(seen)
        self._lose = lose

    def ended(self, end: CallEnd) -> None:
        for part, call in self._seen:
            try:
                call.ended(end)
            except Exception:
                self._lose(part)


class Observing:
    """What this process has switched on.

    :ivar tracing: None: off. :ivar metrics: None: off.
    """

    def __init__(self, tracing: Tracing | None = None, metrics: Metrics | None = None) -> None:
        self.tracing = tracing
        self.metrics = metrics

    @classmethod
    def of(cls, settings: Settings, opened: Callable[[], Iterable[str]], version: str) -> Observing:
        """As the settings say.

        :param opened: the stored secrets that this process has used. :param version: of this program.
        """
        tracing = metrics = None
        if settings.traces == "otlp":
            from app.engine.observe.content import Content
            from app.engine.observe.tracing import Tracing, otlp

            environment = known_secrets(os.environ)
            content = Content(lambda: (*environment, *opened())) if settings.trace_content else None
            tracing = Tracing(otlp(), content, version)
        if settings.metrics:
            from app.engine.observe.metrics import Metrics

            metrics = Metrics()
        return cls(tracing, metrics)

    @staticmethod
    def check() -> None:
        """See that spans can be switched on.

        :raises StudioError: a variable of OpenTelemetry's own has a value that cannot be.
        """
        try:
            from app.engine.observe import tracing

            tracing.check()
        except ValueError as error:  # the SDK reads some of them when it is imported
            message = (
                f"STUDIO_TRACES is on, and OpenTelemetry cannot be set up: {error}. Correct the variable."
            )
            raise StudioError("traces_unusable", message) from error

    def attach(self, run: Run) -> None:
        """Look at a run from its next event on."""
        if self.tracing is None and self.metrics is None:
            return
        try:
            parts: list[Part] = []
            if self.tracing is not None and (spans := self.tracing.run(run)) is not None:
                parts.append(spans)
            if self.metrics is not None:
                parts.append(self.metrics.run(run))
        except Exception:
            log.exception("run %s: nobody can look at it", run.id)
            return
        if parts:
            run.observer = RunObserver(parts)
            run.emitter.attach(run.observer)

    def detach(self, run: Run) -> None:
        """A run leaves this process."""
        observer, run.observer = run.observer, None
        if observer is not None:
            run.emitter.detach(observer)
            observer.close()

    def open(self, services: Services) -> list[Task]:
        """Begin to look at what is counted by looking; the greenlets that do."""
        metrics, tracing = self.metrics, self.tracing
        if metrics is None:
            return []
        metrics.looks["runs_live"] = lambda: len(services.runs)
        waiting = "Questions that wait for people, in all of the installation."
        metrics.asked["decisions_open"] = waiting, services.store.decisions.open_count
        if tracing is not None:
            metrics.looks["spans_dropped"] = lambda: tracing.dropped
        return [spawn_service(_sample, metrics, services.clock.monotonic)]

    def close(self, seconds: float) -> None:
        """Send what was not sent yet, for ``seconds`` at most."""
        if self.tracing is not None:
            self.tracing.close(seconds)


def _sample(metrics: Metrics, now: Callable[[], float]) -> None:
    from app.engine.observe.metrics import SAMPLE_S

    while True:
        gevent.sleep(SAMPLE_S)
        try:
            metrics.sample(now())
        except Exception:
            log.exception("what is counted by looking could not be looked at")
