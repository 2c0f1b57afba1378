"""Random workflows that are stopped at a random moment: what began has ended, and nothing begins any more."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator

import gevent
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app import events as ev
from tests.engine.random_runs import MANY, Rig, faults, rig, told
from tests.engine.random_workflows import TYPES, Workflow, workflows

PARTS, EXAMPLES = 2, 200
#: What only something that goes on would tell. What is under way may still tell of its end.
BEGINS = (ev.BlockStarted, ev.ChildStarted, ev.ToolExecuting, ev.ToolStarted, ev.TextDelta)

#: Making a failing example small takes longer than any test that passes.
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with rig(tmp_path_factory.mktemp("stops")) as opened:
        yield opened


def _begins(event: ev.RunEvent) -> bool:
    return isinstance(event, BEGINS) or (isinstance(event, ev.LoopIteration) and event.path == "loop")


class Stop:
    """A reader that stops its run at the n-th envelope."""

    def __init__(self, at: int, stop: t.Callable[[], bool]) -> None:
        self.left = at
        self.stopped = False
        self._stop = stop

    def deliver(self, envelope: ev.Envelope) -> None:
        """See ``app.engine.emitter.Subscriber``."""
        self.left -= 1
        if self.left == 0:
            self.stopped = self._stop()

    def flush(self) -> None:
        """Nothing to send."""


@pytest.mark.parametrize("part", range(PARTS))
def test_random_workflows_stopped_at_a_random_moment(made: Rig, part: int) -> None:
    @settings(MANY, max_examples=EXAMPLES)
    @given(workflows(TYPES, stalls=True), st.booleans(), st.integers(1, 60))
    def check(drawn: Workflow, within: bool, moment: int) -> None:
        run, recorder = made.start(drawn)
        told_before = 0
        stop = Stop(moment, lambda: run.cancel("stop_requested"))
        if within:  # while an event is told, before whatever told it goes on
            run.attach(stop)
        else:  # when everything that can go on has gone on so often
            for _ in range(moment):
                gevent.sleep(0)
            stop.stopped, told_before = run.cancel("stop_requested"), len(recorder.envelopes)
        if within and not run.done.wait(0.2):  # it stalls before the moment
            stop.stopped, told_before = run.cancel("stop_requested"), len(recorder.envelopes)
        assert run.done.wait(30)
        found = faults(made, drawn, run, recorder)
        if stop.stopped:
            after = recorder.envelopes[moment if within and stop.left <= 0 else told_before :]
            found += [f"{e.event} after the stop" for e in after if _begins(e.event)]
            end = recorder.envelopes[-1].event
            found += [] if isinstance(end, ev.RunCancelled) else [f"stopped, and ended as {end}"]
        assert not found, told(drawn, found)

    check()
