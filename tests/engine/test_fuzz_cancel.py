"""A run cancelled at every switch point, and twice more at random ones.

Whatever the point: one terminal event, last; every upstream connection closed; the store says what the
stream said; no greenlet of the run is left.
"""

from __future__ import annotations

import random
import typing as t
from collections.abc import Iterator
from pathlib import Path

import gevent
import pytest

from app import events as ev
from app.engine import settle
from app.engine.registry import Run
from app.engine.services import Services
from tests.engine.switches import cancelled_at
from tests.engine.upstream import Upstream, upstream
from tests.support.engine import Recorder, agent, services, start
from tests.support.servers import wait_until

CAUSES = ("stop_requested", "client_disconnected", "server_shutdown")
DOCUMENT = agent("openai-compatible/fuzzed", tools=["clock", "calculator"])


@pytest.fixture
def vendor() -> Iterator[Upstream]:
    with upstream() as made:
        yield made


@pytest.fixture
def made(tmp_path: Path, vendor: Upstream, monkeypatch: pytest.MonkeyPatch) -> Iterator[Services]:
    monkeypatch.setenv("STUDIO_OPENAI_COMPATIBLE_API_BASE", vendor.base)
    with services(tmp_path) as opened:
        yield opened


def run_cancelled_at(made: Services, points: t.Collection[int]) -> tuple[Run, Recorder, int]:
    """Run to the end, cancelling at the given switch points; also how many switches there were."""
    return cancelled_at(lambda: start(made, DOCUMENT), dict(zip(sorted(points), CAUSES, strict=False)))


def check(made: Services, vendor: Upstream, run: Run, recorder: Recorder) -> None:
    terminals = recorder.of(ev.Terminal)
    assert len(terminals) == 1
    assert recorder.envelopes[-1].event is terminals[0]
    assert [e.seq for e in recorder.envelopes] == list(range(1, len(recorder.envelopes) + 1))
    starts = [event.id for event in recorder.of(ev.ToolStarted)]
    assert sorted(starts) == sorted(event.id for event in recorder.of(ev.ToolFinished))
    status = settle.status_of(terminals[0])
    row = made.store.runs.get(run.id)
    assert row is not None
    assert row["status"] == status
    assert row["ended_at"] is not None
    assert all(block["status"] != "running" for block in row["blocks"])
    if status == "completed":
        assert row["output"]["content"] == "It is 42."
    assert not run.scope.greenlets
    assert run.scope.abandoned == 0
    assert len(made.runs) == 0
    wait_until(lambda: gevent.sleep(0.001) or vendor.open == 0, "every upstream connection is closed")


def test_a_run_that_is_not_cancelled(made: Services, vendor: Upstream) -> None:
    run, recorder, count = run_cancelled_at(made, ())
    check(made, vendor, run, recorder)
    assert isinstance(recorder.envelopes[-1].event, ev.RunCompleted)
    assert count > 20


def test_cancel_at_every_switch_point(made: Services, vendor: Upstream) -> None:
    run_cancelled_at(made, ())  # imports and caches warm, so that the switch points repeat
    _, _, count = run_cancelled_at(made, ())
    chance = random.Random(7)
    cancelled = 0
    for point in range(1, count + 1):
        more = {point, *(chance.randint(point, count) for _ in range(2))}
        run, recorder, _ = run_cancelled_at(made, more)
        check(made, vendor, run, recorder)
        cancelled += isinstance(recorder.envelopes[-1].event, ev.RunCancelled)
    assert cancelled > count // 3
