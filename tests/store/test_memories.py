"""What agents remember of a thread: order, bounds, whose it is, what is forgotten."""

from __future__ import annotations

import pytest

from app.clock import SteppingClock
from app.store.errors import StoreFailed
from app.store.memories import PAGE_BYTES
from plugins.spec.memory import Exchange

ALL = (1_000, 1_000_000)


@pytest.fixture
def store(settings, open_store):
    return open_store(settings, clock=SteppingClock())


@pytest.fixture
def thread(store):
    return store.threads.open("wf_1", "key_1", "run_1").id


def keep(store, thread, asked, answer, key="agent_1", run="run_1"):
    store.memories.append(thread, key, "agent_1", run, asked, answer).wait()


def test_exchanges_come_back_in_their_order(store, thread):
    for number in range(3):
        keep(store, thread, f"q{number}", f"a{number}")
    keep(store, thread, "stopped", None)
    assert store.memories.read(thread, "agent_1", *ALL) == [
        Exchange("q0", "a0"),
        Exchange("q1", "a1"),
        Exchange("q2", "a2"),
        Exchange("stopped", None),
    ]
    assert store.memories.read(thread, "agent_1", 2, 1_000_000) == [
        Exchange("q2", "a2"),
        Exchange("stopped", None),
    ]


def test_memories_are_kept_apart_by_thread_and_key(store, thread):
    other = store.threads.open("wf_1", "key_1", "run_2").id
    keep(store, thread, "q", "a")
    keep(store, thread, "q2", "a2", key="shared")
    keep(store, other, "q3", "a3")
    assert store.memories.read(thread, "agent_1", *ALL) == [("q", "a")]
    assert store.memories.read(thread, "shared", *ALL) == [("q2", "a2")]
    assert store.memories.read(other, "agent_1", *ALL) == [("q3", "a3")]
    assert store.memories.read(other, "shared", *ALL) == []


def test_a_read_stops_at_its_bytes_from_the_newest_on(store, thread):
    keep(store, thread, "small", "small")
    keep(store, thread, "ü" * 50, "x" * 100)  # 200 bytes
    keep(store, thread, "q", "a" * 9)  # 10 bytes
    read = store.memories.read
    assert len(read(thread, "agent_1", 10, 220)) == 3
    assert len(read(thread, "agent_1", 10, 219)) == 2
    assert len(read(thread, "agent_1", 10, 210)) == 2
    assert read(thread, "agent_1", 10, 209) == [("q", "a" * 9)]
    assert read(thread, "agent_1", 10, 9) == []


def test_what_no_database_takes_is_kept_without_it(store, thread):
    keep(store, thread, "nul \0 and \ud800 half", "a\0", key="k\0")
    assert store.memories.read(thread, "k\0", *ALL) == [("nul � and � half", "a�")]


def test_a_page_shows_the_newest_first_over_all_keys(store, thread):
    for number in range(5):
        keep(store, thread, f"q{number}", f"a{number}", key="even" if number % 2 == 0 else "odd")
    rows, after = store.memories.page(thread, None, 2)
    assert [(row.position, row.asked, row.key) for row in rows] == [(4, "q4", "even"), (3, "q3", "odd")]
    rows, after = store.memories.page(thread, after, 3)
    assert [row.asked for row in rows] == ["q2", "q1", "q0"]
    assert after is None
    rows, after = store.memories.page(thread, None, 1, "odd")
    assert [row.answer for row in rows] == ["a3"]
    assert [row.answer for row in store.memories.page(thread, after, 1, "odd")[0]] == ["a1"]


def test_a_page_ends_at_its_bytes_and_shows_one_exchange_whatever_its_size(store, thread):
    huge, half = "x" * (PAGE_BYTES + 1), "y" * (PAGE_BYTES // 2)
    for asked in ("q0", half, half, "q3", huge, "q5"):
        keep(store, thread, asked, "", key="k")
    pages, before = [], None
    while not pages or before is not None:
        rows, before = store.memories.page(thread, before, 4, "k" if len(pages) % 2 else None)
        pages.append([row.position for row in rows])
    assert pages == [[5, 4], [3, 2, 1], [0]]
    assert store.memories.page(thread, 5, 10)[0][0].asked == huge


def test_what_is_forgotten_is_gone_and_what_follows_is_kept(store, thread):
    keep(store, thread, "q0", "a0")
    keep(store, thread, "q1", "a1", key="other")
    assert store.memories.forget(thread, "other") == 1
    assert store.memories.forget(thread) == 1
    assert store.memories.forget(thread) == 0
    keep(store, thread, "q2", "a2")
    assert store.memories.read(thread, "agent_1", *ALL) == [("q2", "a2")]


def test_two_processes_that_append_lose_nothing(settings, open_store):
    stores = [open_store(settings) for _ in range(2)]
    thread = stores[0].threads.open("wf_1", "key_1", "run_1").id
    tickets = [
        stores[number % 2].memories.append(thread, "k", "agent_1", f"run_{number}", f"q{number}", "a")
        for number in range(40)
    ]
    for ticket in tickets:
        ticket.wait()
    found = stores[0].memories.read(thread, "k", *ALL)
    assert sorted(exchange.asked for exchange in found) == sorted(f"q{number}" for number in range(40))


def test_a_thread_that_is_not_there_remembers_nothing(store):
    with pytest.raises(StoreFailed):
        store.memories.append("thr_unknown", "k", "agent_1", "run_1", "q", "a").wait()
    assert store.memories.read("thr_unknown", "k", *ALL) == []
