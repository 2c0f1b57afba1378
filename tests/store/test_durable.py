"""Durable runs: a checkpoint is kept whole or not at all, and a run has one owner at a time."""

from __future__ import annotations

import signal

import pytest
from hypothesis import given
from hypothesis import settings as how
from hypothesis import strategies as st

from app.store import StaleOwner, Store
from app.store.checkpoints import Checkpoint, Forgotten, LogBatch, Pause
from app.store.durable_tables import decisions, durable_runs, journal, run_logs, thread_approvals
from app.store.tables import run_blocks, run_usage
from tests.store import other, rows

_STARTED, _DOCUMENTS = {"input": {"a": 1}, "timeoutMs": 5}, {"wf_1": {"blocks": []}}


def begin(store: Store, **more: object) -> str:
    """A durable run of this store's owner, running."""
    run_id = rows.new_id("run")
    store.durable.begin(rows.started(run_id, **more), _STARTED, _DOCUMENTS).wait()
    return run_id


def save(store: Store, run_id: str, epoch: int = 1, **parts: object):
    return store.durable.save(run_id, store.owner_id, epoch, Checkpoint(**parts)).wait()


def pause(store: Store, run_id: str, epoch: int = 1, **parts: object) -> None:
    made = Pause(rows.START_MS + 50, rows.started(run_id))
    save(store, run_id, epoch, **{"pause": made, **parts})


def ended(run_id: str, epoch: int = 1, **more: object) -> dict[str, object]:
    return rows.ended(run_id, durable=1, owner_epoch=epoch, **more)


def counts(store: Store, run_id: str) -> dict[str, int]:
    """How many rows the tables of durable runs have of one run."""

    def job(link):
        found = {}
        for table in (durable_runs, journal, run_logs, decisions, run_blocks, run_usage):
            sql = f"SELECT count(*) FROM {table.name} WHERE run_id = '{run_id}'"
            found[table.name] = link.raw.execute(sql).fetchone()[0]
        return found

    return store._writer.submit(job).wait()


def execute(store: Store, sql: str) -> None:
    store._writer.submit(lambda link: link.raw.execute(sql)).wait()


# -- Checkpoints -----------------------------------------------------------------------------------------


def test_a_run_begins_with_what_it_can_be_started_again_with(two):
    store, _ = two
    run_id = begin(store, origin={"surface": "agent", "thinking": True})
    run = store.runs.get(run_id)
    assert (run["durable"], run["status"], run["owner_epoch"], run["paused_at"]) == (1, "running", 1, None)
    assert run["origin"] == {"surface": "agent", "thinking": True}
    save(store, run_id, release=True)
    claim = store.durable.claim(run_id, store.owner_id)
    assert (claim.started, claim.documents) == (_STARTED, _DOCUMENTS)
    assert (claim.steps, claim.logs, claim.decisions) == ([], [], [])


_ONE = st.tuples(st.sampled_from("abc"), st.integers(0, 1), st.sampled_from(["x", "y/x", "x/y"]))
_WRITES = st.lists(st.tuples(_ONE, st.binary(max_size=3)), max_size=4)
_FORGETS = st.lists(st.builds(Forgotten, st.sampled_from(["x", "y", "y/x"]), st.just(1), st.booleans()))


@how(max_examples=25)
@given(st.lists(st.tuples(_FORGETS, _WRITES), min_size=1, max_size=5))
def test_steps_keep_the_order_of_their_first_writing(two, checkpoints):
    store, _ = two
    run_id = begin(store)
    kept, written = {}, 0
    for forgets, writes in checkpoints:
        for gone in forgets:
            below = f"{gone.path}/"
            for key in list(kept):
                if key[2] == gone.path or (gone.parts and key[2].startswith(below)):
                    del kept[key]
        steps = []
        for (key, turn, path), value in writes:
            steps.append(rows.step(key, written, turn=turn, path=path, value=value))
            written += 1
            first = kept.get((key, turn, path))
            kept[key, turn, path] = steps[-1] if first is None else first._replace(value=value)
        save(store, run_id, steps=steps, forgotten=forgets)
    save(store, run_id, release=True)
    found = store.durable.claim(run_id, store.owner_id).steps
    assert found == sorted(kept.values(), key=lambda step: step.position)
    assert [step.position for step in found] == sorted({step.position for step in found})


def test_other_executions_are_not_forgotten(two):
    store, _ = two
    run_id = begin(store)
    save(store, run_id, steps=[rows.step("a", 0, execution=1), rows.step("a", 1, execution=2)])
    save(store, run_id, forgotten=[Forgotten("agent_1", 1, parts=True)], release=True)
    assert [step.execution for step in store.durable.claim(run_id, store.owner_id).steps] == [2]


def test_ids_come_back_by_the_letter(two):
    """Tool calls are named by vendors, and a call that is not found again would run again."""
    store, _ = two
    run_id = begin(store)
    keys = ["plain", "nul\0", "\ud800", '\x01"nul\\u0000"', "ä", ""]
    save(store, run_id, steps=[rows.step(key, place) for place, key in enumerate(keys)], release=True)
    save_again = store.durable.claim(run_id, store.owner_id)
    assert [step.key for step in save_again.steps] == keys


def test_a_refused_checkpoint_leaves_nothing(two):
    store, elsewhere = two
    run_id = begin(store)
    whole = {
        "steps": [rows.step("a", 0)],
        "log": LogBatch(1, 2, b"log"),
        "asks": [rows.ask(run_id, "a")],
        "seq_reserved": 1000,
    }
    for writer, epoch in ((elsewhere, 1), (store, 2)):
        with pytest.raises(StaleOwner):
            pause(writer, run_id, epoch, **whole)
    before = counts(store, run_id)
    assert (before["journal"], before["run_logs"], before["decisions"]) == (0, 0, 0)
    assert store.runs.get(run_id)["seq_reserved"] == 0
    save(store, run_id, **whole)
    with pytest.raises(
        Exception, match="could not be written"
    ):  # the same batch of the log cannot come twice
        save(store, run_id, steps=[rows.step("b", 1)], log=LogBatch(1, 2, b"log"))
    assert counts(store, run_id)["journal"] == 1
    store.runs.finished(ended(run_id), []).wait()
    with pytest.raises(StaleOwner):
        save(store, run_id, steps=[rows.step("b", 1)])
    assert counts(store, run_id)["journal"] == 0


def test_a_question_is_asked_once(two):
    store, _ = two
    run_id = begin(store)
    first, again = rows.ask(run_id, "call\0"), rows.ask(run_id, "call\0", review={"kind": "other"})
    assert save(store, run_id, asks=[first]) == [first]
    other_turn = rows.ask(run_id, "call\0", turn=1)
    assert save(store, run_id, asks=[again, other_turn]) == [first, other_turn]
    assert store.decisions.of_run(run_id) == [first, other_turn]


def test_reserved_numbers_are_never_given_back(two):
    store, _ = two
    run_id = begin(store)
    for upto, reserved in ((1000, 1000), (400, 1000), (None, 1000), (2000, 2000)):
        save(store, run_id, seq_reserved=upto)
        assert store.runs.get(run_id)["seq_reserved"] == reserved


def test_what_was_said_is_read_after_a_number(two):
    store, _ = two
    run_id = begin(store)
    first, second = LogBatch(1, 4, b"\0one"), LogBatch(5, 5, b"two")
    save(store, run_id, log=first)
    save(store, run_id, log=second)
    assert store.durable.log(run_id) == [first, second]
    assert store.durable.log(run_id, after=3) == [first, second]
    assert store.durable.log(run_id, after=4) == [second]
    assert store.durable.log(run_id, after=5) == []
    assert store.durable.log("run_unknown") == []
    assert (store.durable.last(run_id), store.durable.last("run_unknown")) == (5, 0)


# -- Pauses ----------------------------------------------------------------------------------------------


def test_a_pause_shows_the_run_so_far_and_an_end_replaces_it(two):
    store, _ = two
    run_id = begin(store)
    so_far = rows.started(
        run_id, usage={"t": 1}, partial_text={"agent_1": "hal"}, tool_calls={"agent_1": []}, active_ms=40
    )
    made = Pause(rows.START_MS + 50, so_far, [rows.block("start"), rows.block("agent_1")], [rows.USAGE])
    pause(store, run_id, pause=made)
    run = store.runs.get(run_id)
    assert (run["status"], run["paused_at"], run["owner_id"]) == ("paused", rows.START_MS + 50, None)
    assert (run["usage"], run["partial_text"], run["active_ms"]) == ({"t": 1}, {"agent_1": "hal"}, 40)
    assert (run["tool_calls"], run["output"], run["ended_at"]) == ({"agent_1": []}, None, None)
    assert [block["block"] for block in run["blocks"]] == ["start", "agent_1"]
    assert run["usages"] == [rows.USAGE]
    (shown,), _ = store.run_list.page(_only(run_id), None, 1)
    assert (shown["status"], shown["paused_at"]) == ("paused", rows.START_MS + 50)

    claim = store.durable.claim(run_id, store.owner_id, asked=True)
    run = store.runs.get(run_id)
    assert (run["status"], run["blocks"], run["usages"]) == ("running", [], [])
    pause(store, run_id, claim.epoch, pause=Pause(rows.START_MS + 90, so_far, [rows.block("start")]))
    run = store.runs.get(run_id)
    assert (len(run["blocks"]), run["usages"]) == (1, [])
    claim = store.durable.claim(run_id, store.owner_id, asked=True)
    store.runs.finished(ended(run_id, claim.epoch), [rows.block("start"), rows.block("end")]).wait()
    run = store.runs.get(run_id)
    assert (run["status"], [block["block"] for block in run["blocks"]]) == ("completed", ["start", "end"])


def _only(run_id):
    from app.store.run_list import RunFilter

    class Only(RunFilter):
        def set_values(self):
            return {"id": run_id}

    return Only()


def test_a_paused_run_waits_until_somebody_has_answered(two):
    store, elsewhere = two
    run_id = begin(store)
    asked = rows.ask(run_id, "a"), rows.ask(run_id, "b")
    pause(store, run_id, asks=asked, seq_reserved=1000, log=LogBatch(1, 9, b"log"))
    with pytest.raises(StaleOwner):
        save(store, run_id)
    assert run_id not in elsewhere.durable.claimable(1000, 0)
    assert elsewhere.durable.claim(run_id, elsewhere.owner_id) is None

    store.decisions.answer(asked[0].id, {"verdict": "approve"}, "key_1")
    assert run_id in elsewhere.durable.claimable(1000, 0)
    claim = elsewhere.durable.claim(run_id, elsewhere.owner_id)
    assert (claim.owner, claim.epoch, claim.clean) == (elsewhere.owner_id, 2, True)
    assert (claim.paused_at, claim.seq_reserved) == (rows.START_MS + 50, 1000)
    assert (claim.row["status"], claim.row["owner_id"]) == ("running", elsewhere.owner_id)
    assert claim.row == {k: v for k, v in store.runs.get(run_id).items() if k not in ("blocks", "usages")}
    assert claim.logs == [LogBatch(1, 9, b"log")]
    assert [(each.id, each.state) for each in claim.decisions] == [
        (asked[0].id, "answered"),
        (asked[1].id, "open"),
    ]
    assert run_id not in store.durable.claimable(1000, 3600)
    assert store.durable.claim(run_id, store.owner_id, asked=True) is None, "it is carried"


def test_an_answer_that_was_taken_up_is_not_work_any_more(two):
    store, _ = two
    run_id = begin(store)
    asked = rows.ask(run_id, "a"), rows.ask(run_id, "b")
    save(store, run_id, asks=asked)
    store.decisions.answer(asked[0].id, {}, "me")
    assert [row.id for row in store.decisions.settled_of({run_id, "run_other"})] == [asked[0].id]
    pause(store, run_id, taken=[asked[0].id, asked[1].id, "dec_unknown"])
    assert store.decisions.settled_of({run_id}) == []
    assert store.decisions.get(asked[0].id).taken_at is not None
    assert store.decisions.get(asked[1].id).taken_at is None, "nobody has answered it"
    assert run_id not in store.durable.claimable(1000, 3600)


def test_a_question_that_was_withdrawn_is_no_work(two):
    store, _ = two
    run_id = begin(store)
    left_open, answered, theirs = rows.ask(run_id, "a"), rows.ask(run_id, "b"), rows.ask(begin(store), "a")
    save(store, run_id, asks=[left_open, answered])
    save(store, theirs.run_id, asks=[theirs])
    store.decisions.answer(answered.id, {}, "me")
    pause(store, run_id, withdrawn=[left_open.id, answered.id, theirs.id])
    found = store.decisions.get(left_open.id)
    assert (found.state, found.answered_at, found.taken_at) == ("cancelled", None, None)
    found = store.decisions.get(answered.id)
    assert (found.state, found.answered_by) == ("answered", "me")
    assert run_id not in store.durable.claimable(1000, 3600)
    assert store.decisions.get(theirs.id) == theirs
    assert store.decisions.answer(left_open.id, {}, "late")[0] is False


def test_the_wait_is_counted_once_whoever_dies_meanwhile(two):
    store, elsewhere = two
    run_id = begin(store)
    pause(store, run_id)
    first = store.durable.claim(run_id, store.owner_id, asked=True)
    save(store, run_id, first.epoch, release=True)
    second = elsewhere.durable.claim(run_id, elsewhere.owner_id)
    assert first.paused_at == second.paused_at == rows.START_MS + 50, "nobody has counted it yet"
    save(elsewhere, run_id, second.epoch, human_wait_ms=700, release=True)
    third = store.durable.claim(run_id, store.owner_id)
    assert (third.paused_at, third.row["human_wait_ms"], third.epoch) == (None, 700, 4)


def test_a_paused_run_that_should_end_is_taken_for_that(two):
    store, elsewhere = two
    run_id = begin(store)
    pause(store, run_id)
    assert not elsewhere.durable.due(run_id)
    assert store.runs.request_stop(run_id)
    assert elsewhere.durable.due(run_id)
    assert run_id in elsewhere.durable.claimable(1000, 3600)
    assert elsewhere.durable.claim(run_id, elsewhere.owner_id).row["stop_requested"] is not None
    assert elsewhere.runs.stopping(elsewhere.owner_id) == [run_id]
    elsewhere.runs.finished(ended(run_id, 2, status="cancelled"), []).wait()


# -- Owners ----------------------------------------------------------------------------------------------


def test_a_run_that_was_handed_over_is_taken_by_one(two):
    store, elsewhere = two
    run_id = begin(store)
    assert elsewhere.durable.claim(run_id, elsewhere.owner_id, asked=True) is None, "its owner lives"
    save(store, run_id, steps=[rows.step("a", 0)], release=True)
    assert store.runs.get(run_id)["status"] == "running"
    assert store.runs.fail_lost(0) == 0
    assert run_id in elsewhere.durable.claimable(1000, 3600)
    claim = elsewhere.durable.claim(run_id, elsewhere.owner_id)
    assert (claim.epoch, claim.clean, claim.paused_at) == (2, True, None)
    assert store.durable.claim(run_id, store.owner_id) is None
    with pytest.raises(StaleOwner):
        store.runs.finished(ended(run_id), []).wait()


def test_a_run_of_a_killed_process_is_taken_over_and_not_failed(shared_settings, two):
    store, _ = two
    run_id = rows.new_id("run")
    process = other.start("run_durable", shared_settings, run_id)
    assert other.line(process) == "running"
    process.send_signal(signal.SIGSTOP)  # it lives, whatever it does
    assert run_id not in store.durable.claimable(1000, 0)
    assert store.durable.claim(run_id, store.owner_id, asked=True) is None
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert store.durable.claim(run_id, store.owner_id) is None, "nobody has looked yet"
    assert store.runs.fail_lost(3600) == 0
    assert run_id in store.durable.claimable(1000, 3600)
    claim = store.durable.claim(run_id, store.owner_id)
    assert (claim.epoch, claim.clean, claim.seq_reserved) == (2, False, 1000)
    assert claim.steps == [rows.step("a", 0)]
    store.runs.finished(ended(run_id, 2, status="failed", cause="worker_lost"), []).wait()


def test_an_owner_that_was_given_up_cannot_write(two):
    store, elsewhere = two
    run_id = begin(store)
    execute(store, "INSERT INTO owners VALUES ('far', 'another kernel', 1, 1, 5)")
    execute(store, f"UPDATE runs SET owner_id = 'far' WHERE id = '{run_id}'")
    assert run_id not in elsewhere.durable.claimable(1000, 3600)
    assert run_id in elsewhere.durable.claimable(1000, 0)
    execute(store, "UPDATE owners SET beat = beat + 1 WHERE id = 'far'")
    assert elsewhere.durable.claim(run_id, elsewhere.owner_id) is None, "it woke up"
    assert run_id not in elsewhere.durable.claimable(1000, 3600)
    assert run_id in elsewhere.durable.claimable(1000, 0)
    assert elsewhere.durable.claim(run_id, elsewhere.owner_id).clean is False
    with pytest.raises(StaleOwner):
        store.durable.save(run_id, "far", 1, Checkpoint([rows.step("a", 0)])).wait()
    with pytest.raises(StaleOwner):
        store.runs.finished(ended(run_id, owner_id="far"), []).wait()
    execute(store, "DELETE FROM owners WHERE id = 'far'")


def test_of_many_processes_one_answers_and_one_gets_a_run(shared_settings, two):
    store, _ = two
    run_ids = [begin(store) for _ in range(12)]
    for run_id in run_ids:
        save(store, run_id, release=True)
    asking = begin(store)
    question = rows.ask(asking, "a")
    pause(store, asking, asks=[question])
    processes = [other.start("race", shared_settings, question.id, who, 25, *run_ids) for who in "ab"]
    assert [other.line(process) for process in processes] == ["ready"] * 2
    for process in processes:
        other.go_on(process)
    got, told = [], []
    for process in processes:
        first, *answers = other.finish(process).splitlines()
        got += first.split()
        told += [line.split() for line in answers]
    assert sorted(got) == run_ids
    assert {store.runs.get(run_id)["owner_epoch"] for run_id in run_ids} == {2}
    assert set(run_ids) <= set(store.durable.claimable(1000, 3600)), "these processes have ended"
    assert len({name for name, *_ in told}) == 50
    ((winner, *_),) = [each for each in told if each[1] == "True"]
    assert {(by, answer) for _, _, by, answer in told} == {(winner, winner)}
    row = store.decisions.get(question.id)
    assert (row.state, row.answered_by, row.answer) == ("answered", winner, {"by": winner})


_WHO = st.integers(0, 1)
_ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["claim", "save", "pause", "release", "finish"]), _WHO),
        st.tuples(st.just("answer"), _WHO),
    ),
    max_size=12,
)


@how(max_examples=25)
@given(_ACTIONS)
def test_only_the_owner_of_the_epoch_writes(two, actions):
    """Each side writes with the last epoch it was given, as a process that was thought dead would."""
    run_id = begin(two[0])
    asked = rows.ask(run_id, "a")
    save(two[0], run_id, asks=[asked])
    held: list[int] = [1, 0]
    owner: int | None = 0
    epoch, status, answered, saved = 1, "running", False, 0
    for action, who in actions:
        store = two[who]
        mine = owner == who and held[who] == epoch and status == "running"
        if action == "answer":
            won, row = store.decisions.answer(asked.id, {}, str(who))
            assert won is (not answered and status in ("running", "paused"))
            assert row.state == ("answered" if answered or won else "cancelled")
            answered = answered or won
        elif action == "claim":
            claim = store.durable.claim(run_id, store.owner_id)
            free = owner is None and (status == "running" or (status == "paused" and answered))
            assert (claim is not None) is free
            if claim is not None:
                assert [step.position for step in claim.steps] == list(range(saved))
                owner, epoch, status = who, epoch + 1, "running"
                held[who] = claim.epoch
                assert claim.epoch == epoch
        else:
            ok = _write(store, run_id, held[who], action, saved)
            assert ok is mine
            if ok and action == "finish":
                status, owner = "completed", None
            elif ok:
                saved += 1
                owner = who if action == "save" else None
                status = "paused" if action == "pause" else "running"
    run = two[0].runs.get(run_id)
    assert (run["status"], run["owner_epoch"]) == (status, epoch)
    assert counts(two[0], run_id)["journal"] == (0 if status == "completed" else saved)


def _write(store, run_id, epoch, action, saved):
    try:
        steps = [rows.step(str(saved), saved)]
        if action == "finish":
            store.runs.finished(ended(run_id, epoch), []).wait()
        elif action == "pause":
            pause(store, run_id, epoch, steps=steps)
        else:
            save(store, run_id, epoch, steps=steps, release=action == "release")
    except StaleOwner:
        return False
    return True


# -- Ends ------------------------------------------------------------------------------------------------


def test_an_end_leaves_the_record_the_log_and_who_decided(two):
    store, _ = two
    run_id = begin(store)
    answered, left_open = rows.ask(run_id, "a"), rows.ask(run_id, "b")
    save(store, run_id, steps=[rows.step("a", 0)], log=LogBatch(1, 5, b"log"), asks=[answered, left_open])
    store.decisions.answer(answered.id, {"verdict": "approve"}, "key_1")
    row = ended(run_id)
    store.runs.finished(row, [rows.block("start")], [rows.USAGE], LogBatch(6, 7, b"end")).wait()
    assert counts(store, run_id) == {
        "durable_runs": 0,
        "journal": 0,
        "run_logs": 2,
        "decisions": 2,
        "run_blocks": 1,
        "run_usage": 1,
    }
    assert store.durable.log(run_id) == [LogBatch(1, 5, b"log"), LogBatch(6, 7, b"end")]
    found = store.decisions.get(left_open.id)
    assert (found.state, found.answered_by, found.answered_at) == ("cancelled", None, None)
    found = store.decisions.get(answered.id)
    assert (found.state, found.answered_by, found.taken_at) == ("answered", "key_1", row["ended_at"])
    assert store.decisions.settled_of({run_id}) == []
    assert store.durable.claim(run_id, store.owner_id, asked=True) is None


def test_logs_go_by_age(two):
    store, _ = two
    while store.durable.sweep_logs(0):
        pass
    goes_on, has_ended, ends_now = begin(store), begin(store), begin(store)
    for run_id in (goes_on, has_ended, ends_now):
        save(store, run_id, log=LogBatch(1, 5, b"log"))
    store.runs.finished(ended(has_ended), []).wait()
    store.runs.finished(ended(ends_now, ended_at=2**52), []).wait()
    assert store.durable.sweep_logs(60_000) == 1
    assert store.durable.sweep_logs(60_000) == 0
    assert store.durable.log(has_ended) == []
    assert store.durable.log(ends_now) == store.durable.log(goes_on) == [LogBatch(1, 5, b"log")]
    assert store.runs.get(has_ended)["status"] == "completed"


def test_nothing_outlives_its_run_or_thread(two):
    store, _ = two
    run_id = begin(store)
    thread = store.threads.open("wf_1", "key_1", run_id)
    store.decisions.approve_for_thread(thread.id, "tool:mail")
    pause(store, run_id, steps=[rows.step("a", 0)], log=LogBatch(1, 5, b"log"), asks=[rows.ask(run_id, "a")])
    assert store.decisions.approved_for_thread(thread.id) == {"tool:mail"}
    execute(store, f"DELETE FROM threads WHERE id = '{thread.id}'")
    execute(store, f"DELETE FROM runs WHERE id = '{run_id}'")
    assert store.decisions.approved_for_thread(thread.id) == frozenset()
    assert set(counts(store, run_id).values()) == {0}
    assert thread_approvals.c.thread_id.foreign_keys


def test_other_runs_pay_nothing_for_it(sqlite_settings, open_store):
    store = open_store(sqlite_settings)
    while store._writer._inline._raw is None:  # until the thread has nothing to do
        run_id = rows.new_id("run")
        store.runs.started(rows.started(run_id))
        store.runs.finished(rows.ended(run_id), []).wait()
    raw = store._writer._inline._raw
    seen: list[str] = []
    raw.set_trace_callback(seen.append)
    store.runs.started(rows.started("run_2"))
    store.runs.finished(rows.ended("run_2"), [rows.block("start")]).wait()
    raw.set_trace_callback(None)
    assert [sql.split()[0] for sql in seen] == [
        *("BEGIN", "INSERT", "COMMIT"),
        *("BEGIN", "UPDATE", "INSERT", "COMMIT"),
    ]


def test_looking_for_work_reads_no_run_that_has_none(sqlite_settings, open_store):
    store = open_store(sqlite_settings)

    def plan(statement):
        statement.sql = f"EXPLAIN QUERY PLAN {statement.sql}"
        values = dict.fromkeys(statement.names, 1)
        return " ".join(row[3] for row in store._backend.rows(statement, values))

    work, asked = store.durable._do, store.decisions
    for statement, index in (
        (work["answered"], "ix_decisions_left"),
        (work["released"], "ix_runs_released"),
        (work["stopping"], "ix_runs_stopping"),
        (work["carried"], "ix_runs_open"),
        (store.runs._lost._carrying, "ix_runs_open"),
        (asked._left, "ix_decisions_left"),
        (asked._due, "ix_decisions_expires_at"),
        (asked._of_token, "ix_decisions_token_hash"),
        (asked._open_of_run, "sqlite_autoindex_decisions_2"),
    ):
        assert index in plan(statement), statement.sql
