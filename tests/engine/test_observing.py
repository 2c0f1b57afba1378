"""Looking at runs: what it may never do to them, and that it costs nothing where it is off."""

from __future__ import annotations

import gc
import subprocess
import sys
import typing as t
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path

import greenlet
import pytest
from gevent.event import Event
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import SpanExporter

from app import events as ev
from app.clock import SystemClock
from app.config import Settings
from app.engine.observe.first import first_span_id
from app.engine.observe.metrics import Metrics
from app.engine.observe.observer import Observing, RunObserver
from app.engine.observe.places import Places
from app.engine.observe.tracing import Batches, Tracing
from app.engine.recompiled import compiled
from app.engine.services import Services
from app.errors import StudioError
from tests.engine.flows import document
from tests.engine.test_no_cycles import freed
from tests.support.engine import agent, services, start
from tests.support.graphs import ended
from tests.support.servers import wait_until
from tests.support.shared import ROOT
from tests.support.spans import Traces

pytestmark = pytest.mark.leak_check

ECHO = agent("scripted/echo")


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Services]:
    with services(tmp_path) as opened:
        yield opened


class Sent(SpanExporter):
    """Keeps the names of what is sent; waits for ``go`` first."""

    def __init__(self, go: Event | None = None) -> None:
        self.go = go
        self.names: list[str] = []
        self.over = False

    def export(self, spans: Sequence[ReadableSpan]) -> None:
        if self.go is not None:
            self.go.wait()
        self.names += [span.name for span in spans]

    def shutdown(self) -> None:
        self.over = True


class Broken(SpanProcessor):
    """Fails at whatever ends."""

    def on_end(self, span: ReadableSpan) -> None:
        raise RuntimeError("no")


# -- off -----------------------------------------------------------------------------------------


def test_off_nobody_looks_and_nothing_is_imported(made: Services) -> None:
    run, _ = start(made, ECHO)
    assert run.observer is None
    assert run.done.wait(20)
    code = (
        "from gevent import monkey; monkey.patch_all()\n"
        "import sys, app.web.direct, app.engine.observe.observer, app.builtins, app.web.metrics\n"
        "names = ('opentelemetry.sdk', 'opentelemetry.exporter', 'prometheus_client')\n"
        "print([name for name in names if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_settings_switch_it_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Observing.of(Settings(data_dir=tmp_path), tuple, "1").tracing is None
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    on = Observing.of(Settings(data_dir=tmp_path, traces="otlp", metrics=True), tuple, "1")
    assert on.tracing is not None
    assert on.tracing.content is None
    assert on.metrics is not None
    on.close(5)
    told = Observing.of(Settings(data_dir=tmp_path, traces="otlp", trace_content=True), tuple, "1")
    assert told.tracing is not None
    assert told.tracing.content is not None
    told.close(5)


def test_a_run_that_the_sampler_does_not_want_is_not_looked_at(
    made: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    traces = Traces(made)
    run, _ = start(made, ECHO)
    assert run.observer is None
    assert run.done.wait(20)
    assert not traces.spans


# -- never in the way ----------------------------------------------------------------------------


def test_the_emitter_does_not_switch_because_somebody_looks(
    made: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = Sent()
    made.observing = Observing(Tracing(Batches(sent), None, "1"), Metrics())
    switches: list[tuple[t.Any, ...]] = []
    delivered: list[type] = []
    whole = RunObserver.deliver

    def watched(self: RunObserver, envelope: ev.Envelope) -> None:
        delivered.append(type(envelope.event))
        before = greenlet.settrace(lambda *args: switches.append(args))
        try:
            whole(self, envelope)
        finally:
            greenlet.settrace(before)

    monkeypatch.setattr(RunObserver, "deliver", watched)
    ended(made, agent("scripted/parallel", tools=["clock", "calculator"]))
    assert {ev.TextDelta, ev.ToolFinished, ev.RunCompleted} <= set(delivered)
    assert switches == []
    made.observing.close(5)
    assert sent.names[-1] == "invoke_workflow test"


def test_a_token_is_nobody_s_business(made: Services) -> None:
    seen: list[type] = []

    class Part:
        def deliver(self, envelope: ev.Envelope) -> None:
            seen.append(type(envelope.event))

    observer = RunObserver([t.cast(t.Any, Part())])
    for event in (
        ev.TextDelta("a", 0, "x", True),
        ev.ThinkingDelta("a", 0, "x"),
        ev.BlockStarted("a", "agent", "a"),
    ):
        observer.deliver(ev.Envelope(1, 1, event))
    assert seen == [ev.BlockStarted]


def test_one_that_fails_loses_only_itself(made: Services, caplog: pytest.LogCaptureFixture) -> None:
    metrics = Metrics()
    made.observing = Observing(Tracing(Broken(), None, "1"), metrics)
    end, _ = ended(made, agent("scripted/parallel", tools=["clock", "calculator"]))
    assert isinstance(end, ev.RunCompleted)
    assert caplog.text.count("was taken off it") == 1
    assert (
        'studio_runs_ended_total{cause="",status="completed",surface="other"} 1.0' in metrics.text().decode()
    )


def test_a_run_at_which_nobody_can_look_runs(
    made: Services, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    traces = Traces(made)
    assert made.observing.tracing is not None
    monkeypatch.setattr(made.observing.tracing, "run", lambda run: 1 / 0)
    end, _ = ended(made, ECHO)
    assert isinstance(end, ev.RunCompleted)
    assert "nobody can look at it" in caplog.text
    assert not traces.spans


# -- sending -------------------------------------------------------------------------------------


def test_a_receiver_that_hangs_holds_up_nothing_and_what_does_not_fit_is_dropped(
    made: Services, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "8")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4")
    go = Event()
    sent = Sent(go)
    made.observing = Observing(Tracing(Batches(sent), None, "1"))
    for _ in range(5):
        end, _ = ended(made, ECHO)
        assert isinstance(end, ev.RunCompleted)
    assert made.observing.tracing is not None
    assert sent.names == []
    assert made.observing.tracing.dropped == 20 - 4 - 8, "four are being sent, eight wait"
    assert "spans are dropped" in caplog.text
    made.observing.close(0.01)
    assert "were not sent" in caplog.text
    go.set()
    wait_until(lambda: sent.over, "what was left is sent")
    assert len(sent.names) == 12


def test_a_receiver_that_fails_loses_its_batch_and_no_other(
    made: Services, caplog: pytest.LogCaptureFixture
) -> None:
    class Fails(Sent):
        def export(self, spans: Sequence[ReadableSpan]) -> None:
            if not self.names:
                self.names.append("failed")
                raise OSError("nobody there")
            super().export(spans)

    sent = Fails()
    batches = Batches(sent)
    made.observing = Observing(Tracing(batches, None, "1"))
    ended(made, ECHO)
    batches.force_flush()
    wait_until(lambda: sent.names, "the first batch")
    ended(made, ECHO)
    made.observing.close(5)
    assert sent.names == [
        "failed",
        "start start",
        "chat echo",
        "invoke_agent agent_1",
        "invoke_workflow test",
    ]
    assert "could not be sent" in caplog.text


def test_a_child_process_runs_none_of_our_greenlets() -> None:
    """What the SDK's own batch processor and provider do not hold to: they start threads in the child."""
    code = (
        "from gevent import monkey; monkey.patch_all()\n"
        "import os, subprocess, gevent\n"
        "from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter\n"
        "from app.engine.observe.tracing import Batches, Tracing\n"
        "parent = os.getpid()\n"
        "def other():\n"
        "    while True:\n"
        "        gevent.sleep(0)\n"
        "        if os.getpid() != parent:\n"
        "            os._exit(77)\n"
        "tracing = Tracing(Batches(InMemorySpanExporter()), None, '1')\n"
        "gevent.spawn(other)\n"
        "gevent.sleep(0.01)\n"
        "print(subprocess.run(['true']).returncode)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"


# -- places --------------------------------------------------------------------------------------


def test_where_a_block_lies_is_read_off_its_path(made: Services) -> None:
    doc = document(
        [
            ("each", "parallel", {"items": "{{ [1] }}"}),
            ("inner", "parallel", {"items": "{{ [1] }}"}),
            ("loop", "loop", {"kind": "for", "times": 1}),
            ("say", "agent", {"model": "scripted/echo"}),
            ("last", "set", {"values": {"x": 1}}),
        ],
        "start > each",
        "each -loop > inner",
        "inner -loop > loop",
        "loop -loop > say",
        "say > loop",
        "loop -exit > inner",
        "inner -exit > each",
        "each -exit > last",
    )
    places = Places(compiled(doc, made.plugins))
    assert list(places.around("last")) == []
    assert list(places.around("nobody")) == []
    assert next(iter(places.around("say[3][0]"))) == "loop[3][0]"
    assert [path for path in places.around("loop[3][0]") if path == "inner[3]"] == ["inner[3]"]
    assert list(places.around("inner[3]")) == ["each[3]", "each"]


def test_the_parts_of_a_run_know_one_another_s_first_span() -> None:
    run = SystemClock().new_id("run")
    assert first_span_id(run, 1) == first_span_id(run, 1)
    assert len({first_span_id(run, epoch) for epoch in range(1, 50)}) == 49
    assert all(0 < first_span_id(run, epoch) < 1 << 64 for epoch in range(1, 50))


def test_a_variable_that_the_sdk_does_not_take_stops_the_start_and_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Observing.check()
    monkeypatch.setenv("OTEL_SPAN_EVENT_COUNT_LIMIT", "many")
    with pytest.raises(StudioError, match="OTEL_SPAN_EVENT_COUNT_LIMIT"):
        Observing.check()


def test_a_run_that_was_looked_at_goes_with_its_last_use(made: Services) -> None:
    """A garbage collection would come late, and stop all streams when it does."""
    traces = Traces(made)
    made.observing.metrics = Metrics()

    def once(script: str) -> t.Any:
        run, recorder = start(made, agent(f"scripted/{script}", retries=0, tools=["clock", "calculator"]))
        assert run.done.wait(20)
        recorder.envelopes.clear()
        return weakref.ref(run)

    gc.collect()
    gc.disable()
    try:
        assert freed(once("parallel"))
        assert freed(once("error-mid"))
    finally:
        gc.enable()
    assert len(traces.named("invoke_workflow test")) == 2
