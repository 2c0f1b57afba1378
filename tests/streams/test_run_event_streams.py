"""Whole streams of run events of one example, as bytes, at each level.

When the surface changes on purpose: ``STUDIO_WRITE_GOLDEN=1 make test ARGS=tests/streams``, then read the difference.
"""

from __future__ import annotations

import os
import random
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from app.blocks import vote
from app.clock import SteppingClock
from app.engine.registry import Run
from app.streams.rights import Rights
from app.streams.run_event_data import MIRRORED
from app.streams.run_event_levels import LEVELS, Level
from app.streams.run_events import RunEvents, RunEventsOptions
from app.streams.voices import voices
from app.workflows.document import parse
from tests.engine.test_regions import document
from tests.support import sse
from tests.support.engine import Recorder, services, start
from tests.support.shared import ROOT

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


def read(run: Run, recorder: Recorder) -> list[bytes]:
    """A run at each level, for who may see payloads."""
    heard = voices(run.request.workflow)
    found = []
    for level in LEVELS:
        rights = Rights(False, True, True)
        options = RunEventsOptions(run.id, "thr_1", level, rights, heard)
        reader = RunEvents(options)
        found.append(b"".join(reader.frames(envelope) for envelope in recorder.envelopes))
    return found


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[Level, bytes]]:
    folder = tmp_path_factory.mktemp("golden")
    for name, script in SCRIPTS.items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(script))
    with services(folder, {"STUDIO_SCRIPTS_DIR": str(folder)}, clock=SteppingClock()) as made:
        run, recorder = start(made, document(BLOCKS, *EDGES))
        assert run.done.wait(20)
        yield dict(zip(LEVELS, read(run, recorder), strict=True))


@pytest.mark.parametrize("level", LEVELS)
def test_the_stream_of_the_example(level: Level, streams: dict[Level, bytes]) -> None:
    check_golden(f"run-events-{level}.sse", streams[level])


def check_golden(name: str, stream: bytes) -> None:
    """The stream is the one that is kept, byte for byte."""
    path = GOLDEN / name
    if os.environ.get("STUDIO_WRITE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(stream)
    assert stream.decode() == path.read_bytes().decode()


@pytest.fixture(scope="module")
def jury(tmp_path_factory: pytest.TempPathFactory) -> dict[Level, bytes]:
    """The jury of the examples, by counted time and ids; its ballots are shuffled as they would be by one dealer."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vote, "_RANDOM", random.Random(4))
        with services(tmp_path_factory.mktemp("jury"), clock=SteppingClock()) as made:
            document = parse((ROOT / "examples" / "jury.yaml").read_text())
            run, recorder = start(made, document, {"message": "Who was it?"})
            assert run.done.wait(20)
            return dict(zip(LEVELS, read(run, recorder), strict=True))


@pytest.mark.parametrize("level", LEVELS)
def test_the_stream_of_the_jury(level: Level, jury: dict[Level, bytes]) -> None:
    check_golden(f"jury-{level}.sse", jury[level])


def test_the_jurys_frames_are_those_of_the_contract(jury: dict[Level, bytes]) -> None:
    """Every frame has its members in order, its id where it is due, and what older clients read at the top."""
    for level, stream in jury.items():
        frames = sse.parse(stream)
        values = [frame.json() for frame in frames]
        assert values[0]["type"] == "thread"
        assert [value["type"] for value in values].count("thread") == 1
        assert values[-1]["type"] == "done"
        assert [value["type"] for value in values].count("done") == 1
        for value, frame, following in zip(values, frames, [*values[1:], None], strict=True):
            assert list(value)[:6] == ["type", "seq", "ts", "run_id", "thread_id", "data"], level
            mirrored = {name for name in MIRRORED if name in value["data"]}
            assert set(value) - {"type", "seq", "ts", "run_id", "thread_id", "data"} == mirrored
            assert all(value[name] == value["data"][name] for name in mirrored)
            assert frame.event is None
            last = following is None or following["seq"] != value["seq"]
            assert frame.id == (f"{value['run_id']}:{value['seq']}" if last else None)
        if level != "minimal":
            kinds = [value["type"] for value in values]
            assert kinds[-2:] == ["flow_state", "done"]
            loops = [value["data"] for value in values if value["type"] == "workflow_loop"]
            assert [(loop["iteration"], loop["path"]) for loop in loops] == [
                (1, "loop"),
                (2, "loop"),
                (2, "exit"),
            ]
            opened = [v["data"]["node_run_id"] for v in values if v["type"] == "workflow_node_start"]
            closed = [v["data"]["node_run_id"] for v in values if v["type"] == "workflow_node_end"]
            assert sorted(opened) == sorted(closed)
    full = [frame.json() for frame in sse.parse(jury["full"])]
    debate = [value for value in full if value["type"].startswith("debate_")]
    assert debate[0]["data"] == {
        "node_id": "discussion",
        "participants": [{"index": n, "name": name} for n, name in enumerate(("Ada", "Ben", "Cleo"))],
        "rounds": 2,
    }
    assert [value["type"] for value in debate] == [*("debate_start", *["debate_round"] * 2, "debate_end")] * 2
    said = [value for value in full if value["type"] == "agent_message" and "round" in value["data"]]
    assert [(v["data"]["sender"]["name"], v["data"]["round"]) for v in said[:6]] == [
        (name, round_) for round_ in (1, 2) for name in ("Ada", "Ben", "Cleo")
    ]


def test_the_jurys_answer_alone_saves_four_fifths_of_the_bytes(jury: dict[Level, bytes]) -> None:
    assert len(jury["minimal"]) <= len(jury["full"]) / 5
    kinds = [frame.json()["type"] for frame in sse.parse(jury["minimal"])]
    assert kinds == ["thread", "agent_message", "done"]


def test_the_jurys_secret_ballots_name_nobody_and_come_together(jury: dict[Level, bytes]) -> None:
    frames = [frame.json() for frame in sse.parse(jury["full"])]
    ballot = [frame for frame in frames if frame["data"].get("node_id") == "ballot"]
    each = ["workflow_node_start", "vote_cast", "vote_cast", "vote_cast", "vote_result"]
    kinds = [frame["type"] for frame in frames]
    assert [frame["type"] for frame in ballot] == [*each, "workflow_node_end"] * 2
    first = kinds.index("vote_cast")
    assert kinds[first : first + 4] == ["vote_cast"] * 3 + ["vote_result"]
    for frame in ballot:
        assert "sender" not in frame
        assert "sender" not in frame["data"]
    cast = [frame["data"] for frame in ballot if frame["type"] == "vote_cast"]
    assert sorted(vote["voter_index"] for vote in cast[:3]) == [0, 1, 2]
    results = [frame["data"]["winner"] for frame in ballot if frame["type"] == "vote_result"]
    assert results == [None, "not guilty"]
