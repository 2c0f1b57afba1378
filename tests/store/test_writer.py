"""The writer: durable, batched, never on the hub, never hanging."""

from __future__ import annotations

import logging
from dataclasses import replace

import gevent
import pytest

from app.store import Store, StoreFailed
from app.store.inline import MOST_BYTES
from tests.store import other, rows


def test_the_hub_goes_on_while_another_process_holds_the_lock(sqlite_settings, open_store):
    store = open_store(replace(sqlite_settings, store_wait_s=60.0))
    holder = other.start("lock", sqlite_settings)
    assert other.line(holder) == "locked"
    store.runs.started(rows.started("run_1"))
    ticket = store.runs.finished(rows.ended("run_1"), [rows.block("a")])
    for _ in range(200):
        assert store.generation() == 1, "readers wait for nobody"
        assert store.runs.get("run_1") is None
        gevent.sleep(0.001)
    assert not ticket.done
    other.finish(holder)
    ticket.wait()
    run = store.runs.get("run_1")
    assert run is not None
    assert run["status"] == "completed"


def test_a_lock_that_stays_is_an_error_and_not_a_hang(sqlite_settings, open_store, caplog):
    store = open_store(replace(sqlite_settings, store_wait_s=0.1))
    holder = other.start("lock", sqlite_settings)
    assert other.line(holder) == "locked"
    store.runs.started(rows.started("run_1"))
    first = store.runs.finished(rows.ended("run_1"), [])
    second = store.runs.finished(rows.ended("run_1"), [])
    for ticket in (first, second):
        with pytest.raises(StoreFailed, match="another process kept the database locked") as caught:
            ticket.wait()
        assert caught.value.code == "store_failed"
    other.finish(holder)
    # Nothing of the start was kept, so the end stores the whole run.
    store.runs.finished(rows.ended("run_1"), [rows.block("a")]).wait()
    run = store.runs.get("run_1")
    assert run is not None
    assert (run["conversation_id"], len(run["blocks"])) == ("c-1", 1)
    assert "could not store the start of run run_1" in caplog.text


def test_one_bad_row_loses_only_itself(sqlite_settings, open_store, caplog):
    store = open_store(replace(sqlite_settings, store_wait_s=60.0))
    holder = other.start("lock", sqlite_settings)
    assert other.line(holder) == "locked"
    with caplog.at_level(logging.ERROR):
        for name in ("run_1", "run_2"):  # the lock makes one batch of all of them
            store.runs.started(rows.started(name))
        store.runs.started(rows.started("run_1", workflow_id="twice"))
        good = store.runs.finished(rows.ended("run_1"), [])
        bad = store.runs.finished(rows.ended("run_2"), [rows.block("a", status=None)])
        other.finish(holder)
        good.wait()
        with pytest.raises(StoreFailed):
            bad.wait()
    assert store.runs.get("run_1")["workflow_id"] == "wf_1"
    assert store.runs.get("run_2")["status"] == "running"
    assert "could not store the start of run run_1" in caplog.text


def test_many_greenlets_wait_for_one_ticket(store):
    store.runs.started(rows.started("run_1"))
    ticket = store.runs.finished(rows.ended("run_1"), [])
    waiting = [gevent.spawn(ticket.wait) for _ in range(5)]
    gevent.joinall(waiting, raise_error=True)
    assert ticket.done
    ticket.wait()


def test_a_bounded_wait_ends(sqlite_settings, open_store):
    store = open_store(replace(sqlite_settings, store_wait_s=60.0))
    holder = other.start("lock", sqlite_settings)
    assert other.line(holder) == "locked"
    ticket = store.runs.finished(rows.ended("run_1"), [])
    with pytest.raises(StoreFailed, match="in time"):
        ticket.wait(timeout=0.01)
    other.finish(holder)
    ticket.wait()


@pytest.mark.leak_check
def test_close_writes_what_is_queued(settings, open_store):
    store = open_store(settings)
    for number in range(1500):
        store.runs.started(rows.started(f"run_{number}"))
    store.close()
    store.close()
    with pytest.raises(StoreFailed, match="closed"):
        store.runs.started(rows.started("late"))
    again = Store(settings)
    assert again.runs.get("run_1499") is not None
    again.close()


def test_a_process_that_ends_without_closing_loses_nothing(settings, store):
    assert other.finish(other.start("leave", settings, "run_1")) == ""
    assert store.runs.get("run_1")["status"] == "completed"


def test_a_full_disk_is_an_error_and_passes(sqlite_settings, open_store):
    store = open_store(sqlite_settings)
    assert other.finish(other.start("full_disk", sqlite_settings)) == "store_failed\n"
    assert store.workflows.get("wf_after") is not None


def test_a_store_is_not_carried_over_a_fork(sqlite_settings, open_store):
    store = open_store(sqlite_settings)
    assert other.finish(other.start("fork", sqlite_settings)) == "7\n"
    assert [key.name for key in store.keys.list()] == ["starts the thread"]


def test_processes_write_the_same_database_at_once(settings, store):
    """LOAD-05: no lock error reaches anybody, all history is complete."""
    processes = [other.start("run_many", settings, 5, 10) for _ in range(4)]
    assert [other.line(p) for p in processes] == ["ready"] * 4
    for process in processes:
        other.go_on(process)
    assert [other.finish(p) for p in processes] == ["0\n"] * 4

    def count(link):
        tables = ("runs WHERE status = 'completed'", "run_blocks", "run_usage", "owners")
        return [link.raw.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables]

    assert store._writer.submit(count).wait() == [200, 400, 200, 0]


def test_large_starts_are_left_to_the_thread(sqlite_settings, open_store, monkeypatch):
    store = open_store(sqlite_settings)
    store.runs.started(rows.started("run_0"))
    store.runs.finished(rows.ended("run_0"), []).wait()
    while store._writer._given != store._writer._finished:  # the thread wakes us before it counts
        gevent.sleep(0.001)
    seen = []
    commit = store._writer._inline.commit
    monkeypatch.setattr(store._writer._inline, "commit", lambda jobs: seen.append(len(jobs)) or commit(jobs))
    store.runs.started(rows.started("run_1"))
    store.runs.finished(rows.ended("run_1"), []).wait()
    assert seen == [1, 1], "what is small is committed at once"
    store.runs.started(rows.started("run_2", input="x" * MOST_BYTES))
    assert seen == [1, 1], "what is large is not"
    store.runs.finished(rows.ended("run_2"), []).wait()
