"""Guarded waits: who is thrown into, when, how often."""

from __future__ import annotations

import socket
import typing as t

import gevent
import pytest
from gevent.event import Event
from gevent.monkey import get_original

from app.engine.gate import FlowGate
from app.engine.giving_way import give_way, giving_way
from app.engine.scope import Cancelled, RunScope, gather
from app.engine.threads import ToolThreads
from providers.spec import ProviderError

pytestmark = pytest.mark.leak_check


def wait_forever(scope: RunScope, seen: list[str]) -> None:
    try:
        with scope.wait():
            Event().wait()
    except Cancelled as cancelled:
        seen.append(cancelled.cause)
        raise


def test_cancel_reaches_a_waiting_greenlet_and_the_first_cause_wins() -> None:
    scope, seen = RunScope(), t.cast(list[str], [])
    scope.spawn(wait_forever, scope, seen)
    gevent.sleep(0)
    scope.cancel("stop_requested")
    scope.cancel("execution_timeout")
    scope.join()
    assert seen == ["stop_requested"]
    assert scope.error is None


def test_cancel_outside_a_wait_is_seen_at_the_next_one() -> None:
    scope, cleaned = RunScope(), []

    def work() -> None:
        gevent.sleep(0)  # a switch point outside any wait, like a store write
        cleaned.append("wrote")
        with scope.wait():
            cleaned.append("never")

    scope.spawn(work)
    gevent.sleep(0)
    scope.cancel("stop_requested")
    scope.join()
    assert cleaned == ["wrote"]


def test_clean_up_runs_unthrown_after_several_cancels() -> None:
    scope, steps = RunScope(), []

    def work() -> None:
        try:
            with scope.wait():
                Event().wait()
        finally:
            for n in range(5):
                gevent.sleep(0)
                steps.append(n)

    scope.spawn(work)
    gevent.sleep(0)
    for cause in ("a", "b", "c"):
        scope.cancel(cause)
        gevent.sleep(0)
    scope.join()
    assert steps == [0, 1, 2, 3, 4]


def test_a_child_is_cancelled_with_its_parent_but_not_the_other_way() -> None:
    outer = RunScope()
    with outer.child() as inner:
        inner.cancel("tool_timeout")
        assert outer.cause is None
    with outer.child() as inner:
        outer.cancel("stop_requested")
        assert inner.cause == "stop_requested"
    with pytest.raises(Cancelled):
        outer.child()


def test_a_greenlet_cancelled_before_it_starts_still_runs_its_body_to_the_first_wait() -> None:
    scope, steps = RunScope(), []

    def work() -> None:
        try:
            with scope.wait():
                steps.append("never")
        finally:
            steps.append("cleaned")

    scope.spawn(work)
    scope.cancel("client_disconnected")
    scope.join()
    assert steps == ["cleaned"]


def test_an_uncaught_error_is_kept_and_cancels_the_siblings() -> None:
    scope, seen = RunScope(), t.cast(list[str], [])

    def fail() -> None:
        raise ValueError("no")

    scope.spawn(wait_forever, scope, seen)
    scope.spawn(fail)
    scope.join()
    assert isinstance(scope.error, ValueError)
    assert seen == ["block_failed"]


def test_a_deadline_cancels_and_a_closed_scope_has_none() -> None:
    scope, seen = RunScope(), t.cast(list[str], [])
    scope.deadline(0.01, "execution_timeout")
    scope.spawn(wait_forever, scope, seen)
    scope.join()
    assert seen == ["execution_timeout"]
    with RunScope() as other:
        other.deadline(0.01, "execution_timeout")
    gevent.sleep(0.03)
    assert other.cause is None


def test_the_idle_limit_ends_a_silent_wait_only() -> None:
    scope = RunScope()
    with pytest.raises(ProviderError) as caught, scope.idle_limit(0.02), scope.wait():
        Event().wait()
    assert caught.value.code == "provider_idle"
    with scope.wait():  # the scope itself is not cancelled
        pass


def test_what_was_cancelled_is_not_called_idle_afterwards() -> None:
    scope = RunScope()
    with scope.idle_limit(0.02):
        scope.cancel("stop_requested")
        gevent.sleep(0.1)  # no wait, so the idle limit passes before the cancellation is seen
        with pytest.raises(Cancelled), scope.wait():
            pass


def test_progress_restarts_the_idle_limit() -> None:
    scope = RunScope()
    with scope.idle_limit(1):
        for _ in range(6):  # 1.2 s in all
            with scope.wait():
                gevent.sleep(0.2)
            scope.progress()


def test_gated_time_is_not_idle_time() -> None:
    gate = FlowGate()
    scope = RunScope(gate=gate)
    gate.shut()
    gevent.spawn_later(0.1, gate.open)
    with scope.idle_limit(0.02):
        scope.gate()
        scope.progress()


def test_a_gated_run_can_be_cancelled() -> None:
    gate = FlowGate()
    scope = RunScope(gate=gate)
    gate.shut()
    gevent.spawn_later(0.01, scope.cancel, "client_disconnected")
    with pytest.raises(Cancelled):
        scope.gate()
    gate.open()


def test_gather_ends_after_its_last_job_and_raises_the_first_error() -> None:
    scope, ended = RunScope(), []

    def slow(inner: t.Any) -> None:
        try:
            with inner.wait():
                Event().wait()
        finally:
            gevent.sleep(0)
            ended.append("slow")

    def fail(inner: t.Any) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        gather(scope, [slow, fail])
    assert ended == ["slow"]
    assert scope.cause is None


def test_a_thread_tool_that_is_cancelled_is_left_at_once() -> None:
    # An event of the interpreter's own: the patched one waits on a hub, which such a thread has not.
    hold, scope, threads = get_original("threading", "Lock")(), RunScope(), ToolThreads(1)
    hold.acquire()
    ended: list[str] = []

    def caller() -> None:
        try:
            threads.run(hold.acquire, scope)
        except Cancelled:
            ended.append("cancelled")

    scope.spawn(caller)
    gevent.sleep(0.02)
    scope.cancel("stop_requested")
    scope.join()
    assert ended == ["cancelled"]
    hold.release()
    threads.close()


def test_giving_way_lets_those_go_on_who_wait_for_a_socket() -> None:
    here, there = socket.socketpair()
    with here, there:
        heard: list[bytes] = []
        reader = gevent.spawn(lambda: heard.append(there.recv(1)))
        gevent.sleep(0)  # it begins to wait
        here.send(b"x")
        for _ in range(5):  # with gevent.sleep(0) it takes fifty turns
            give_way()
        assert heard == [b"x"]
        reader.join()


def test_long_work_gives_way_when_it_has_gone_on_for_long_enough() -> None:
    times = iter([0.0, 0.004, 0.006, 0.010, 0.0101, 0.016, 0.017])
    given: list[str] = []
    step = giving_way(lambda: next(times), lambda: given.append("way"))
    counts = []
    for _ in range(4):
        step()
        counts.append(len(given))
    assert counts == [0, 1, 1, 2]  # at 6 ms, and 6 ms after it went on at 10 ms
