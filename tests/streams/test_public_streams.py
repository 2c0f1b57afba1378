"""Whole streams as visitors get them, as bytes. The one without the header is what old clients of a chat read: it may
never change.

When another one changes on purpose: ``STUDIO_WRITE_GOLDEN=1 make test ARGS=tests/streams``, then read the difference.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import yaml

from app.clock import SteppingClock
from app.engine.registry import Run
from app.streams.agent_events import AgentEvents, AgentEventsOptions
from app.streams.chat_response import Turn
from app.streams.graph_events import GraphEvents, GraphEventsOptions
from app.streams.projection import Projection
from app.streams.rights import Rights
from app.streams.run_events import RunEvents, RunEventsOptions
from app.streams.topology import topology
from app.streams.voices import voices
from tests.engine.test_regions import document
from tests.streams.test_run_event_streams import check_golden
from tests.support.engine import Recorder, services, start

SCRIPTS: dict[str, t.Any] = {
    "asker": {
        "turns": [
            {
                "steps": [
                    {"thinking": "PRIVATE thought."},
                    {"text": "One moment. "},
                    {"tool_call": {"name": "look_up", "arguments": {"q": "PRIVATE"}, "id": "call_1"}},
                    {"usage": {"input": 10, "output": 5}},
                ]
            },
            {"steps": [{"text": "It is tea."}, {"usage": {"input": 20, "output": 6}}]},
        ]
    },
    "writer": {
        "turns": [
            {"steps": [{"text": "In short: tea.", "chunk": "words"}, {"usage": {"input": 5, "output": 5}}]}
        ]
    },
    "failing": {
        "turns": [
            {"steps": [{"text": "Half "}, {"error": {"code": "provider_auth", "message": "PRIVATE key."}}]}
        ]
    },
}


def blocks(writer: str) -> list[tuple[str, str, dict[str, t.Any]]]:
    """The agents of :func:`workflow`."""
    asks = {"model": "scripted/asker", "system": "PRIVATE", "prompt": "{{ input.message }}"}
    return [
        ("ask", "agent", {**asks, "tools": [{"name": "look_up", "result": "PRIVATE result"}]}),
        ("write", "agent", {"model": f"scripted/{writer}", "prompt": "PRIVATE {{ blocks.ask.content }}"}),
    ]


def workflow(writer: str) -> dict[str, t.Any]:
    """Two agents, one after the other, with names that are nobody's business."""
    made = document(blocks(writer), "start > ask", "ask > write")
    named = [{**block, "name": f"PRIVATE {block['id']}"} for block in made["blocks"]]
    return {**made, "blocks": named}


class Pick(t.NamedTuple):
    block: str
    path: tuple[str, ...]


@dataclass
class Ended:
    """A run that is over, and what it said."""

    run: Run
    recorder: Recorder

    def read(self, projection: Projection) -> bytes:
        return b"".join(projection.frames(envelope) for envelope in self.recorder.envelopes)

    def agent(self, negotiated: bool, rights: Rights) -> bytes:
        picked = (Pick("ask", ("content",)), Pick("write", ("content",)), Pick("write", ("model",)))
        options = AgentEventsOptions(self.run.id, negotiated, not negotiated, rights, picked, ("write",))
        return self.read(AgentEvents(options))


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Ended]]:
    folder = tmp_path_factory.mktemp("public")
    for name, script in SCRIPTS.items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(script))
    found = {}
    for writer in ("writer", "failing"):
        with services(folder, {"STUDIO_SCRIPTS_DIR": str(folder)}, clock=SteppingClock()) as made:
            run, recorder = start(made, workflow(writer))
            assert run.done.wait(20)
            found[writer] = Ended(run, recorder)
    return found


VISITOR, SHOWN = Rights(public=True), Rights(True, True, public=True)


@pytest.mark.parametrize("writer", ["writer", "failing"])
@pytest.mark.parametrize("cadence", ["text", "live"])
def test_the_stream_of_a_chat(writer: str, cadence: str, ended: dict[str, Ended]) -> None:
    negotiated = cadence == "live"
    stream = ended[writer].agent(negotiated, SHOWN if negotiated else VISITOR)
    check_golden(f"public-{cadence}-{writer}.sse", stream)
    if negotiated:  # they were allowed to see how it thinks
        stream = stream.replace(b"PRIVATE thought.", b"")
    assert b"PRIVATE" not in stream
    assert b"scripted" not in stream


@pytest.mark.parametrize("writer", ["writer", "failing"])
def test_the_stream_of_run_events(writer: str, ended: dict[str, Ended]) -> None:
    run = ended[writer].run
    speak = voices(run.request.workflow)
    options = RunEventsOptions(run.id, "thr_1", "full", Rights(tools=True, public=True), speak)
    stream = ended[writer].read(RunEvents(options))
    check_golden(f"public-runs-{writer}.sse", stream)
    assert b"PRIVATE" not in stream


@pytest.mark.parametrize("writer", ["writer", "failing"])
def test_the_stream_of_graph_events(writer: str, ended: dict[str, Ended]) -> None:
    run = ended[writer].run
    drawn = topology(run.request.workflow, VISITOR)
    options = GraphEventsOptions(Turn(run.id, "thr_1", "0" * 32, 0), drawn, VISITOR)
    stream = ended[writer].read(GraphEvents(options))
    check_golden(f"public-graph-{writer}.sse", stream)
    assert b"PRIVATE" not in stream
