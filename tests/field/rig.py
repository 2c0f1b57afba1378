"""The two ways a field case is met: a real server over sockets, or the engine in this process.

Law of this room: the vendor and the tools' desk are lock-step (``tests.support.vendor``); what a case expects
of an upstream connection is proved by its end, not by time.
"""

from __future__ import annotations

import json
import socket
import typing as t
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import gevent

from app import config
from app import events as ev
from app.engine.registry import Run
from app.engine.services import Services
from app.store import Store
from plugins.spec import Tool
from tests.field.wires import Speaker
from tests.support import sse
from tests.support.engine import Recorder, agent, start
from tests.support.servers import NEGOTIATE, Studio
from tests.support.vendor import Call, Vendor

BOUND_S = 60.0
ALL = {"stream": True, "includeThinking": True, "includeToolCalls": True}
ANY: dict[str, t.Any] = {"type": "object"}
#: A configured vendor key; it may never be seen anywhere.
SECRET = "sk-field-SECRET-0123456789"


def until(condition: Callable[[], t.Any], what: str, seconds: float = BOUND_S) -> t.Any:
    """Wait for a condition, letting others run."""
    with gevent.Timeout(seconds, AssertionError(f"not within {seconds:g} s: {what}")):
        while not (value := condition()):
            gevent.sleep(0.005)
        return value


def environ(vendor: Vendor, **more: str) -> dict[str, str]:
    """The environment in which all wires lead to ``vendor`` and HTTP tools may reach this machine."""
    host = vendor.base.removesuffix("/v1")
    return {
        "OPENAI_API_BASE": vendor.base,
        "OPENAI_API_KEY": SECRET,
        "GEMINI_API_BASE": f"{host}/v1beta",
        "GEMINI_API_KEY": SECRET,
        "STUDIO_BEDROCK_API_BASE": host,
        "AWS_BEARER_TOKEN_BEDROCK": SECRET,
        "AWS_REGION": "us-east-1",
        "STUDIO_COHERE_API_BASE": host,
        "COHERE_API_KEY": SECRET,
        "STUDIO_OLLAMA_API_BASE": host,
        "STUDIO_OLLAMA_API_KEY": SECRET,
        "STUDIO_OPENAI_COMPATIBLE_API_BASE": vendor.base,
        "STUDIO_OPENAI_COMPATIBLE_API_KEY": SECRET,
        "ANTHROPIC_API_BASE": vendor.base,
        "ANTHROPIC_API_KEY": SECRET,
        "STUDIO_HTTP_ALLOW": "127.0.0.0/8",
        **more,
    }


def held(desk: Vendor, *names: str) -> list[dict[str, t.Any]]:
    """HTTP tools that a test answers at the desk; ``call.path`` is ``/v1/<name>``."""
    return [
        {
            "name": name,
            "description": f"Does {name}.",
            "parameters": ANY,
            "http": {"method": "POST", "url": f"{desk.base}/{name}", "body": "{{ args }}"},
        }
        for name in names
    ]


# -- over sockets ------------------------------------------------------------------------------


class Watched:
    """A stream that is read frame by frame."""

    def __init__(self, stream: sse.EventStream) -> None:
        assert stream.status == 200, stream.body()
        self.stream = stream
        self.run_id = stream.headers["X-Run-Id"]
        self.values: list[t.Any] = []
        self.comments: list[str] = []
        self._frames = iter(stream)

    def next(self) -> t.Any:
        """The data of the next frame; comments are kept aside."""
        for frame in self._frames:
            if frame.comment is not None:
                self.comments.append(frame.comment)
                continue
            self.values.append(frame.json())
            return self.values[-1]
        raise AssertionError(f"the stream ended after {self.values[-3:]}")

    def until(self, wanted: Callable[[dict[str, t.Any]], t.Any]) -> t.Any:
        """The first further frame that is wanted."""
        while True:
            value = self.next()
            if isinstance(value, dict) and wanted(value):
                return value

    def comment(self) -> None:
        """Wait for one more comment line; a frame before it is a fault."""
        frame = next(self._frames)
        assert frame.comment is not None, frame
        self.comments.append(frame.comment)

    def end(self) -> dict[str, t.Any]:
        """Read to the end: the terminal frame. Checks that it is the only one, and the sentinel last."""
        for frame in self._frames:
            if frame.comment is None:
                self.values.append(frame.json())
        self.stream.close()
        assert self.values[-1] == "[DONE]", self.values[-3:]
        ends = [v for v in self.values[:-1] if v.get("event") in ("final", "error")]
        assert ends == self.values[-2:-1]
        return t.cast("dict[str, t.Any]", ends[0])

    @property
    def text(self) -> str:
        """The standing answer of all blocks."""
        text = ""
        for value in self.values:
            if isinstance(value, dict) and "chunk" in value:
                text += value["chunk"]
            elif isinstance(value, dict) and value.get("event") == "chunk_reset":
                text = ""
        return text

    def of(self, event: str) -> list[dict[str, t.Any]]:
        """The frames of one kind so far."""
        return [v for v in self.values if isinstance(v, dict) and v.get("event") == event]


@dataclass
class Server:
    """A real Studio whose store the test writes into, as the CLI would."""

    studio: Studio
    store: Store
    count: int = 0

    def deploy(self, document: Mapping[str, t.Any]) -> str:
        """Make a document live; its id."""
        self.count += 1
        saved = self.store.workflows.save(dict(document), "field", workflow_id=f"field-{self.count}")
        self.store.workflows.deploy(saved)
        return saved

    def agent(self, model: str, *, settings: Mapping[str, t.Any] | None = None, **more: t.Any) -> str:
        """Deploy one agent."""
        return self.deploy({**agent(model, **more), "settings": dict(settings or {})})

    def watch(self, workflow: str, **body: t.Any) -> Watched:
        """Begin a stream that shows everything."""
        return Watched(self.studio.execute(workflow, {"input": "hi", **ALL, **body}, NEGOTIATE))

    def call(self, method: str, path: str, key: str | None = "", body: t.Any = None) -> tuple[int, t.Any]:
        """One exchange: status and decoded body. ``key`` None sends none, empty means the admin key."""
        headers = {} if key is None else {"X-API-Key": key or self.studio.key}
        sent = None if body is None else json.dumps(body).encode()
        if sent is not None:
            headers["Content-Type"] = "application/json"
        status, _, got = sse.request(self.studio.port, method, path, sent, headers)
        return status, json.loads(got) if got else None

    def record(self, run_id: str) -> dict[str, t.Any]:
        """The run as the API shows it."""
        status, body = self.call("GET", f"/api/runs/{run_id}")
        assert status == 200, body
        return t.cast("dict[str, t.Any]", body)

    def stop(self, run_id: str) -> None:
        """Press Stop."""
        status, body = self.call("POST", f"/api/runs/{run_id}/cancel", body={})
        assert (status, body["outcome"]) == (202, "accepted")

    def ended(self, run_id: str) -> dict[str, t.Any]:
        """The record once the run is no longer running; checks that its end is whole."""
        record = until(
            lambda: (found := self.record(run_id))["status"] != "running" and found, f"{run_id} has ended"
        )
        assert record["endedAt"] >= record["createdAt"]
        assert all(block["status"] != "running" for block in record["blocks"])
        return t.cast("dict[str, t.Any]", record)

    @property
    def worker(self) -> int:
        """The process id of the one worker."""
        (pid,) = self.studio.workers()
        return pid

    def descriptors(self) -> int:
        """How many descriptors the worker holds."""
        return len(list(Path(f"/proc/{self.worker}/fd").iterdir()))


@contextmanager
def opened(studio: Studio) -> Iterator[Server]:
    """A running Studio with its store opened beside it."""
    store = Store(config.load(studio.env()))
    store.open()
    try:
        yield Server(studio, store)
    finally:
        store.close()


def posted(
    served: Server, workflow: str, body: Mapping[str, t.Any], receive_buffer: int | None = None
) -> socket.socket:
    """A bare socket on which a run was asked for; nothing is read yet."""
    sock = socket.socket()
    if receive_buffer is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    sock.settimeout(BOUND_S)
    sock.connect(("127.0.0.1", served.studio.port))
    sent = json.dumps(body).encode()
    lines = [
        f"POST /api/workflows/{workflow}/execute HTTP/1.1",
        "Host: x",
        f"X-API-Key: {served.studio.key}",
        *(f"{name}: {value}" for name, value in NEGOTIATE.items()),
        "Content-Type: application/json",
        f"Content-Length: {len(sent)}",
    ]
    sock.sendall("\r\n".join([*lines, "", ""]).encode() + sent)
    return sock


def begin(served: Server, workflow: str, receive_buffer: int | None = None) -> tuple[socket.socket, str]:
    """A stream as a bare socket, once its headers are here; its run id."""
    sock = posted(served, workflow, ALL, receive_buffer)
    got = b""
    while not got.endswith(b"\r\n\r\n"):
        got += sock.recv(1)
    (line,) = [line for line in got.split(b"\r\n") if line.lower().startswith(b"x-run-id:")]
    return sock, line.split(b":")[1].strip().decode()


# -- in this process ---------------------------------------------------------------------------


@dataclass
class Engine:
    """The engine in this process, one speaker of the vendor's protocol, and tools that note what they are given."""

    services: Services
    vendor: Vendor
    speaker: Speaker
    ran: list[tuple[str, dict[str, t.Any]]] = field(default_factory=list)

    def tool(self, name: str, run: t.Any = None, **more: t.Any) -> str:
        """Register a tool that notes its arguments, then does ``run`` (default: answers ``ok``)."""

        def noted(arguments: dict[str, t.Any], context: t.Any) -> t.Any:
            self.ran.append((name, arguments))
            return "ok" if run is None else run(arguments, context)

        self.services.plugins.tools[name] = Tool(name, f"Does {name}.", ANY, noted, **more)
        return name

    def start(self, *tools: str, **settings: t.Any) -> Live:
        """Start one agent with these tools."""
        given = {"tools": list(tools)} if tools else {}
        document = agent(self.speaker.model, **given, **settings)
        return Live(self, *start(self.services, document))

    def run(self, *turns: Callable[[Call], t.Any], tools: Sequence[str] = (), **settings: t.Any) -> Live:
        """Run one agent to its end, each model call answered by the next of ``turns``."""
        live = self.start(*tools, **settings)
        for turn in turns:
            turn(live.call())
        return live.end()

    def answer(self, text: str = "done") -> Callable[[Call], None]:
        """A turn that answers."""

        def say(call: Call) -> None:
            self.speaker.text(call, text)
            self.speaker.finish(call)

        return say


class Live:
    """A run in this process.

    :ivar calls: the model calls so far.
    """

    def __init__(self, engine: Engine, run: Run, recorder: Recorder) -> None:
        self.engine, self.run, self.recorder = engine, run, recorder
        self.calls: list[Call] = []

    def call(self) -> Call:
        """The next model call."""
        self.calls.append(self.engine.vendor.next_call())
        return self.calls[-1]

    def until(self, kind: type, count: int = 1) -> None:
        """Wait until so many events of a kind were seen."""
        until(lambda: len(self.recorder.of(kind)) >= count, f"{count} {kind.__name__}")

    def end(self) -> Live:
        """Wait for the end and check its contract: one terminal, last, everything closed before it."""
        assert self.run.done.wait(BOUND_S), "the run did not end"
        events = [e.event for e in self.recorder.envelopes]
        assert [e for e in events if isinstance(e, ev.Terminal)] == events[-1:]
        starts = [e.id for e in self.recorder.of(ev.ToolStarted)]
        ends = [e.id for e in self.recorder.of(ev.ToolFinished)]
        assert sorted(starts) == sorted(ends)
        assert len(set(starts)) == len(starts)
        return self

    @property
    def terminal(self) -> t.Any:
        """The last event."""
        return self.recorder.envelopes[-1].event

    @property
    def output(self) -> t.Any:
        """The output of a run that completed."""
        assert isinstance(self.terminal, ev.RunCompleted), self.terminal
        return self.terminal.output

    @property
    def row(self) -> dict[str, t.Any]:
        """The run as it is stored."""
        row = self.engine.services.store.runs.get(self.run.id)
        assert row is not None
        return row

    @property
    def text(self) -> str:
        """All answer text that was shown, standing or not."""
        return "".join(event.text for event in self.recorder.of(ev.TextDelta))

    @property
    def thinking(self) -> str:
        """All thinking that was shown."""
        return "".join(event.text for event in self.recorder.of(ev.ThinkingDelta))

    @property
    def ends(self) -> list[tuple[str, str]]:
        """Name and status of every settled call, in order."""
        return [(event.name, event.status) for event in self.recorder.of(ev.ToolFinished)]
