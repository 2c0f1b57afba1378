"""Slots for model calls: never more than there are, fair between runs, and none is ever lost."""

from __future__ import annotations

import random
import typing as t
from collections.abc import Iterator
from pathlib import Path

import gevent
import pytest

from app import events as ev
from app.clock import SteppingClock, SystemClock
from app.engine.limits import Limits, QueueTime
from app.engine.scope import Cancelled, RunScope
from app.engine.services import Services
from tests.field.rig import until
from tests.support.engine import Recorder, agent, services, start
from tests.support.vendor import Call, Vendor
from tests.support.vendor import vendor as one_vendor

pytestmark = pytest.mark.leak_check
MODEL = "openai-compatible/one"


@pytest.fixture
def vendor() -> Iterator[Vendor]:
    with one_vendor() as made:
        yield made
        assert made.calls.empty(), "a request came that the test did not expect"


@pytest.fixture
def made(tmp_path: Path, vendor: Vendor, monkeypatch: pytest.MonkeyPatch) -> Iterator[Services]:
    monkeypatch.setenv("STUDIO_OPENAI_COMPATIBLE_API_BASE", vendor.base)
    monkeypatch.setenv("STUDIO_OPENAI_COMPATIBLE_MAX_CONCURRENCY", "1")
    with services(tmp_path) as opened:
        yield opened


def line(made: Services) -> t.Any:
    return made.limits.line("openai-compatible", 1)


def waits(made: Services, count: int) -> None:
    until(lambda: len(line(made)) == count, f"{count} calls wait")


def finish(call: Call, text: str = "done") -> None:
    call.text(text)
    call.finish()


def parallel(count: int, name: str) -> dict[str, t.Any]:
    """A start and ``count`` agents after it, whose prompts say ``<name><number>``."""
    agents = [
        {"id": f"a{n}", "type": "agent", "config": {"model": MODEL, "prompt": f"{name}{n}"}}
        for n in range(count)
    ]
    edges = [{"source": "start", "target": block["id"]} for block in agents]
    return {"name": name, "blocks": [{"id": "start", "type": "start"}, *agents], "edges": edges}


def asked(call: Call) -> str:
    return str(call.body["messages"][-1]["content"])


# -- runs ---------------------------------------------------------------------------------------


class Watch(SystemClock):
    """A clock that can be put forward.

    :ivar ahead_ms: by how much.
    """

    ahead_ms = 0

    def now_ms(self) -> int:
        """See ``app.clock.Clock``."""
        return super().now_ms() + self.ahead_ms


def test_the_second_call_waits_for_the_first_and_the_wait_is_told(made: Services, vendor: Vendor) -> None:
    watch = made.clock = Watch()
    first, _ = start(made, agent(MODEL))
    call = vendor.next_call()
    second, recorder = start(made, agent(MODEL))
    waits(made, 1)
    watch.ahead_ms = 60_000
    assert vendor.calls.empty()
    finish(call)
    finish(vendor.next_call())
    assert first.done.wait(10)
    assert second.done.wait(10)
    end = recorder.envelopes[-1].event
    assert isinstance(end, ev.RunCompleted)
    usage = end.usage
    assert usage["queuedMs"] >= 60_000
    assert usage["durationMs"] == usage["activeMs"] + usage["queuedMs"]
    timing = end.output["providerTiming"]
    assert timing["modelTime"] <= timing["duration"] - usage["queuedMs"]
    row = made.store.runs.get(second.id)
    assert row is not None
    assert row["queued_ms"] == usage["queuedMs"]
    assert line(made).active == 0


def test_a_run_with_many_agents_does_not_keep_others_waiting(made: Services, vendor: Vendor) -> None:
    many, _ = start(made, parallel(4, "many"))
    call = vendor.next_call()
    waits(made, 3)
    one, _ = start(made, agent(MODEL, prompt="one"))
    waits(made, 4)
    order = []
    for _ in range(4):
        finish(call)
        call = vendor.next_call()
        order.append(asked(call))
    finish(call)
    assert many.done.wait(10)
    assert one.done.wait(10)
    assert order.index("one") == 1  # after the one that stood in line before it came


def test_a_run_that_is_stopped_while_it_waits_leaves_at_once(made: Services, vendor: Vendor) -> None:
    first, _ = start(made, agent(MODEL))
    call = vendor.next_call()
    second, recorder = start(made, agent(MODEL))
    third, _ = start(made, agent(MODEL))
    waits(made, 2)
    second.cancel("stop_requested")
    assert second.done.wait(10)
    assert isinstance(recorder.envelopes[-1].event, ev.RunCancelled)
    assert len(line(made)) == 1
    finish(call)
    finish(vendor.next_call())
    assert first.done.wait(10)
    assert third.done.wait(10)


@pytest.mark.parametrize("ending", ["fails", "is cut", "is stopped", "times out", "goes silent"])
def test_the_slot_is_free_however_a_call_ends(made: Services, vendor: Vendor, ending: str) -> None:
    settings = {"retries": 0, "idle_s": 0.5} if ending == "goes silent" else {"retries": 0}
    run, _ = start(made, agent(MODEL, **settings), timeout_s=20)
    call = vendor.next_call()
    if ending == "fails":
        call.answer(500)
    elif ending == "is cut":
        call.text("Hel")
        call.cut()
    elif ending == "is stopped":
        run.cancel("stop_requested")
    elif ending == "times out":
        run.scope.deadline(0.01, "execution_timeout")
    assert run.done.wait(10)
    assert line(made).active == 0
    after, _ = start(made, agent(MODEL))
    finish(vendor.next_call())
    assert after.done.wait(10)


def test_a_call_that_will_be_repeated_waits_without_its_slot(made: Services, vendor: Vendor) -> None:
    first, _ = start(made, agent(MODEL))
    vendor.next_call().answer(429, retry_after="0.2")
    second, _ = start(made, agent(MODEL, prompt="meanwhile"))
    call = vendor.next_call()
    assert asked(call) == "meanwhile"
    finish(call)
    finish(vendor.next_call())
    assert first.done.wait(10)
    assert second.done.wait(10)


def test_the_variable_lifts_and_changes_the_limit(
    made: Services, vendor: Vendor, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[tuple[t.Any, Recorder]] = [start(made, agent(MODEL)) for _ in range(2)]
    calls = [vendor.next_call()]
    waits(made, 1)
    monkeypatch.setenv("STUDIO_OPENAI_COMPATIBLE_MAX_CONCURRENCY", "3")
    runs.append(start(made, agent(MODEL)))
    calls += [vendor.next_call(), vendor.next_call()]
    monkeypatch.setenv("STUDIO_OPENAI_COMPATIBLE_MAX_CONCURRENCY", "0")
    runs.append(start(made, agent(MODEL)))
    calls.append(vendor.next_call())
    for call in calls:
        finish(call)
    assert all(run.done.wait(10) for run, _ in runs)


# -- the line by itself -------------------------------------------------------------------------


def test_whatever_is_cancelled_whenever_no_slot_is_lost_or_given_twice() -> None:
    chance = random.Random(11)
    limits, most, active = Limits(), 3, 0
    time = QueueTime(SteppingClock().now_ms)
    scopes = [RunScope() for _ in range(60)]
    served: list[int] = []

    def work(number: int) -> None:
        nonlocal active
        scope = scopes[number]
        with limits.slot("f", most, f"run{number % 7}", scope, SteppingClock().now_ms, time):
            active += 1
            assert active <= most
            try:
                for _ in range(chance.randint(1, 4)):
                    with scope.wait():
                        gevent.sleep(0)
                served.append(number)
            finally:
                active -= 1

    def run(number: int) -> None:
        try:
            work(number)
        except Cancelled:
            pass

    greenlets = [gevent.spawn(run, number) for number in range(len(scopes))]
    for _ in range(40):
        gevent.sleep(0)
        chance.choice(scopes).cancel("stop_requested")
    gevent.joinall(greenlets, timeout=10, raise_error=True)
    assert all(greenlet.ready() for greenlet in greenlets)
    made = limits.line("f", most)
    assert (made.active, len(made), active) == (0, 0, 0)
    assert len(served) >= sum(scope.cause is None for scope in scopes)


def test_within_a_run_it_is_first_come_first_served_and_runs_take_turns() -> None:
    limits, order = Limits(), []
    time = QueueTime(SteppingClock().now_ms)
    scope = RunScope()

    def work(run: str, number: int) -> None:
        with limits.slot("f", 1, run, scope, SteppingClock().now_ms, time):
            order.append(f"{run}{number}")
            with scope.wait():
                gevent.sleep(0)

    jobs = [("a", n) for n in range(5)] + [("b", n) for n in range(2)] + [("c", 0)]
    greenlets = [gevent.spawn(work, *job) for job in jobs]
    gevent.joinall(greenlets, timeout=10, raise_error=True)
    assert order == ["a0", "a1", "b0", "c0", "a2", "b1", "a3", "a4"]


def test_a_run_is_queued_only_while_nothing_else_of_it_goes_on() -> None:
    now = 0
    time = QueueTime(lambda: now)
    time.block(1)
    time.block(1)
    time.line(1)
    now = 100
    assert time.total_ms(now) == 0  # the other block works
    time.line(1)
    now = 150
    assert time.total_ms(now) == 50
    time.line(-1)
    now = 200
    assert time.total_ms(now) == 50
    time.block(-1)  # that one is done: the run waits again
    now = 230
    assert time.total_ms(now) == 80
    time.line(-1)
    now = 300
    assert time.total_ms(now) == 80
