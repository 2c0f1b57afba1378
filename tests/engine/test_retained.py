"""How long ended runs are kept: bounded by age, bytes and count, the oldest first."""

from __future__ import annotations

import typing as t
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from app import events as ev
from app.engine import retained
from app.engine.retained import Retained
from app.engine.run_log import RunLog
from tests.support.engine import Run, agent, services, start


class Time:
    """A clock that stands."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """Four runs that are over."""
    with services(tmp_path_factory.mktemp("retained")) as made:
        runs = [start(made, agent("scripted/echo"), {"message": "x" * 5_000})[0] for _ in range(4)]
        for run in runs:
            assert run.done.wait(20)
        assert [made.runs.ended(run.id) is not None for run in runs] == [True] * 4
        return runs


def kept(made: Retained, runs: list[Run]) -> list[bool]:
    return [made.get(run.id) is not None for run in runs]


def test_the_old_go(ended: list[Run]) -> None:
    time = Time()
    made = Retained(10.0, 10**9, now=time)
    for at, run in enumerate(ended):
        time.now = float(at)
        made.keep(run)
    time.now = 11.0
    assert kept(made, ended) == [False, False, True, True]
    time.now = 100.0
    made.sweep()
    assert (len(made), made.bytes) == (0, 0)


def test_bytes_are_bounded(ended: list[Run]) -> None:
    one = Retained(10.0, 10**9)
    one.keep(ended[0])
    assert one.bytes > 2 * 5_000  # its text, live and in its output
    made = Retained(10.0, int(one.bytes * 2.5))
    for run in ended:
        made.keep(run)
    assert kept(made, ended) == [False, False, True, True]
    assert made.bytes <= one.bytes * 2.5
    small = Retained(10.0, one.bytes // 2)
    small.keep(ended[0])
    assert kept(small, ended) == [False] * 4


def test_what_tools_gave_a_run_that_failed_counts_once(tmp_path: Path) -> None:
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    error = {"code": "provider_overloaded", "message": "Too busy."}
    turns = [{"steps": [{"tool_call": {"name": "big"}}]}, {"steps": [{"error": error}]}]
    (scripts / "failing.yaml").write_text(yaml.safe_dump({"turns": turns}))
    big = {"name": "big", "description": "Big.", "parameters": {"type": "object"}, "result": "x" * 200_000}
    with services(tmp_path, {"STUDIO_SCRIPTS_DIR": str(scripts)}) as made:
        run, _ = start(made, agent("scripted/failing", tools=[big], retries=0))
        assert run.done.wait(20)
    assert isinstance(run.ending, ev.RunFailed)
    kept = Retained(10.0, 10**9)
    kept.keep(run)
    assert 200_000 < kept.bytes < 250_000
    small = Retained(10.0, 150_000)
    small.keep(run)
    assert (len(small), small.bytes) == (0, 0)


def test_text_that_the_log_lost_counts_as_far_as_it_stands(ended: list[Run]) -> None:
    log = RunLog(max_count=1)
    events = [
        ev.RunStarted("run_1", "wf", [], []),
        ev.BlockStarted("a", "agent", "A"),
        ev.TextDelta("a", 0, "y" * 9_000, True),
        ev.TurnEnded("a", 0, "aborted"),
        ev.BlockFinished("a", "failed"),
        ev.RunCancelled("stop_requested", {}),
    ]
    for seq, event in enumerate(events, 1):
        log.append(ev.Envelope(seq, seq, event))
    run = t.cast("Run", SimpleNamespace(id="run_1", log=log, request=ended[0].request, is_recorded=True))
    made = Retained(10.0, 10**9)
    made.keep(run)
    assert 9_000 < made.bytes < 14_000


def test_the_count_is_bounded(ended: list[Run], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retained, "MAX_COUNT", 1)
    made = Retained(10.0, 10**9)
    for run in ended:
        made.keep(run)
    assert kept(made, ended) == [False, False, False, True]


def test_nothing_is_kept_of_what_it_was_given(ended: list[Run]) -> None:
    made = Retained(10.0, 10**9)
    made.keep(ended[0])
    found = made.get(ended[0].id)
    assert found is not None
    assert found.request.input is None
    assert found.log.last == len(found.log)


def test_none_are_kept_when_so_configured(ended: list[Run]) -> None:
    made = Retained(0.0, 10**9)
    made.keep(ended[0])
    assert len(made) == 0


def test_a_run_that_cannot_be_kept_ends_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Retained, run: Run) -> None:
        raise RuntimeError("no")

    monkeypatch.setattr(Retained, "keep", fail)
    with services(tmp_path) as made:
        run, _ = start(made, agent("scripted/echo"))
        assert run.done.wait(20)
