"""A debate, a sequence and a secret vote, stopped at every switch point: what began has ended; no vote is half told."""

from __future__ import annotations

from pathlib import Path

from app import events as ev
from app.engine.services import Services
from tests.engine.switches import cancelled_at
from tests.streams.generate import violations
from tests.support.engine import Recorder, start
from tests.support.graphs import graph, playing

VOTERS = 3
SCRIPTS = {
    "speaks": {
        "turns": [
            {
                "steps": [
                    {"thinking": "hm"},
                    {"tool_call": {"name": "clock", "arguments": {}, "id": "call_1"}},
                ]
            },
            {"steps": [{"text": "yes", "delay_ms": 1}, {"usage": {"input": 3, "output": 1}}]},
        ]
    },
}
SPEAKER = {"model": "scripted/speaks", "tools": ["clock"]}
DOCUMENT = graph(
    [
        ("sequence", "sequential", {"agents": [SPEAKER]}),
        ("debate", "debate", {"participants": [SPEAKER, SPEAKER], "rounds": 1}),
        ("vote", "vote", {"voters": [SPEAKER] * VOTERS, "options": ["yes", "no"], "secret": True}),
    ],
    "start > sequence",
    "sequence > debate",
    "debate > vote",
)


def stopped_at(made: Services, point: int) -> tuple[Recorder, int]:
    """A run that is asked to stop at the given switch; also how many switches there were."""
    run, recorder, count = cancelled_at(lambda: start(made, DOCUMENT), {point: "stop_requested"})
    assert not run.scope.greenlets
    return recorder, count


def check(recorder: Recorder) -> None:
    assert violations(recorder.envelopes) == []
    phases = [e.phase for e in recorder.of(ev.SequenceStep)]
    assert phases.count("start") == phases.count("end")
    assert len(recorder.of(ev.DebateStarted)) == len(recorder.of(ev.DebateEnded))
    assert len(recorder.of(ev.VoteCast)) in (0, VOTERS)
    assert not [
        e for e in recorder.of(ev.RunEvent) if getattr(e, "block", "") == "vote" and hasattr(e, "turn")
    ]
    assert sum(e.block == "vote" for e in recorder.of(ev.UsageReported)) <= 1


def test_stopped_at_every_switch_point(tmp_path: Path) -> None:
    with playing(tmp_path, SCRIPTS) as made:
        stopped_at(made, 0)  # imports and caches warm, so that the switch points repeat
        recorder, count = stopped_at(made, 0)
        check(recorder)
        assert recorder.of(ev.VoteClosed)[0].votes == {"yes": VOTERS, "no": 0}
        cancelled = 0
        for point in range(1, count + 1):
            recorder, _ = stopped_at(made, point)
            check(recorder)
            cancelled += isinstance(recorder.envelopes[-1].event, ev.RunCancelled)
        assert cancelled > count // 3
