"""Lists are asked for a few at once, each bounded, and one server's silence is its own."""

from __future__ import annotations

import gevent
import pytest
from gevent.event import Event

from app.engine import model_lists
from providers.spec import Waits

pytestmark = pytest.mark.leak_check


def test_a_server_that_hangs_delays_no_other_and_is_left_in_time() -> None:
    done: list[str] = []
    never = Event()

    def hangs(waits: Waits) -> None:
        try:
            with waits.wait():
                never.wait()
        finally:
            done.append("left")

    def answers(waits: Waits) -> None:
        with waits.wait():
            gevent.sleep(0)
        done.append("answered")

    model_lists.run([answers] * 20 + [hangs] * 3, one_s=0.2)
    assert done == ["answered"] * 20 + ["left"] * 3


def test_a_round_ends_when_its_time_is_over() -> None:
    never, seen = Event(), []

    def hangs(waits: Waits) -> None:
        seen.append(waits)
        with waits.wait():
            never.wait()

    jobs = [hangs] * (model_lists.AT_ONCE + 5)
    model_lists.run(jobs, one_s=60, all_s=0.1)
    assert len(seen) == model_lists.AT_ONCE
    assert len(jobs) == 5


def test_a_job_that_breaks_a_promise_is_logged_and_ends_the_round(caplog: pytest.LogCaptureFixture) -> None:
    def breaks(waits: Waits) -> None:
        raise RuntimeError("boom")

    model_lists.run([breaks])
    assert "boom" in caplog.text
