"""Counters: no hit is lost, no two hits get the same count, and what is over begins again."""

from __future__ import annotations

import math
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
from app.web import limit_storage
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
        other.go_on(process)
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


# -- windows that slide ----------------------------------------------------------------------------


class _Windows:
    """What :meth:`Counters.slide` means, in the words of its description."""

    def __init__(self) -> None:
        self.began: int | None = None
        self.before = self.count = 0

    def at(self, now: int, period: int) -> tuple[int, int, int]:
        while self.began is not None and now >= self.began + period:
            self.began, self.before, self.count = self.began + period, self.count, 0
            if not self.before and not self.count:
                self.began = None
        left = period if self.began is None else self.began + period - now
        return self.before, self.count, left

    def hit(self, now: int, most: int, period: int) -> bool:
        before, count, left = self.at(now, period)
        if math.floor(before * (left - 1) / period) + count >= most:
            return False
        self.began = now if self.began is None else self.began
        self.count += 1
        return True


@how(max_examples=60)
@given(
    most=st.integers(1, 6),
    waits=st.lists(st.sampled_from([0, 0, 0, 1, 999, 1500, 4000, 9999, 20_000, 31_000])),
)
def test_a_window_that_slides_counts_by_its_description(still, most, waits):
    """In the database as in memory."""
    store, clock = still
    memory, key, model = limit_storage.Memory(), new_key(), _Windows()
    allowed: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limit_storage, "_now_ms", clock.now_ms)
        for wait in waits:
            clock.sleep(wait / 1000)
            now = clock.now_ms()
            expected = model.hit(now, most, 10_000)
            assert store.counters.slide(key, most, 10) is expected
            assert memory.acquire_sliding_window_entry(key, most, 10) is expected
            found = store.counters.window(key, 10)
            assert found == memory.read(key, 10)
            assert (found.previous, found.current, found.left_ms) == model.at(now, 10_000)
            if expected:
                allowed.append(now)
    for now in allowed:
        assert sum(1 for each in allowed if now <= each < now + 10_000) < 2 * most or most == 1
        assert sum(1 for each in allowed if each == now) <= most


@pytest.mark.parametrize("kind", ["take", "slide"])
def test_of_many_in_two_processes_exactly_so_many_can(shared_settings, two, kind):
    key = new_key()
    others = [other.start("places", shared_settings, key, 25, 40, kind) for _ in range(2)]
    for process in others:
        assert other.line(process) == "ready"
    for process in others:
        other.go_on(process)
    assert sum(int(other.finish(process)) for process in others) == 25
    if kind == "take":
        assert two[0].counters.taken(key, 25).value == 25
    else:
        assert two[0].counters.window(key, 3600).current == 25


# -- places ------------------------------------------------------------------------------------------


@how(max_examples=40)
@given(
    most=st.integers(1, 4),
    acts=st.lists(st.tuples(st.sampled_from(["take", "take", "back"]), st.integers(0, 12)), max_size=30),
)
def test_in_no_time_so_long_are_more_places_taken(still, most, acts):
    """And none is refused while fewer are."""
    store, clock = still
    key = new_key()
    held: dict[str, int] = {}  # when each place was taken
    for act, seconds in acts:
        clock.sleep(seconds)
        now = clock.now_ms()
        live = {place: at for place, at in held.items() if at > now - 10_000}
        if act == "take":
            place = store.counters.take(key, most, 10)
            assert (place is None) is (len(live) == most)
            if place is not None:
                assert place not in live
                held[place] = live[place] = now
        elif live:
            place = next(iter(live))
            store.counters.clear(place)
            del held[place], live[place]
        first = min(live.values(), default=now - 10_000)
        assert store.counters.taken(key, most) == Count(len(live), first + 10_000 - now)


@pytest.mark.parametrize("tail", ["x" * 3000, "\0\ud800", "%'"])
def test_places_have_keys_of_any_text(two, tail):
    store, elsewhere = two
    key = new_key() + tail
    place = store.counters.take(key, 2, MINUTE)
    assert place is not None
    assert elsewhere.counters.take(key, 2, MINUTE) not in (None, place)
    assert store.counters.take(key, 2, MINUTE) is None
    assert store.counters.take(key + "x", 2, MINUTE) is not None
    elsewhere.counters.clear(place)
    assert store.counters.take(key, 2, MINUTE) == place


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
