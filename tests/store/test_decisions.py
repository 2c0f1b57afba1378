"""Decisions: one answer counts, the others are told which; links, lists, and what is approved for a thread."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import settings as how
from hypothesis import strategies as st

from app.store import Store, decisions, pages
from app.store.checkpoints import Checkpoint, DecisionRow
from app.store.decision_rows import plain, restored
from app.store.decisions import DecisionFilter
from tests.store import rows

FAR = 2**50


def put(store: Store, *asks: DecisionRow) -> None:
    """Store questions; their runs begin if they have not."""
    for run_id in {row.run_id for row in asks}:
        if store.runs.get(run_id) is None:
            store.durable.begin(rows.started(run_id), {}, {}).wait()
        mine = [row for row in asks if row.run_id == run_id]
        store.durable.save(run_id, store.owner_id, 1, Checkpoint(asks=mine)).wait()


def one(store: Store, **more: object) -> DecisionRow:
    """A question that is open."""
    row = rows.ask(rows.new_id("run"), "call_1", **more)
    put(store, row)
    return row


def ids(found) -> list[str]:
    return [row.id for row in found]


def test_a_question_is_read_as_it_was_asked(two):
    store, elsewhere = two
    row = one(store, subject="tool:mail", expires_at=FAR, thread_id="thr_1", turn=3)
    assert elsewhere.decisions.get(row.id) == row
    assert elsewhere.decisions.open_of_run(row.run_id) == elsewhere.decisions.of_run(row.run_id) == [row]
    assert store.decisions.get("dec_unknown\0") is None
    assert store.decisions.of_run("run_unknown") == []


def test_the_first_answer_counts_and_the_second_is_told_who_and_when(two):
    store, elsewhere = two
    row = one(store)
    answer = {"verdict": "edit", "arguments": {"to": "ü\0"}, "reason": None}
    won, first = store.decisions.answer(row.id, answer, "key_1")
    assert (won, first.state, first.answered_by, first.answer) == (True, "answered", "key_1", answer)
    lost, second = elsewhere.decisions.answer(row.id, {"verdict": "reject"}, "key_2")
    assert (lost, second) == (False, first)
    assert second.answered_at is not None
    assert store.decisions.open_of_run(row.run_id) == []
    assert store.decisions.answer("dec_unknown", {}, None) == (False, None)


def test_nobody_answers_what_was_cancelled(two):
    store, _ = two
    row = one(store)
    store.runs.finished(rows.ended(row.run_id, durable=1), []).wait()
    won, found = store.decisions.answer(row.id, {}, "late")
    assert (won, found.state, found.answered_by) == (False, "cancelled", None)
    assert store.decisions.new_token(row.id) is None


def test_what_is_late_is_expired_and_told_once(two):
    store, elsewhere = two
    late, also, early, never = (
        one(store, expires_at=rows.START_MS),
        one(store, expires_at=rows.START_MS + 1),
        one(store, expires_at=rows.START_MS + 2),
        one(store),
    )
    assert store.decisions.expire(rows.START_MS - 1) == []
    (found,) = store.decisions.expire(rows.START_MS)
    assert (found.id, found.state, found.answer, found.answered_by) == (late.id, "expired", None, None)
    assert found.answered_at == rows.START_MS
    assert ids(elsewhere.decisions.expire(rows.START_MS + 1)) == [also.id]
    assert store.decisions.expire(rows.START_MS + 1) == []
    assert ids(store.decisions.settled_of({late.run_id, also.run_id})) == [late.id, also.id]

    won, row = store.decisions.answer(early.id, {}, "late")
    assert (won, row.state, row.answered_by) == (False, "expired", None), (
        "nobody had looked, it is late anyway"
    )
    assert store.decisions.answer(never.id, {}, "me")[0] is True


_ACTS = st.lists(st.sampled_from(["answer", "expire", "end", "token"]), min_size=1, max_size=5)


@how(max_examples=20)
@given(_ACTS, st.booleans())
def test_what_comes_first_stands(two, acts, late):
    store, elsewhere = two
    row = one(store, expires_at=rows.START_MS if late else FAR)
    state, by = "open", None
    for place, act in enumerate(acts):
        at = (store, elsewhere)[place % 2]
        if act == "answer":
            won, found = at.decisions.answer(row.id, {"n": place}, str(place))
            assert won is (state == "open" and not late)
            if won:
                state, by = "answered", str(place)
            elif state == "open":
                state = "expired"
            assert (found.state, found.answered_by) == (state, by)
        elif act == "expire":
            settled = at.decisions.expire(rows.START_MS)
            assert ids(settled) == ([row.id] if late and state == "open" else [])
            state = "expired" if settled else state
        elif act == "end" and "end" not in acts[:place]:
            store.runs.finished(rows.ended(row.run_id, durable=1), []).wait()
            state = "cancelled" if state == "open" else state
        elif act == "token":
            assert (at.decisions.new_token(row.id) is not None) is (state == "open")
    found = store.decisions.get(row.id)
    assert (found.state, found.answered_by) == (state, by)
    assert (found.answered_at is not None) is (state in ("answered", "expired"))
    if state == "open":
        store.decisions.answer(row.id, {}, None)


def test_settled_ones_are_given_until_the_run_has_taken_them(two):
    store, elsewhere = two
    row = one(store)
    assert store.decisions.settled_of({row.run_id}) == []
    elsewhere.decisions.answer(row.id, {"verdict": "approve"}, "key_1")
    for _ in range(2):
        (found,) = store.decisions.settled_of({row.run_id})
        assert (found.id, found.answer) == (row.id, {"verdict": "approve"})
    assert store.decisions.settled_of(set()) == store.decisions.settled_of({"run_other"}) == []
    store.durable.save(row.run_id, store.owner_id, 1, Checkpoint(taken=[row.id])).wait()
    assert store.decisions.settled_of({row.run_id}) == []


def test_a_link_decides_once_and_its_token_is_stored_nowhere(two):
    store, elsewhere = two
    row = one(store)
    first, second = store.decisions.new_token(row.id), elsewhere.decisions.new_token(row.id)
    assert len(first) == len(second) == 43
    assert first != second
    assert store.decisions.by_token(first) is None, "the later one replaced it"
    assert store.decisions.by_token(second) == row
    assert store.decisions.by_token("\ud800") is store.decisions.by_token("") is None

    def stored(link):
        sql = f"SELECT * FROM decisions WHERE id = '{row.id}'"
        return [bytes(v) if isinstance(v, memoryview) else v for v in link.raw.execute(sql).fetchone()]

    values = store._writer.submit(stored).wait()
    assert hashlib.sha256(second.encode()).digest() in values
    assert not any(second in str(value) for value in values)
    store.decisions.answer(row.id, {}, "link")
    assert store.decisions.by_token(second).state == "answered"
    assert store.decisions.new_token(row.id) is None
    assert store.decisions.new_token("dec_unknown") is None


@pytest.fixture
def listed(two) -> dict[str, DecisionRow]:
    """Six decisions of a workflow and key that only this test has."""
    store, _ = two
    workflow, key, run = rows.new_id("wf"), rows.new_id("key"), rows.new_id("run")
    mine = {"workflow_id": workflow, "key_id": key}
    made = {
        "a": rows.ask(run, "1", **mine, thread_id=run),
        "b": rows.ask(run, "2", **mine, thread_id=run),
        "c": rows.ask(rows.new_id("run"), "1", **mine),
        "d": rows.ask(rows.new_id("run"), "1", **{**mine, "key_id": f"{key}x"}),
        "e": rows.ask(rows.new_id("run"), "1", **{**mine, "workflow_id": f"{workflow}x"}),
        "f": rows.ask(rows.new_id("run"), "1", workflow_id=workflow, key_id=None),
    }
    put(store, *made.values())
    for name in "bd":
        store.decisions.answer(made[name].id, {}, "me")
    return made


@pytest.mark.parametrize("limit", [1, 10])
@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (["workflow_id"], "fdcba"),
        (["key_id"], "ecba"),
        (["workflow_id", "key_id"], "cba"),
        (["run_id"], "ba"),
        (["thread_id"], "ba"),
        (["thread_id", "key_id"], "ba"),
        (["open", "workflow_id"], "fca"),
        (["open", "key_id"], "eca"),
        (["open", "run_id"], "a"),
        (["answered", "workflow_id"], "db"),
        (["answered", "thread_id", "key_id", "workflow_id", "run_id"], "b"),
        (["cancelled", "key_id"], ""),
    ],
)
def test_lists_are_newest_first_page_by_page(two, listed, filters, expected, limit, monkeypatch):
    monkeypatch.setattr(pages, "WINDOW", 3)
    store, _ = two
    first = listed["a"]
    asked = {name: getattr(first, name) for name in filters if "_id" in name}
    asked |= {"state": filters[0]} if "_id" not in filters[0] else {}
    names = {row.id: name for name, row in listed.items()}
    found, before = "", None
    for _ in range(1000):
        page, before = store.decisions.list(DecisionFilter(**asked), before, limit)
        assert len(page) <= limit
        assert all(store.decisions.get(row.id) == row for row in page)
        found += "".join(names[row.id] for row in page)
        if before is None:
            break
    assert found == expected


def test_a_page_ends_with_what_makes_it_large(two, monkeypatch):
    monkeypatch.setattr(decisions, "PAGE_BYTES", 10_000)
    monkeypatch.setattr(decisions, "_AT_ONCE", 3)
    store, _ = two
    run_id = rows.new_id("run")
    sizes = (1, 4_000, 6_000, 20_000, 1, 1, 1, 1, 10_000)
    made = [
        rows.ask(run_id, str(number), review={"kind": "answer", "draft": "x" * size})
        for number, size in enumerate(sizes)
    ]
    put(store, *made)
    pages_of, before = [], None
    while True:
        page, before = store.decisions.list(DecisionFilter(run_id=run_id), before, 100)
        pages_of.append([sizes[int(row.key)] for row in page])
        if before is None:
            break
    assert pages_of == [[10_000], [1, 1, 1, 1, 20_000], [6_000, 4_000], [1]]


def test_all_open_ones_are_found_by_their_index(sqlite_settings, open_store):
    store = open_store(sqlite_settings)
    assert store.decisions.list(DecisionFilter(state="open"), None, 5) == ([], None)
    made = store.decisions._pages
    for names, index in (
        ({"open"}, "ix_decisions_open"),
        ({"open", "key_id"}, "ix_decisions_open"),
        ({"key_id", "state"}, "ix_decisions_key_id"),
        ({"thread_id", "key_id"}, "ix_decisions_thread_id"),
        ({"workflow_id"}, "ix_decisions_workflow_id"),
        (set(), "sqlite_autoindex_decisions_1"),
    ):
        statement = store._backend.prepare(made._page(frozenset(names)))
        statement.sql = f"EXPLAIN QUERY PLAN {statement.sql}"
        plan = [row[3] for row in store._backend.rows(statement, dict.fromkeys(statement.names, 1))]
        assert index in plan[1], plan


def test_an_approval_for_a_thread_comes_with_its_answer(two):
    store, elsewhere = two
    thread = store.threads.open("wf_1", "key_1", rows.new_id("run"))
    row = one(store, thread_id=thread.id, subject="tool:mail")
    assert store.decisions.answer(row.id, {}, "me", remember=True)[0]
    assert elsewhere.decisions.approved_for_thread(thread.id) == {"tool:mail"}
    again = one(store, thread_id=thread.id, subject="tool:other")
    store.decisions.answer(again.id, {}, "me")
    assert store.decisions.answer(again.id, {}, "late", remember=True)[0] is False
    assert store.decisions.approved_for_thread(thread.id) == {"tool:mail"}, "only who answered may"
    for _ in range(2):
        store.decisions.approve_for_thread(thread.id, "tool:other")
    assert store.decisions.approved_for_thread(thread.id) == {"tool:mail", "tool:other"}
    assert store.decisions.approved_for_thread("thr_other") == frozenset()


def test_nothing_is_remembered_for_a_thread_that_is_gone(two):
    store, _ = two
    gone, without = one(store, thread_id="thr_gone", subject="x"), one(store, subject="x")
    for row in (gone, without):
        assert store.decisions.answer(row.id, {}, "me", remember=True)[0] is True
    store.decisions.approve_for_thread("thr_gone", "x")
    assert store.decisions.approved_for_thread("thr_gone") == frozenset()


@given(st.text(st.characters(exclude_categories=())), st.text(st.characters(exclude_categories=())))
def test_every_key_is_written_in_its_own_way(key, another):
    stored = plain(key)
    assert restored(stored) == key
    assert "\0" not in stored
    stored.encode()
    assert (stored == plain(another)) is (key == another)
