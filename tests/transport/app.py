"""The application that tests/transport serves: real streams of runs that only follow a plan.

A plan is the JSON body of ``POST /stream``:
``tokens``, ``size`` (characters each), ``gap_s`` between them, ``silent_s`` before the end (the string
``"forever"``: until stopped), ``fail_at`` (the projection raises at that envelope).
"""

from __future__ import annotations

import gc
import os
import types
import typing as t

import gevent
from flask import Flask, Response, request
from gevent.event import Event

from app import encoding
from app import events as ev
from app.engine.gate import FlowGate
from app.streams.agent_events import AgentEvents, AgentEventsOptions
from app.streams.rights import Rights
from app.web import streaming
from app.web.direct import StreamMiddleware
from app.web.watch import shared, watch_request


class FakeRun:
    """What a reader needs of a run: a gate and someone to tell that it left."""

    def __init__(self, plan: dict[str, t.Any], subscriber: t.Any) -> None:
        self.plan = plan
        self.gate = FlowGate()
        self.gone = 0
        self.emitted = 0
        self.cause: ev.CancelCause | None = None
        self.done = Event()
        self._stop = Event()
        self._seq = 0
        self._subscriber = subscriber
        self.greenlet = gevent.spawn(self._main)

    def sole(self, subscriber: t.Any) -> bool:
        return True

    def reader_gone(self, subscriber: t.Any) -> None:
        self.gone += 1
        self.cancel("client_disconnected")

    def cancel(self, cause: ev.CancelCause) -> None:
        self.cause = self.cause or cause
        self._stop.set()
        self.gate.open()

    def _emit(self, event: ev.RunEvent) -> None:
        self._seq += 1
        self._subscriber.deliver(ev.Envelope(self._seq, 0, event))
        self._subscriber.flush()

    def _main(self) -> None:
        try:
            self._emit(ev.RunStarted("run_1", "wf_1", [ev.BlockInfo("agent_1", "agent", "Agent 1")], []))
            self._speak()
            silent = self.plan.get("silent_s", 0)
            self._stop.wait(None if silent == "forever" else silent)
            if self.cause:
                self._emit(ev.RunCancelled(self.cause, {}))
            else:
                self._emit(ev.RunCompleted({}, {}, {}, {}))
        finally:
            self.done.set()

    def _speak(self) -> None:
        text = "0123456789" * (self.plan.get("size", 10) // 10)
        for number in range(self.plan.get("tokens", 0)):
            if self._stop.wait(self.plan.get("gap_s", 0)):
                return
            self.gate.wait_open()
            if self.cause:
                return
            self._emit(ev.TextDelta("agent_1", 0, f"{number}:{text}", True))
            self.emitted += 1


class FailingProjection:
    """Raises at its second envelope."""

    done = False

    def frames(self, envelope: ev.Envelope) -> bytes:
        if envelope.seq > 1:
            raise RuntimeError("a projection with a fault")
        return b'data: "first"\n\n'


class FakeRuns:
    """The registry's part of a drain."""

    def __init__(self) -> None:
        self.all: list[FakeRun] = []

    def drain(self, timeout_s: float) -> bool:
        for run in self.all:
            run.cancel("server_shutdown")
        return all(run.done.wait(timeout_s) for run in self.all)

    def close(self) -> None:
        pass


app = Flask(__name__)
runs = FakeRuns()
app.extensions["studio"] = types.SimpleNamespace(
    settings=types.SimpleNamespace(
        keepalive_s=float(os.environ.get("STUDIO_KEEPALIVE_S", "15")),
        slow_reader_s=float(os.environ.get("STUDIO_SLOW_READER_S", "60")),
        stream_writer=os.environ.get("STUDIO_STREAM_WRITER", "direct"),
    ),
    runs=runs,
    mcp=types.SimpleNamespace(close=lambda: None),
    observing=types.SimpleNamespace(close=lambda seconds: None),
    store=types.SimpleNamespace(close=lambda: None),
)


@app.post("/stream")
def stream() -> Response:
    plan = encoding.loads(request.get_data())
    options = AgentEventsOptions("run_1", True, False, Rights(), None, ("agent_1",))

    def start(subscriber: t.Any) -> FakeRun:
        run = FakeRun(plan, subscriber)
        runs.all.append(run)
        return run

    projection: t.Any = FailingProjection() if plan.get("fail_at") else AgentEvents(options)
    return streaming.respond(projection, start, {"X-Echo": "yes"}, "run_1")


@app.post("/wait")
def wait() -> Response:
    """A caller who waits for an answer that never comes, until it leaves."""
    gone = Event()
    with watch_request(request.environ, gone.set):
        gone.wait()
    waiters.append(1)
    return Response(b"{}")


waiters: list[int] = []


@app.get("/stats")
def stats() -> Response:
    gc.collect()
    last = runs.all[-1] if runs.all else None
    return Response(
        encoding.dumps(
            {
                "pid": os.getpid(),
                "descriptors": len(os.listdir("/proc/self/fd")),
                "watched": len(shared()),
                "streams": len(streaming.service(app)),
                "runs": len(runs.all),
                "done": sum(run.done.is_set() for run in runs.all),
                "gone": sum(run.gone for run in runs.all),
                "emitted": last.emitted if last else 0,
                "gate_closed": bool(last and last.gate.closed),
                "waiters_gone": len(waiters),
            }
        ),
        content_type="application/json",
    )


application = StreamMiddleware(app)
