"""Runs are deleted, with what belongs to them and nothing else."""

from __future__ import annotations

import typing as t

import gevent
import pytest
from sqlalchemy import text

from app.clock import SystemClock, first_id
from app.store import Store, StoreFailed
from app.store.audit import AuditFilter, told
from app.store.checkpoints import Checkpoint, LogBatch, Pause
from app.store.retention import SWEPT, RunStays
from tests.store import rows

DAY_MS = 86_400_000


def _ended(store: Store, run_id: str, **more: t.Any) -> str:
    """A run that has ended, with a block and a model call."""
    store.runs.started(rows.started(run_id, **{name: more[name] for name in more if name != "ended_at"}))
    store.runs.finished(rows.ended(run_id, **more), [rows.block("a")], [rows.USAGE]).wait()
    return run_id


def _left(store: Store) -> dict[str, int]:
    """How many rows there are, by table."""
    tables = ("runs", "run_blocks", "run_usage", "journal", "run_logs", "durable_runs", "decisions")
    tables += ("memories", "threads", "files")
    found = {}
    for table in tables:
        statement = store._backend.prepare(text(f"SELECT count(*) FROM {table}"))
        found[table] = int(store._backend.rows(statement, {})[0][0])
    return {table: count for table, count in found.items() if count}


def _durable(store: Store, run_id: str, **more: t.Any) -> str:
    """A durable run that goes on, with a step, a log and a question."""
    store.durable.begin(rows.started(run_id, **more), {}, {}).wait()
    checkpoint = Checkpoint(
        [rows.step("a", 0)], log=LogBatch(1, 2, b"said"), asks=[rows.ask(run_id, "q", **_of(more))]
    )
    store.durable.save(run_id, store.owner_id, 1, checkpoint).wait()
    return run_id


def _of(more: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    return {"thread_id": more["thread_id"]} if "thread_id" in more else {}


def test_a_run_goes_with_all_that_is_its(store: Store) -> None:
    thread = store.threads.named("wf_1", "key_1", "mine", "run_1")
    _durable(store, "run_1", thread_id=thread.id)
    store.memories.append(thread.id, "k", "agent_1", "run_1", "asked", "answer").wait()
    done = rows.ended("run_1", thread_id=thread.id, durable=1)
    store.runs.finished(done, [rows.block("a")], [rows.USAGE], LogBatch(3, 4, b"said")).wait()
    assert {"decisions", "run_logs", "memories", "threads", "run_blocks"} <= set(_left(store))
    assert store.retention.forget("run_1", store.audit.note("cli", told("run.delete", "run:run_1")))
    assert _left(store) == {}
    assert [row.action for row in store.audit.page(AuditFilter(), None, 10)[0]] == ["run.delete"]
    assert not store.retention.forget("run_1")


def test_what_others_use_stays(store: Store) -> None:
    thread = store.threads.named("wf_1", "key_1", "mine", "run_2")
    mine = {"thread_id": thread.id}
    for run_id in ("run_1", "run_2"):
        _ended(store, run_id, **mine)
        store.memories.append(thread.id, "k", "agent_1", run_id, run_id, "answer").wait()
    kept = store.files.put("key_1", "a", "text/plain", b"a", None, 100)
    _ended(store, "run_3", input={"files": [{"file": kept.id}]})
    assert store.retention.forget("run_1")
    assert store.retention.forget("run_3")
    assert [row.asked for row in store.memories.page(thread.id, None, 10)[0]] == ["run_2"]
    assert store.files.get(kept.id) == kept
    found = store.threads.get(thread.id)
    assert found is not None
    assert found.run_id == "run_2"
    assert store.retention.forget("run_2")
    assert store.threads.get(thread.id) is None


def test_a_thread_whose_last_run_went_is_free(store: Store) -> None:
    """At once, though the run entered a moment ago; what others of its runs have left stays."""
    thread = store.threads.named("wf_1", "key_1", "mine", "run_1")
    _ended(store, "run_1", thread_id=thread.id)
    _ended(store, "run_2", thread_id=thread.id)
    store.threads.enter(thread.id, "wf_1", "key_1", "run_2")
    assert store.retention.forget("run_2")
    entered = store.threads.enter(thread.id, "wf_1", "key_1", "run_3")
    assert entered is not None
    assert entered.run_id == "run_3"


def test_the_files_of_a_visitors_message_go(store: Store) -> None:
    def put(owner: str) -> str:
        return store.files.put(owner, "a", "text/plain", b"a", None, 100).id

    mine, others = put("chat:c1:me"), put("chat:c1:other")
    _ended(
        store,
        "run_1",
        key_id="chat:c1:me",
        input={"files": [{"file": mine}, {"file": others}, {"file": 1}, "x"]},
    )
    assert store.retention.forget("run_1")
    assert store.files.get(mine) is None
    assert store.files.get(others) is not None


def test_what_has_not_ended_stays_and_so_does_its_thread(store: Store) -> None:
    thread = store.threads.named("wf_1", "key_1", "mine", "run_002")
    _ended(store, "run_001", thread_id=thread.id)
    _durable(store, "run_002", thread_id=thread.id)
    pause = Pause(rows.START_MS + 5, rows.started("run_002", thread_id=thread.id), [], [])
    store.durable.save("run_002", store.owner_id, 1, Checkpoint([], pause=pause)).wait()
    assert store.runs.status("run_002") == "paused"
    before = _left(store)
    for run_id in ("run_001", "run_002"):
        with pytest.raises(RunStays) as stays:
            store.retention.forget(run_id)
        assert stays.value.code == "run_not_ended"
    assert store.retention.sweep(1) == 0
    assert _left(store) == before
    claim = store.durable.claim("run_002", store.owner_id, asked=True)
    assert claim is not None
    store.runs.finished(
        {**claim.row, **rows.ended("run_002", thread_id=thread.id, durable=1), "owner_epoch": 2}, []
    ).wait()
    assert store.retention.sweep(1) == 2
    assert _left(store) == {}


def test_those_whose_time_is_over_go_in_bounded_steps(store: Store) -> None:
    now = store.retention._clock.now_ms()
    clock = SystemClock()
    old = now - 40 * DAY_MS
    for number in range(SWEPT + 3):
        at = old + number
        _ended(store, f"{first_id('run', at)}{number:04}", created_at=at, ended_at=at + 100)
    late = _ended(store, f"{first_id('run', old)}late", ended_at=now - DAY_MS)  # it went on for long
    new = _ended(store, clock.new_id("run"), ended_at=now)
    assert store.retention.sweep(50) == 0
    assert store.retention.sweep(30) == SWEPT
    assert store.retention.sweep(30) == 3
    assert store.retention.sweep(30) == 0
    assert store.runs.status(late) == "completed"
    assert store.runs.status(new) == "completed"


def test_an_audit_row_that_cannot_be_written_keeps_the_run(store: Store) -> None:
    _ended(store, "run_1")

    def refuse(_link: object, _outcome: object) -> None:
        raise ValueError("no")

    with pytest.raises(StoreFailed):
        store.retention.forget("run_1", refuse)
    assert _left(store) == {"runs": 1, "run_blocks": 1, "run_usage": 1}


def test_one_process_at_a_time_sweeps(two: tuple[Store, Store]) -> None:
    """Those that look in the same moment delete each run once."""
    at = two[0].retention._clock.now_ms() - 40 * DAY_MS
    made = [_ended(two[0], f"{first_id('run', at)}both{n:04}", ended_at=at) for n in range(2 * SWEPT)]
    found = 0
    while True:
        sweeps = [gevent.spawn(store.retention.sweep, 30) for store in two]
        gevent.joinall(sweeps, raise_error=True)
        counts = [sweep.value for sweep in sweeps]
        found += sum(counts)
        if not any(counts):
            break
    assert found == len(made)
