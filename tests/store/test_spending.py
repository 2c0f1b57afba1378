"""Spending: runs of many processes add to one total, and each learns what all have used together."""

from __future__ import annotations

import math
import typing as t

import gevent
from hypothesis import given
from hypothesis import settings as how
from hypothesis import strategies as st
from sqlalchemy import func, select

from app.clock import SteppingClock
from app.store.deployment_tables import spending
from app.store.spending import Holding, Spent
from tests.store import other, rows

DAY = "2026-11-30"


def subject() -> str:
    return f"chat:{rows.new_id('x')}"


def test_each_addition_gives_the_total_back(two):
    store, elsewhere = two
    mine, theirs = subject(), subject()
    assert store.spending.read(mine, DAY) == Spent(0, 0.0)
    assert store.spending.add(mine, DAY, 120, 0.5).wait() == Spent(120, 0.5)
    assert elsewhere.spending.add(mine, DAY, 30, 0.25).wait() == Spent(150, 0.75)
    assert store.spending.add(mine, "2026-11", 7, 0.0).wait() == Spent(7, 0.0), "another period"
    assert store.spending.add(theirs, DAY, 1, 0.0).wait() == Spent(1, 0.0), "somebody else"
    assert elsewhere.spending.read(mine, DAY) == Spent(150, 0.75)


def test_two_processes_with_many_greenlets_lose_nothing(shared_settings, two):
    """Every total between is somebody's: each addition of 3 was told by how much it had made the total."""
    mine = subject()
    others = [other.start("spend", shared_settings, mine, DAY, 10, 20) for _ in range(2)]
    for process in others:
        assert other.line(process) == "ready"
    for process in others:
        other.go_on(process)
    got = [int(word) for process in others for word in other.finish(process).split()]
    assert sorted(got) == list(range(3, 1201, 3))
    assert two[0].spending.read(mine, DAY) == Spent(1200, 400 * 0.25)


_USED = st.lists(st.tuples(st.integers(0, 10**9), st.floats(0, 1e4, allow_nan=False)), max_size=12)


@how(max_examples=20)
@given(used=_USED)
def test_totals_are_sums_and_only_grow(two, used):
    mine = subject()
    jobs = [
        gevent.spawn(two[place % 2].spending.add(mine, DAY, *each).wait) for place, each in enumerate(used)
    ]
    gevent.joinall(jobs, raise_error=True)
    totals = [job.value for job in jobs]
    found = two[0].spending.read(mine, DAY)
    assert found.tokens == sum(tokens for tokens, _ in used) == max((t.tokens for t in totals), default=0)
    assert math.isclose(found.cost, math.fsum(cost for _, cost in used), abs_tol=1e-9)


def always(*_: object) -> bool:
    return True


def test_what_is_set_aside_is_seen_by_all_until_it_is_given_back(two):
    store, elsewhere = two
    mine = subject()
    store.spending.add(mine, DAY, 5, 0.25).wait()
    held = store.spending.hold(mine, DAY, "call_1", Spent(100, 0.5), always).wait()
    assert held == Holding(Spent(5, 0.25), Spent(0, 0.0), True)
    seen: list[tuple[Spent, Spent, int]] = []

    def never(*found: t.Any) -> bool:
        seen.append(found)
        return False

    refused = elsewhere.spending.hold(mine, DAY, "call_2", Spent(1, 0.0), never).wait()
    assert refused == Holding(Spent(5, 0.25), Spent(100, 0.5), False)
    assert seen[-1] == (Spent(5, 0.25), Spent(100, 0.5), 1)
    assert elsewhere.spending.read(mine, DAY) == Spent(5, 0.25), "nothing of it is used"
    store.spending.release(mine, "call_1")
    store.spending.add(mine, DAY, 0, 0.0).wait()  # in order: the release was before it
    assert elsewhere.spending.hold(mine, DAY, "call_3", Spent(1, 0.0), never).wait().others == Spent(0, 0.0)


def test_many_in_two_processes_never_hold_more_than_there_is(shared_settings, two):
    mine = subject()
    two[0].spending.add(mine, "day", 50, 0.0).wait()
    others = [other.start("places", shared_settings, mine, 25, 40, "hold") for _ in range(2)]
    for process in others:
        assert other.line(process) == "ready"
    for process in others:
        other.go_on(process)
    assert sum(int(other.finish(process)) for process in others) == 20
    assert two[0].spending.hold(mine, "day", "last", Spent(1, 0.0), always).wait().others == Spent(200, 10.0)


def test_what_a_process_held_that_died_is_free_after_a_while(settings, open_store):
    clock = SteppingClock(step_ms=0)
    store = open_store(settings, clock=clock)
    store.spending.hold("key:a", DAY, "call_1", Spent(100, 0.5), always).wait()
    clock.sleep(15 * 60 - 1)
    assert store.spending.hold("key:a", DAY, "call_2", Spent(7, 0.5), always).wait().others.tokens == 100
    clock.sleep(1)
    assert store.spending.hold("key:a", DAY, "call_3", Spent(7, 0.5), always).wait().others.tokens == 7
    sql = select(func.count()).select_from(spending).where(spending.c.subject == "held key:a")
    assert store._backend.rows(store._backend.prepare(sql), {}) == [(2,)], "and its row is gone"


def test_what_a_process_held_that_was_killed_is_free_for_who_waits_for_it(shared_settings, two):
    mine, (store, elsewhere) = subject(), two
    killed = other.start("holding", shared_settings, mine, DAY, "100")
    assert other.line(killed) == "held"
    elsewhere.spending.hold(mine, DAY, "call_2", Spent(7, 0.5), always).wait()

    def never(*_: t.Any) -> bool:
        return False

    def held() -> Spent:
        found: Holding = store.spending.hold(mine, DAY, "call_1", Spent(1, 0.0), never).wait()
        return found.others

    assert held().tokens == 107
    assert store.spending.give_up(0.0) == 0, "both live"
    assert held().tokens == 107
    killed.kill()
    killed.wait()
    assert elsewhere.spending.give_up(0.0) == 0, "nobody has waited there"
    assert store.spending.give_up(0.0) == 1
    assert held() == Spent(7, 0.5)
    assert store.spending.give_up(0.0) == 0


def test_totals_of_more_than_a_year_ago_are_forgotten(settings, open_store):
    clock = SteppingClock(step_ms=0)
    store = open_store(settings, clock=clock)
    day = 86_400
    store.spending.add("chat:a", "old", 5, 0.0).wait()
    clock.sleep(200 * day)
    store.spending.add("chat:a", "late", 5, 0.0).wait()
    clock.sleep(201 * day)
    store.spending.add("chat:a", "now", 5, 0.0).wait()
    store.keys.create("comes after the sweep", ["run"])
    kept = [period for period in ("old", "late", "now") if store.spending.read("chat:a", period).tokens]
    assert kept == ["late", "now"]
