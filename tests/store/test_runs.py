"""Run records: complete, guarded by their owner, closed when their process dies."""

from __future__ import annotations

import signal

import pytest

from app.store import StaleOwner, Store
from app.store.runs import COLUMNS
from tests.store import other, rows


def _submit(store, sql):
    store._writer.submit(lambda link: link.raw.execute(sql)).wait()


def test_a_run_is_stored_whole(store):
    store.runs.started(rows.started("run_1"))
    ticket = store.runs.finished(
        rows.ended("run_1"), [rows.block("start"), rows.block("agent_1")], [rows.USAGE]
    )
    ticket.wait()
    run = store.runs.get("run_1")
    assert set(run) == {*COLUMNS, "blocks", "usages"}
    assert (run["status"], run["version"], run["key_id"]) == ("completed", 2, "key_1")
    assert run["input"] == {"message": "hi"}
    assert run["output"] == {"content": "héllo\0�"}
    assert (run["created_at"], run["ended_at"]) == (rows.START_MS, rows.START_MS + 100)
    assert run["partial_text"] is None
    assert run["blocks"] == [rows.block("start"), rows.block("agent_1")]
    assert run["usages"] == [rows.USAGE]
    assert store.runs.get("run_2") is None


def test_a_running_run_can_be_read(store):
    store.runs.started(rows.started("run_1", conversation_id="a\0b"))
    store.keys.create("comes after")
    run = store.runs.get("run_1")
    assert (run["status"], run["ended_at"], run["blocks"], run["usages"]) == ("running", None, [], [])
    assert run["conversation_id"] == "a�b"


def test_a_run_ends_once(store):
    store.runs.started(rows.started("run_1"))
    store.runs.finished(rows.ended("run_1"), []).wait()
    with pytest.raises(StaleOwner) as caught:
        store.runs.finished(rows.ended("run_1", status="failed"), [rows.block("late")]).wait()
    assert caught.value.code == "stale_owner"
    run = store.runs.get("run_1")
    assert (run["status"], run["blocks"]) == ("completed", [])


def test_another_owner_or_epoch_is_refused(store):
    store.runs.started(rows.started("run_1", owner_id="own_a", owner_epoch=2))
    for stale in ({"owner_id": "own_b", "owner_epoch": 2}, {"owner_id": "own_a", "owner_epoch": 1}):
        with pytest.raises(StaleOwner):
            store.runs.finished(rows.ended("run_1", **stale), []).wait()
    store.runs.finished(rows.ended("run_1", owner_id="own_a", owner_epoch=2), []).wait()


def test_runs_of_a_killed_process_fail(settings, store):
    process = other.start("run_open", settings, "run_1", "own_theirs")
    assert other.line(process) == "running"
    store.runs.started(rows.started("run_mine"))
    assert store.runs.fail_lost(0) == 0, "both owners live"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert store.runs.fail_lost(3600) == 1
    run = store.runs.get("run_1")
    assert (run["status"], run["cause"], run["error"]["code"]) == ("failed", "worker_lost", "worker_lost")
    assert run["ended_at"] is not None
    assert store.runs.get("run_mine")["status"] == "running"
    assert store.runs.fail_lost(3600) == 0


def test_a_stopped_process_is_a_live_owner(settings, store):
    """SIGSTOP, a suspended machine, a hub that is busy for minutes: the process is there, so are its runs."""
    process = other.start("run_open", settings, "run_1")
    assert other.line(process) == "running"
    process.send_signal(signal.SIGSTOP)
    assert store.runs.fail_lost(0) == 0
    process.send_signal(signal.SIGCONT)
    other.finish(process)
    assert store.runs.get("run_1")["status"] == "completed"


def test_what_a_closed_store_left_open_fails(settings, open_store):
    first, second = open_store(settings), open_store(settings)
    first.runs.started(rows.started("run_1"))
    first.close()
    assert second.runs.fail_lost(3600) == 1


def test_a_heartbeat_elsewhere_must_stand_still(store):
    _submit(store, "INSERT INTO owners VALUES ('far', 'another kernel', 1, 1, 5)")
    store.runs.started(rows.started("run_1", owner_id="own_far"))
    store.keys.create("comes after")
    _submit(store, "UPDATE runs SET owner_id = 'far'")
    assert store.runs.fail_lost(3600) == 0
    assert store.runs.fail_lost(3600) == 0
    _submit(store, "UPDATE owners SET beat = beat + 1 WHERE id = 'far'")
    assert store.runs.fail_lost(3600) == 0
    assert store.runs.fail_lost(0) == 1
    assert store.runs.get("run_1")["owner_epoch"] == 2


def test_an_owner_that_was_given_up_cannot_write(settings, store, open_store):
    _submit(store, "INSERT INTO owners VALUES ('far', 'another kernel', 1, 1, 5)")
    store.runs.started(rows.started("run_1", owner_id="own_far"))
    store.keys.create("comes after")
    _submit(store, "UPDATE runs SET owner_id = 'far'")
    assert open_store(settings).runs.fail_lost(0) == 1
    with pytest.raises(StaleOwner):
        store.runs.finished(rows.ended("run_1", owner_id="far"), []).wait()
    assert store.runs.get("run_1")["cause"] == "worker_lost"


def test_paused_runs_wait_without_an_owner(store):
    store.runs.started(rows.started("run_1", status="paused"))
    store.keys.create("comes after")
    _submit(store, "DELETE FROM owners")
    assert store.runs.fail_lost(0) == 0
    assert store.runs.get("run_1")["status"] == "paused"


def test_the_heartbeat_goes_on_without_the_hub(settings, store, open_store, monkeypatch):
    monkeypatch.setattr("app.store.owners.HEARTBEAT_S", 0.01)
    store.runs.heartbeat("own_1")
    store.keys.create("comes after")
    elsewhere = open_store(settings)  # its queries give the beating writer no work

    def beat(link):
        return link.raw.execute("SELECT beat FROM owners WHERE id = 'own_1'").fetchone()[0]

    while elsewhere._writer.submit(beat).wait() < 3:
        pass


def test_owners_that_ended_are_cleared_away(settings, store):
    process = other.start("run_open", settings, "run_1")
    assert other.line(process) == "running"
    process.kill()
    process.communicate()
    store.runs.heartbeat("own_mine")
    assert store.runs.fail_lost(3600) == 1, "first its runs"
    assert store.runs.fail_lost(3600) == 0, "then the owner"

    def ids(link):
        return [row[0] for row in link.raw.execute("SELECT id FROM owners").fetchall()]

    assert store._writer.submit(ids).wait() == ["own_mine"]


def test_an_owner_is_known_before_its_first_run_even_when_the_thread_was_asleep(settings, store, open_store):
    store.keys.create("the thread waits without an end after this")
    store.runs.started(rows.started("run_1"))
    elsewhere = open_store(settings)
    store.runs.finished(rows.ended("run_1"), []).wait()

    def ids(link):
        return [row[0] for row in link.raw.execute("SELECT id FROM owners").fetchall()]

    assert elsewhere._writer.submit(ids).wait() == [store.owner_id]


def test_a_store_that_never_ran_anything_is_no_owner(settings, store):
    store.keys.create("k")
    reader = Store(settings)

    def count(link):
        return link.raw.execute("SELECT count(*) FROM owners").fetchone()[0]

    assert store._writer.submit(count).wait() == 0
    reader.close()


def test_a_run_is_known_to_other_processes_as_soon_as_it_was_started(sqlite_settings, open_store):
    """A client that has a run's id may ask any worker for it."""
    mine, other_process = open_store(sqlite_settings), open_store(sqlite_settings)
    mine.runs.heartbeat(mine.owner_id)
    mine.keys.create("the thread has done what was due")
    mine.runs.started(rows.started("run_1"))
    assert other_process.runs.get("run_1")["status"] == "running"
