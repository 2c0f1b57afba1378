"""Codes by e-mail: as many tries as they have, one use, one at a time."""

from __future__ import annotations

from contextlib import closing

import gevent
import pytest
from sqlalchemy import func, select

from app.clock import SteppingClock
from app.store import Store
from app.store.deployment_tables import chat_codes
from tests.store import rows

LIVE, PAUSE, MOST = 900_000, 30_000, 5


@pytest.fixture(scope="module")
def still(shared_settings):
    """A store whose time passes only when it is told to, and its clock."""
    clock = SteppingClock(step_ms=0)
    with closing(Store(shared_settings, clock=clock)) as store:
        yield store, clock


@pytest.fixture
def chat(still):
    """A chat of its own."""
    store, _ = still
    workflow = store.workflows.save({"name": "W"}, "W", rows.new_id("wf"))
    slug = rows.new_id("s").lower().replace("_", "-")
    return store.chats.create({"workflow_id": workflow, "slug": slug, "title": "T"}).id


def issue(store, chat, code=b"right", email=b"ada"):
    return store.chat_codes.issue(chat, email, code, LIVE, PAUSE)


def redeem(store, chat, code=b"right", email=b"ada"):
    return store.chat_codes.redeem(chat, email, code, MOST)


def test_a_code_is_right_once(still, chat):
    store, _ = still
    assert issue(store, chat) == 0
    assert redeem(store, chat)
    assert not redeem(store, chat)


def test_it_is_of_one_address_and_chat(still, chat):
    store, _ = still
    issue(store, chat)
    assert not redeem(store, chat, email=b"bob")
    assert not redeem(store, "chat_none")
    assert redeem(store, chat)


def test_it_has_so_many_tries(still, chat):
    store, _ = still
    issue(store, chat)
    assert [redeem(store, chat, b"wrong") for _ in range(MOST)] == [False] * MOST
    assert not redeem(store, chat)


def test_the_last_try_counts(still, chat):
    store, _ = still
    issue(store, chat)
    for _ in range(MOST - 1):
        redeem(store, chat, b"wrong")
    assert redeem(store, chat)


def test_many_tries_at_once_are_no_more_and_one_is_right(still, chat):
    store, _ = still
    issue(store, chat)
    wrong = [gevent.spawn(redeem, store, chat, b"wrong") for _ in range(20)]
    gevent.joinall(wrong)
    assert not redeem(store, chat)
    issue(store, chat, email=b"bob")
    right = [gevent.spawn(redeem, store, chat, b"right", b"bob") for _ in range(5)]
    gevent.joinall(right)
    assert sorted(greenlet.value for greenlet in right) == [False] * 4 + [True]


def test_the_next_takes_its_place_after_a_pause(still, chat):
    store, clock = still
    issue(store, chat)
    for _ in range(MOST):
        redeem(store, chat, b"wrong")
    clock.sleep(10)
    assert issue(store, chat, b"second") == PAUSE - 10_000
    assert not redeem(store, chat, b"second")
    clock.sleep(20)
    assert issue(store, chat, b"second") == 0
    assert not redeem(store, chat, b"right")
    assert redeem(store, chat, b"second")


def test_it_ends_with_its_time_and_is_swept(still, chat):
    store, clock = still
    issue(store, chat)
    clock.sleep(LIVE / 1000)
    assert not redeem(store, chat)
    issue(store, chat, email=b"bob")
    count = store._backend.prepare(
        select(func.count()).select_from(chat_codes).where(chat_codes.c.chat_id == chat)
    )
    assert store._backend.rows(count, {})[0][0] == 1


def test_it_goes_with_its_chat(still, chat):
    store, _ = still
    issue(store, chat)
    store.chats.delete(chat)
    assert not redeem(store, chat)
