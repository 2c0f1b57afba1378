"""Runs of random workflows on the real engine, and everything that has to hold of each.

Law of this room: a check looks at what a run told, at what was stored of it and at the bytes of every surface, never
into the engine.
"""

from __future__ import annotations

import dataclasses
import os
import socket
import typing as t
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import gevent.server
from hypothesis import HealthCheck, Phase, settings

from app import encoding
from app import events as ev
from app.agents.checks import checker
from app.engine import settle
from app.engine.registry import Run, RunRequest
from app.engine.services import Services
from app.store.documents import Draft
from app.streams.agent_events import AgentEventsOptions
from app.streams.rights import Rights
from app.streams.run_event_levels import LEVELS
from app.streams.run_events import RunEvents, RunEventsOptions
from app.streams.voices import voices
from app.workflows.compiled import CompiledWorkflow, Pinned
from app.workflows.validation import compile_document
from tests.engine.order_oracle import disorder
from tests.engine.random_models import Drawn, Plugin
from tests.engine.random_workflows import COLLECTION, Workflow
from tests.streams.generate import violations
from tests.streams.reader import read
from tests.support import sse
from tests.support.engine import Awake, Recorder, services

#: ``approval`` waits for people.
LEFT_OUT = ("approval",)
#: Drawn anew in every run; what fails can be played again by the line it prints. To make it small takes minutes, and
#: the watchdog of a test run ends what takes minutes: set the variable, and ``-o faulthandler_timeout=0``.
MANY = settings(
    deadline=None,
    print_blob=True,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=[phase for phase in Phase if phase is not Phase.shrink or "STUDIO_TEST_SHRINK" in os.environ],
)
_ANSWER = b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"


@dataclasses.dataclass
class Rig:
    """Services, the models' wire, and the addresses of a server that answers and of none."""

    made: Services = dataclasses.field(repr=False)
    wire: Drawn = dataclasses.field(repr=False)
    here: str
    nowhere: str

    def compiled(self, drawn: Workflow) -> CompiledWorkflow:
        """The workflow with its children, checked as any."""
        children = {name: self._checked(child) for name, child in drawn.children.items()}
        for name, child in children.items():  # innermost first
            children[name] = self._with_children(child, children)
        return self._with_children(self._checked(drawn.document), children)

    def _with_children(
        self, workflow: CompiledWorkflow, children: dict[str, CompiledWorkflow]
    ) -> CompiledWorkflow:
        pinned = {
            block.id: Pinned(block.child.workflow_id, 1, children[block.child.workflow_id])
            for block in workflow.blocks.values()
            if block.child is not None
        }
        return dataclasses.replace(workflow, children=pinned)

    def _checked(self, document: dict[str, t.Any]) -> CompiledWorkflow:
        plugins = self.made.plugins
        document = {**document, "variables": {"here": self.here, "nowhere": self.nowhere}}
        return compile_document(
            document,
            plugins.block_types,
            plugins.check_model,
            frozenset(plugins.tools),
            check_agent=checker(plugins.capabilities_of),
        )

    def start(self, drawn: Workflow) -> tuple[Run, Recorder]:
        """Start a run with a recorder as its only reader."""
        self.wire.scripts = drawn.scripts
        workflow = self.compiled(drawn)
        request = RunRequest(
            run_id=self.made.clock.new_id("run"),
            workflow_id="wf_drawn",
            version=1,
            workflow=workflow,
            input={"message": "hi"},
            timeout_s=60,
            show_thinking=True,
        )
        recorder = Recorder()
        return self.made.runs.start(request, (recorder,)), recorder


@contextmanager
def rig(folder: Path) -> Iterator[Rig]:
    """A rig of one's own."""
    wire = Drawn()
    socket.getaddrinfo("127.0.0.1", 80)
    server = gevent.server.StreamServer(("127.0.0.1", 0), _answer)
    server.start()
    with (
        socket.socket() as closed,
        services(folder, {"STUDIO_HTTP_ALLOW": "127.0.0.0/8"}, (Plugin(wire),)) as made,
    ):
        closed.bind(("127.0.0.1", 0))  # bound and not listening: nobody else gets the port
        made.clock = Awake()
        made.store.documents.put(COLLECTION, Draft("tea.md", "Tea is made of leaves."))
        here, nowhere = server.server_port, closed.getsockname()[1]
        try:
            yield Rig(made, wire, f"http://127.0.0.1:{here}", f"http://127.0.0.1:{nowhere}")
        finally:
            server.stop(timeout=0)


def _answer(sock: t.Any, address: t.Any) -> None:
    try:
        asked = sock.recv(65536)
        sock.sendall(_ANSWER % (b"200 OK" if b"/ok" in asked.split(b"\r\n")[0] else b"404 Not Found"))
    except OSError:
        pass
    finally:
        sock.close()


def faults(made: Rig, drawn: Workflow, run: Run, recorder: Recorder) -> list[str]:
    """Everything that is wrong with a run that has ended; empty for a run as it should be."""
    found = violations(recorder.envelopes)
    found += disorder(drawn.document, drawn.children, recorder.envelopes)
    found += [f"{made.wire.streams} models speak on"] * bool(made.wire.streams)
    found += [f"{len(run.scope.greenlets)} greenlets run on"] * bool(run.scope.greenlets)
    found += _pairs(recorder)
    found += _record(made, run, recorder)
    told = _read_on(recorder)
    found += _agent_events(run, told)
    for level in LEVELS:
        found += [f"{level}: {fault}" for fault in _run_events(run, told, level)]
    return found


def _read_on(recorder: Recorder) -> Recorder:
    """What whoever reads all of it is told: pauses that are over are passed over."""
    passed = Recorder()
    passed.envelopes = [e for e in recorder.envelopes[:-1] if not isinstance(e.event, ev.RunPaused)]
    passed.envelopes += recorder.envelopes[-1:]
    return passed


def _pairs(recorder: Recorder) -> list[str]:
    """One end for each execution that started, one for each that was skipped; each of a kind has its own."""
    starts = Counter((e.block, e.execution) for e in recorder.of(ev.BlockStarted))
    ends = Counter((e.block, e.execution) for e in recorder.of(ev.BlockFinished) if e.status != "skipped")
    tools = Counter((e.block, e.id) for e in recorder.of(ev.ToolStarted))
    settled = Counter((e.block, e.id) for e in recorder.of(ev.ToolFinished))
    steps = Counter((e.block, e.phase) for e in recorder.of(ev.SequenceStep))
    found = (
        [f"blocks: {starts} began, {ends} ended"]
        if starts != ends or any(n > 1 for n in starts.values())
        else []
    )
    found += [f"tools: {tools} began, {settled} ended"] if tools != settled else []
    found += [f"steps: {steps}" for block, phase in steps if steps[block, "start"] != steps[block, "end"]]
    if len(recorder.of(ev.DebateStarted)) != len(recorder.of(ev.DebateEnded)):
        found.append("a debate has no end")
    return found


def _record(made: Rig, run: Run, recorder: Recorder) -> list[str]:
    """What is stored is what was told."""
    row = made.made.store.runs.get(run.id)
    assert row is not None
    terminal = recorder.envelopes[-1].event
    assert isinstance(terminal, ev.Terminal)
    found = [] if row["status"] == settle.status_of(terminal) else [f"stored as {row['status']}"]
    stored = {block["block"]: block for block in row["blocks"]}
    last = {event.block: event for event in recorder.of(ev.BlockFinished)}
    found += [
        f"{name} is stored as {stored[name]['status']}"
        for name in last
        if stored[name]["status"] != last[name].status
    ]
    settled = {event.block: event.text for event in recorder.of(ev.AnswerSettled)}
    for name, block in stored.items():
        kind = run.request.workflow.find(name)
        assert kind is not None
        content = (block["output"] or {}).get("content") if block["status"] == "executed" else None
        speaks = kind.type.answers and isinstance(content, str)
        if name in settled and settled[name] != content:
            found.append(f"{name} settled {settled[name]!r}, and {content!r} is stored")
        if isinstance(terminal, ev.RunCompleted) and speaks and name not in settled:
            found.append(f"{name} never settled")
    return found


def _agent_events(run: Run, recorder: Recorder) -> list[str]:
    answers = run.request.workflow.answer_agents()
    settled = {event.block: event.text for event in recorder.of(ev.AnswerSettled)}
    found = []
    for negotiated in (True, False):
        rights = Rights(True, True, True)
        options = AgentEventsOptions(run.id, negotiated, not negotiated, rights, None, answers)
        reader = read(options, recorder.envelopes)
        ends = [frame for frame in reader.frames if frame.get("event") in ("final", "error")]
        if not reader.ended or ends != reader.frames[-1:]:
            found.append("agent events: not one end, and last")
        if isinstance(run.ending, ev.RunCompleted) and negotiated:
            lost = [frame["blockId"] for frame in reader.events("stream_error")]
            found += [
                f"agent events: the text of {block} is lost twice"
                for block in {*lost}
                if lost.count(block) > 1
            ]
            for block, text in reader.standing.items():
                if settled.get(block) != text and block not in lost:
                    found.append(f"agent events: {block} stands as {text!r}, settled {settled.get(block)!r}")
        open_calls: set[tuple[str, str]] = set()
        for frame in reader.events("tool"):
            call = (frame["blockId"], frame["id"])
            if (frame["phase"] == "start") is (call in open_calls):
                found.append(f"agent events: {frame['phase']} of {call}")
            open_calls ^= {call}
        found += [f"agent events: {call} has no end" for call in open_calls]
    return found


def _run_events(run: Run, recorder: Recorder, level: t.Any) -> list[str]:
    heard = voices(run.request.workflow)
    rights = Rights(True, True, True)
    projection = RunEvents(RunEventsOptions(run.id, "thr_1", level, rights, heard))
    frames = [frame.json() for frame in sse.parse(b"".join(map(projection.frames, recorder.envelopes)))]
    kinds = [frame["type"] for frame in frames]
    found = [] if (kinds[0], kinds[-1]) == ("thread", "done") else [f"from {kinds[0]} to {kinds[-1]}"]
    again = len(recorder.of(ev.RunResumed))  # whoever reads on after a pause is told the thread once more
    due = {"thread": 1 + again, "done": 1}
    found += [f"{kind} {kinds.count(kind)} times" for kind in due if kinds.count(kind) != due[kind]]
    seqs = [frame["seq"] for frame in frames]
    found += ["out of order"] * (seqs != sorted(seqs))
    nodes: set[str] = set()
    asked: set[tuple[str, str]] = set()
    for frame in frames:
        kind, data = frame["type"], frame["data"]
        if kind == "workflow_node_start":
            found += [f"two starts of {data['node_run_id']}"] * (data["node_run_id"] in nodes)
            nodes.add(data["node_run_id"])
        elif kind == "workflow_node_end" and not data.get("skipped"):
            found += [f"an end of {data['node_run_id']}"] * (data["node_run_id"] not in nodes)
            nodes.discard(data["node_run_id"])
        elif kind == "tool_use":
            asked.add((data["node_id"], data["tool_call_id"]))
        elif kind == "tool_result":
            call = (data["node_id"], data["tool_call_id"])
            found += [f"a result of {call}"] * (call not in asked)
            asked.discard(call)
    return found + [f"no end of {node}" for node in nodes] + [f"no result of {call}" for call in asked]


def told(drawn: Workflow, found: list[str]) -> str:
    """A message that can be read, for a failed assertion."""
    listed = "\n".join(found)
    return f"{listed}\n{encoding.dumps(drawn.document).decode()}\n{drawn.children}\n{drawn.scripts}"
