"""Claims: one of many gets a key, a run that came keeps it, and one that never came does not."""

from __future__ import annotations

import os
import random
from contextlib import closing

import gevent
import pytest
from hypothesis import given
from hypothesis import settings as how
from hypothesis import strategies as st
from sqlalchemy import select

from app.clock import SteppingClock
from app.store import Store
from app.store.deployment_tables import idempotency
from app.store.idempotency import KEPT_MS, Claimed
from tests.store import other, rows

BODY, ANOTHER = b"b" * 32, b"o" * 32


def new_key() -> bytes:
    return os.urandom(32)


def kept(store: Store) -> list[bytes]:
    found = store._backend.rows(store._backend.prepare(select(idempotency.c.key_hash)), {})
    return [bytes(row[0]) for row in found]


@pytest.fixture(scope="module")
def still(shared_settings):
    """A store whose time passes only when it is told to: ``clock.sleep``."""
    clock = SteppingClock(step_ms=0)
    with closing(Store(shared_settings, clock=clock)) as store:
        yield store, clock


def test_who_comes_first_gets_it_and_the_others_are_told(two):
    first, second = two
    key = new_key()
    mine = Claimed("run_1", BODY, first.owner_id)
    assert first.idempotency.claim(key, BODY, "run_1") == mine
    assert second.idempotency.claim(key, ANOTHER, "run_2") == mine, (
        "whatever its body: that is for others to say"
    )
    assert second.idempotency.get(key) == mine
    assert second.idempotency.get(new_key()) is None


def test_a_claim_whose_run_never_began_goes(two):
    first, second = two
    key = new_key()
    first.idempotency.claim(key, BODY, "run_1")
    second.idempotency.release(key, "run_another")
    assert second.idempotency.claim(key, BODY, "run_2").run_id == "run_1"
    first.idempotency.release(key, "run_1")
    for _, _, ticket in first.idempotency._letting_go:
        ticket.wait()
    assert second.idempotency.claim(key, BODY, "run_2").run_id == "run_2"


def test_a_claim_whose_run_began_stays(two):
    first, _ = two
    key, run_id = new_key(), rows.new_id("run")
    first.idempotency.claim(key, BODY, run_id)
    first.runs.started(rows.started(run_id))
    first.idempotency.release(key, run_id)
    first.idempotency.settle()
    assert first.idempotency.claim(key, BODY, "run_2").run_id == run_id


def test_it_stands_for_a_day(still):
    store, clock = still
    key = new_key()
    store.idempotency.claim(key, BODY, "run_1")
    clock.sleep(KEPT_MS / 1000 - 0.001)
    assert store.idempotency.claim(key, BODY, "run_2").run_id == "run_1"
    clock.sleep(0.001)
    assert store.idempotency.get(key) is None, "not swept, and over anyway"
    assert store.idempotency.claim(key, ANOTHER, "run_3") == Claimed("run_3", ANOTHER, store.owner_id)
    assert store.idempotency.get(key) == Claimed("run_3", ANOTHER, store.owner_id), "a day of its own"


def test_old_claims_are_swept(still):
    store, clock = still
    clock.sleep(KEPT_MS / 1000)
    while store.idempotency.sweep():
        pass  # those of other tests
    old = [new_key() for _ in range(3)]
    for key in old:
        store.idempotency.claim(key, BODY, rows.new_id("run"))
    clock.sleep(KEPT_MS / 1000)
    young = new_key()
    store.idempotency.claim(young, BODY, "run_1")
    assert store.idempotency.sweep() == 3
    assert store.idempotency.sweep() == 0
    assert young in kept(store)
    assert not set(old) & set(kept(store))


def test_a_claim_of_a_process_that_is_gone_is_given_up(shared_settings, two):
    """One of a live process never is, nor one whose run came."""
    _, second = two
    gone = Store(shared_settings)
    key, ran = new_key(), new_key()
    run_id = rows.new_id("run")
    dead = gone.idempotency.claim(key, BODY, "run_1")
    began = gone.idempotency.claim(ran, BODY, run_id)
    gone.runs.started(rows.started(run_id))
    assert not second.idempotency.give_up(key, dead, 3600.0), "it lives"
    gone.close()
    assert second.idempotency.give_up(key, dead, 3600.0)
    assert not second.idempotency.give_up(ran, began, 3600.0)
    assert second.idempotency.claim(key, BODY, "run_2").run_id == "run_2"
    assert second.idempotency.claim(ran, BODY, "run_2").run_id == run_id
    own = second.idempotency.claim(new_key(), BODY, "run_3")
    assert not second.idempotency.give_up(key, own, 0.0)


def test_what_could_not_be_let_go_is_tried_again(store, caplog, monkeypatch):
    key = new_key()
    store.idempotency.claim(key, BODY, "run_1")
    broken = store._backend.prepare(select(idempotency.c.key_hash))
    monkeypatch.setattr(broken, "sql", "DELETE FROM nowhere")
    with monkeypatch.context() as patch:
        patch.setattr(store.idempotency, "_release", broken)
        store.idempotency.release(key, "run_1")
        for ticket in [ticket for _, _, ticket in store.idempotency._letting_go]:
            with pytest.raises(Exception, match="could not be written"):
                ticket.wait()
    store.idempotency.settle()
    assert "run_1" in caplog.text
    for _, _, ticket in store.idempotency._letting_go:
        ticket.wait()
    store.idempotency.settle()
    assert store.idempotency._letting_go == []
    assert store.idempotency.get(key) is None


def test_after_the_store_is_closed_nothing_is_raised(settings, open_store):
    store = open_store(settings)
    key = new_key()
    store.idempotency.claim(key, BODY, "run_1")
    store.close()
    store.idempotency.release(key, "run_1")
    with closing(open_store(settings)) as another:
        assert another.idempotency.give_up(key, Claimed("run_1", BODY, store.owner_id), 0.0)


def test_claims_go_with_their_workflow_and_their_chat(store):
    workflow = store.workflows.save({"a": 1}, "w")
    chat, other_chat = (
        store.chats.create({"workflow_id": workflow, "slug": slug, "title": slug}) for slug in ("a", "b")
    )
    keys = [new_key() for _ in range(4)]
    store.idempotency.claim(keys[0], BODY, "run_1", workflow_id=workflow)
    store.idempotency.claim(keys[1], BODY, "run_2", chat_id=chat.id)
    store.idempotency.claim(keys[2], BODY, "run_3", chat_id=other_chat.id)
    store.idempotency.claim(keys[3], BODY, "run_4", workflow_id="a graph of a plugin")
    store.chats.delete(chat.id)
    assert sorted(kept(store)) == sorted([keys[0], keys[2], keys[3]])
    store.workflows.remove(workflow, None, chats=True)
    assert kept(store) == [keys[3]]


@how(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32), many=st.integers(1, 12), keys=st.integers(1, 3))
def test_of_many_at_once_one_gets_each_key(two, seed, many, keys):
    """Whatever others let go of meanwhile."""
    chance = random.Random(seed)
    claimed = [new_key() for _ in range(keys)]
    got: dict[bytes, set[str]] = {key: set() for key in claimed}

    def ask() -> None:
        store, key, run_id = chance.choice(two), chance.choice(claimed), rows.new_id("run")
        for _ in range(chance.randrange(3)):
            gevent.sleep(0)
        found = store.idempotency.claim(key, BODY, run_id)
        if found.run_id == run_id:
            store.runs.started(rows.started(run_id))
        store.idempotency.release(key, found.run_id if found.run_id == run_id else "run_other")
        got[key].add(found.run_id)

    gevent.joinall([gevent.spawn(ask) for _ in range(many)], raise_error=True)
    assert all(len(runs) <= 1 for runs in got.values()), got


def test_of_many_greenlets_of_several_processes_one_gets_each_key(shared_settings, two):
    names = [new_key().hex() for _ in range(10)]
    others = [other.start("claims", shared_settings, 20, *names) for _ in range(2)]
    for process in others:
        assert other.line(process) == "ready"
    for process in others:
        other.go_on(process)
    got = [line.split() for process in others for line in other.finish(process).splitlines()]
    assert len(got) == 2 * 20 * 10
    assert len({name for name, _ in got}) == 10
    assert len({(name, run) for name, run in got}) == 10
