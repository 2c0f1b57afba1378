"""Whole streams of run events of one example, as bytes, at each level.

When the surface changes on purpose: ``STUDIO_WRITE_GOLDEN=1 make test ARGS=tests/streams``, then read the difference.
"""

from __future__ import annotations

import os
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from app.clock import SteppingClock
from app.streams.rights import Rights
from app.streams.run_event_levels import LEVELS, Level
from app.streams.run_events import RunEvents, RunEventsOptions
from app.streams.voices import voices
from tests.engine.test_regions import document
from tests.support.engine import services, start

GOLDEN = Path(__file__).parent / "golden"

SCRIPTS: dict[str, t.Any] = {
    "searcher": {
        "turns": [
            {
                "steps": [
                    {"thinking": "I have to look that up."},
                    {"text": "One moment. "},
                    {"tool_call": {"name": "look_up", "arguments": {"q": "{{message}}"}, "id": "call_1"}},
                    {"tool_call": {"name": "nonesuch", "arguments": {}, "id": "call_2"}},
                    {"usage": {"input": 10, "output": 5}},
                ]
            },
            {"steps": [{"text": "Found: {{tools.look_up}}"}, {"usage": {"input": 20, "output": 6}}]},
        ]
    },
    "writer": {
        "turns": [
            {
                "steps": [
                    {"text": "In short: ", "chunk": "words"},
                    {"text": "{{message}}"},
                    {"usage": {"input": 5, "output": 5}},
                ]
            }
        ]
    },
}

#: A loop whose agent has tools, a way that is not taken, and an agent whose text is the answer.
BLOCKS: list[tuple[str, str, dict[str, t.Any]]] = [
    ("rounds", "loop", {"kind": "for_each", "items": ["tea", "cake"]}),
    (
        "search",
        "agent",
        {
            "model": "scripted/searcher",
            "prompt": "{{ loop.item }}",
            "tools": [{"name": "look_up", "result": "plenty of it"}],
        },
    ),
    ("enough", "condition", {"expression": "blocks.rounds.iterations == 2"}),
    ("excuse", "set", {"values": {"text": "Sorry."}}),
    ("write", "agent", {"model": "scripted/writer", "prompt": "{{ blocks.search.content }}"}),
]
EDGES = (
    "start > rounds",
    "rounds -loop> search",
    "search > rounds",
    "rounds -exit> enough",
    "enough -false> excuse",
    "enough -true> write",
)


class Streams:
    """A reader at each level, all of them of one run."""

    def __init__(self, options: list[RunEventsOptions]) -> None:
        self.readers = [RunEvents(option) for option in options]
        self.streams = [b""] * len(options)

    def read(self, envelopes: list[t.Any]) -> list[bytes]:
        for envelope in envelopes:
            for place, reader in enumerate(self.readers):
                self.streams[place] += reader.frames(envelope)
        return self.streams


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[Level, bytes]]:
    folder = tmp_path_factory.mktemp("golden")
    for name, script in SCRIPTS.items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(script))
    with services(folder, {"STUDIO_SCRIPTS_DIR": str(folder)}, clock=SteppingClock()) as made:
        run, recorder = start(made, document(BLOCKS, *EDGES))
        assert run.done.wait(20)
        heard = voices(run.request.workflow)
        rights = Rights(False, True, True)
        options = [
            RunEventsOptions(run.id, "thr_1", level, rights, heard.speakers, heard.answers, heard.lone)
            for level in LEVELS
        ]
        yield dict(zip(LEVELS, Streams(options).read(recorder.envelopes), strict=True))


@pytest.mark.parametrize("level", LEVELS)
def test_the_stream_of_the_example(level: Level, streams: dict[Level, bytes]) -> None:
    path = GOLDEN / f"run-events-{level}.sse"
    if os.environ.get("STUDIO_WRITE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(streams[level])
    assert streams[level].decode() == path.read_text()
