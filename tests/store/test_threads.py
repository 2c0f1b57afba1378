"""Threads: whose they are, when they are busy, where the next run enters."""

from __future__ import annotations

import pytest

from app.clock import SteppingClock
from app.store.checkpoints import Checkpoint, Pause
from app.store.threads import LEASE_MS
from tests.store import rows


@pytest.fixture
def store(settings, open_store):
    return open_store(settings, clock=SteppingClock())


def test_a_thread_belongs_to_a_workflow_and_a_key(store):
    made = store.threads.open("wf_1", "key_1", "run_1")
    store.runs.started(rows.started("run_1"))
    store.runs.finished(rows.ended("run_1"), []).wait()
    assert store.threads.enter(made.id, "wf_1", "key_2", "run_2") is None
    assert store.threads.enter(made.id, "wf_2", "key_1", "run_2") is None
    assert store.threads.enter("thr_unknown", "wf_1", "key_1", "run_2") is None
    assert store.threads.enter(made.id, "wf_1", "key_1", "run_2").run_id == "run_2"


def test_a_thread_without_a_key_is_nobodys_to_continue(store):
    made = store.threads.open("wf_1", None, "run_1")
    store.runs.started(rows.started("run_1"))
    store.runs.finished(rows.ended("run_1"), []).wait()
    assert store.threads.enter(made.id, "wf_1", None, "run_2") is None
    assert store.threads.get(made.id).run_id == "run_1"


def test_it_is_busy_from_the_claim_to_the_end_of_its_run(store):
    made = store.threads.open("wf_1", "key_1", "run_1")
    assert store.threads.enter(made.id, "wf_1", "key_1", "run_2").run_id == "run_1"
    store.runs.started(rows.started("run_1"))
    assert store.threads.enter(made.id, "wf_1", "key_1", "run_2").run_id == "run_1"
    assert store.threads.get(made.id).run_status == "running"
    store.runs.finished(rows.ended("run_1"), []).wait()
    assert store.threads.get(made.id).run_status == "completed"
    assert store.threads.enter(made.id, "wf_1", "key_1", "run_2").run_id == "run_2"


def test_a_claim_whose_run_never_came_runs_out(store):
    made = store.threads.open("wf_1", "key_1", "run_1")
    assert made.busy(made.claimed_at + LEASE_MS - 1)
    assert not made.busy(made.claimed_at + LEASE_MS)


def test_a_run_that_leaves_before_it_began_leaves_the_thread_as_it_was(store):
    made = store.threads.open("wf_1", "key_1", "run_1")
    store.runs.started(rows.started("run_1"))
    store.runs.finished(rows.ended("run_1"), []).wait()
    entered = store.threads.enter(made.id, "wf_1", "key_1", "run_2")
    store.threads.leave(entered)
    store.threads.release(made.id)  # which waits for what was queued before
    found = store.threads.get(made.id)
    assert (found.run_id, found.run_status) == ("run_1", "completed")
    assert store.threads.enter(made.id, "wf_1", "key_1", "run_3").run_id == "run_3"
    store.threads.leave(entered)
    store.threads.release(made.id)
    assert store.threads.get(made.id).run_id == "run_3", "another has entered since"


def test_a_new_thread_that_is_left_is_free(store):
    made = store.threads.open("wf_1", "key_1", "run_1")
    store.threads.leave(made)
    store.threads.release(made.id)
    assert store.threads.get(made.id).run_id is None
    assert store.threads.enter(made.id, "wf_1", "key_1", "run_2").run_id == "run_2"


def test_a_name_is_one_thread_per_workflow_and_key(store):
    first = store.threads.named("wf_1", "key_1", "mine\0", "run_1")
    assert store.threads.named("wf_1", "key_1", "mine\0", "run_2").id == first.id
    assert store.threads.get(first.id).run_id == "run_2"
    others = {
        store.threads.named(workflow, key, name, "run_3").id
        for workflow, key, name in (
            ("wf_1", "key_2", "mine\0"),
            ("wf_2", "key_1", "mine\0"),
            ("wf_1", "key_1", "x"),
        )
    }
    assert len(others) == 3
    assert first.id not in others


def test_a_pin_is_set_by_the_run_that_is_in_and_not_after_a_release(store):
    made = store.threads.open("wf_1", "key_1", "run_1")

    def pinned(run_id):
        store.threads.pin(made.id, run_id, made.pins, "agent_1")
        store.keys.create("comes after")  # what was queued is written
        return store.threads.get(made.id).pinned

    assert pinned("run_0") is None
    assert pinned("run_1") == "agent_1"
    store.threads.release(made.id)
    assert store.threads.get(made.id).pinned is None
    assert pinned("run_1") is None


def test_a_stop_is_found_by_the_owner_until_the_run_has_ended(store):
    store.runs.started(rows.started("run_1", owner_id="own_a"))
    store.runs.started(rows.started("run_2", owner_id="own_a"))
    assert store.runs.stopping("own_a") == []
    assert store.runs.request_stop("run_1")
    assert store.runs.stopping("own_a") == ["run_1"]
    assert store.runs.stopping("own_b") == []
    store.runs.finished(rows.ended("run_1", owner_id="own_a"), []).wait()
    assert store.runs.stopping("own_a") == []
    assert not store.runs.request_stop("run_1")
    assert not store.runs.request_stop("run_unknown")


def test_turns_are_counted_from_the_first_of_the_thread(store):
    made = store.threads.open("wf_1", "key_1", "run_1")
    assert store.threads.turns_before(made.id, "run_1") == 0
    for run in ("run_1", "run_2"):
        store.runs.started({**rows.started(run), "thread_id": made.id})
        store.runs.finished({**rows.ended(run), "thread_id": made.id}, []).wait()
    store.runs.started(rows.started("run_0"))
    store.runs.finished(rows.ended("run_0"), []).wait()
    assert [store.threads.turns_before(made.id, f"run_{n}") for n in (1, 2, 3)] == [0, 1, 2]
    assert store.threads.turns_before("thr_unknown", "run_9") == 0


def test_nobody_gets_in_while_its_run_is_paused(store):
    made = store.threads.open("wf_1", "key_1", "run_1")
    named = store.threads.named("wf_1", "key_1", "mine", "run_2")
    for run_id in ("run_1", "run_2"):
        store.durable.begin(rows.started(run_id), {}, {}).wait()
        paused = Checkpoint(pause=Pause(rows.START_MS, rows.started(run_id)))
        store.durable.save(run_id, store.owner_id, 1, paused).wait()
    found = store.threads.enter(made.id, "wf_1", "key_1", "run_3")
    assert (found.run_id, found.paused, found.busy(2**60)) == ("run_1", True, True)
    found = store.threads.named("wf_1", "key_1", "mine", "run_3")
    assert (found.id, found.run_id, found.paused) == (named.id, "run_2", True)
    assert store.threads.get(named.id).run_id == "run_2"

    epoch = store.durable.claim("run_2", store.owner_id, asked=True).epoch
    assert not store.threads.get(named.id).paused
    store.runs.finished(rows.ended("run_2", durable=1, owner_epoch=epoch), []).wait()
    assert store.threads.named("wf_1", "key_1", "mine", "run_3").run_id == "run_3"


def test_whoever_wants_to_be_alone_waits_for_the_one_that_is_in(store):
    first = store.threads.named("wf_1", "chat:c:v", "mine", "run_1", alone=True)
    store.runs.started(rows.started("run_1"))
    found = store.threads.named("wf_1", "chat:c:v", "mine", "run_2", alone=True)
    assert (found.id, found.run_id) == (first.id, "run_1")
    assert store.threads.named("wf_1", "chat:c:w", "mine", "run_2", alone=True).run_id == "run_2"
    store.runs.finished(rows.ended("run_1"), []).wait()
    assert store.threads.named("wf_1", "chat:c:v", "mine", "run_3", alone=True).run_id == "run_3"
    found = store.threads.find("wf_1", "chat:c:v", "mine")
    assert (found.id, found.run_id) == (first.id, "run_3")
    assert store.threads.find("wf_2", "chat:c:v", "mine") is None
    assert store.threads.find("wf_1", "chat:c:v", "other") is None
