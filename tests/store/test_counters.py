"""Counters: no hit is lost, no two hits get the same count, and what is over begins again."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import gevent
import pytest
from hypothesis import given
from hypothesis import settings as how
from hypothesis import strategies as st
from sqlalchemy import func, select

from app.clock import SteppingClock
from app.store import Store, StoreFailed
from app.store import counters as module
from app.store.counters import Count
from app.store.deployment_tables import counters
from tests.store import other, rows

MINUTE = 60.0


def new_key() -> str:
    return f"test:{rows.new_id('x')}"


@pytest.fixture(scope="module")
def still(shared_settings):
    """A store whose time passes only when it is told to: ``clock.sleep``."""
    clock = SteppingClock(step_ms=0)
    with closing(Store(shared_settings, clock=clock)) as store:
        yield store, clock


def test_hits_are_counted_until_their_time_is_over(still):
    store, clock = still
    key, counters = new_key(), store.counters
    assert counters.read(key) == Count(0, 0)
    assert counters.hit(key, MINUTE) == Count(1, 60_000)
    clock.sleep(59.999)
    assert counters.hit(key, MINUTE, by=4) == Count(5, 1)
    assert counters.read(key) == Count(5, 1)
    clock.sleep(0.001)
    assert counters.read(key) == Count(0, 0), "not swept, and over anyway"
    assert counters.hit(key, MINUTE) == Count(1, 60_000), "the count begins again, and so does its time"


def test_a_cleared_count_begins_again(still):
    store, clock = still
    key = new_key()
    store.counters.hit(key, MINUTE, by=9)
    clock.sleep(30)
    store.counters.clear(key)
    store.counters.clear(new_key())
    assert store.counters.hit(key, MINUTE) == Count(1, 60_000)


def test_the_header_says_whole_seconds():
    assert [Count(3, ms).retry_after for ms in (1, 999, 1000, 1001, 60_000)] == [1, 1, 1, 2, 60]


@pytest.mark.parametrize("tail", ["x" * 3000, "\0\ud800", "ü" * 200])
def test_any_text_is_a_key(two, tail):
    store, elsewhere = two
    key = new_key() + tail
    assert store.counters.hit(key, MINUTE).value == 1
    assert store.counters.hit(key + "x", MINUTE).value == 1, "another key, however long"
    assert elsewhere.counters.hit(key, MINUTE).value == 2


_ACTS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b"]),
        st.sampled_from(["hit", "back", "read", "clear", "wait"]),
        st.integers(1, 3),
    ),
    max_size=30,
)


@how(max_examples=30)
@given(acts=_ACTS)
def test_it_counts_as_a_table_in_memory_would(still, acts):
    store, clock = still
    names = {name: new_key() for name in "ab"}
    model: dict[str, tuple[int, int]] = {}  # the count, and when it is over
    for name, act, number in acts:
        now = clock.now_ms()
        value, over = model.get(name, (0, 0))
        is_over = over <= now
        if is_over:
            value, over = 0, now + 10_000
        if act in ("hit", "back"):
            by = number if act == "hit" else -number
            model[name] = (max(0, value + by), over)
            assert store.counters.hit(names[name], 10, by=by) == Count(max(0, value + by), over - now)
        elif act == "read":
            assert store.counters.read(names[name]) == (Count(0, 0) if is_over else Count(value, over - now))
        elif act == "clear":
            store.counters.clear(names[name])
            model.pop(name, None)
        else:
            clock.sleep(number * 4)


def test_two_processes_with_many_greenlets_each_get_every_number_once(shared_settings, two):
    key = new_key()
    others = [other.start("hits", shared_settings, key, 20, 25) for _ in range(2)]
    for process in others:
        assert other.line(process) == "ready"
    for process in others:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    got = [int(word) for process in others for word in other.finish(process).split()]
    assert sorted(got) == list(range(1, 1001))
    assert two[0].counters.read(key).value == 1000


def test_what_is_over_when_several_come_is_begun_again_once(shared_settings, two):
    """All at once they meet a row that is over: one of them is the first, nobody gets a count of before."""
    key = new_key()
    past = SteppingClock(step_ms=0)  # years ago
    with closing(Store(shared_settings, clock=past)) as early:
        early.counters.hit(key, 1, by=500)
    jobs = [gevent.spawn(store.counters.hit, key, MINUTE) for store in two for _ in range(20)]
    gevent.joinall(jobs, raise_error=True)
    assert sorted(job.value.value for job in jobs) == list(range(1, 41))


def test_rows_that_are_over_are_swept_and_no_others(settings, open_store, monkeypatch):
    monkeypatch.setattr(module, "_SWEPT", 5)
    clock = SteppingClock(step_ms=0)
    store = open_store(settings, clock=clock)
    for n in range(12):
        store.counters.hit(f"old:{n}", 1)
    store.counters.hit("new", 10_000)
    clock.sleep(2)
    store.counters.hit("new", 10_000)
    count = store._backend.prepare(select(func.count()).select_from(counters))
    assert store._backend.rows(count, {}) == [(13,)], "not at every hit"
    clock.sleep(60)
    for _ in range(3):
        store.counters.hit("new", 10_000)
        store.keys.create("comes after the sweep", ["run"])
    assert store._backend.rows(count, {}) == [(1,)]
    assert store.counters.read("new").value == 5


def test_a_database_that_cannot_be_written_is_told(sqlite_settings, open_store):
    store = open_store(replace(sqlite_settings, store_wait_s=0.05))
    process = other.start("lock", sqlite_settings)
    assert other.line(process) == "locked"
    with pytest.raises(StoreFailed):
        store.counters.hit("any", MINUTE)
    other.finish(process)
    assert store.counters.hit("any", MINUTE).value == 1
