"""The owner's account: links that work once and in time, versions that end sessions, sessions signed out."""

from __future__ import annotations

from app.store import owner as module
from tests.support.virtual_clock import VirtualClock


def test_there_is_no_account_before_the_first_link(store):
    assert store.owner.get() is None
    assert not store.owner.link_works("anything")
    assert store.owner.set_password("hash", token="anything") is None
    assert store.owner.get() is None


def test_a_link_sets_the_password_once(store):
    token, until = store.owner.new_link()
    assert len(token) >= 43
    row = store.owner.get()
    assert (row.password, row.password_version, row.setup_expires_at) == (None, 0, until)
    assert store.owner.link_works(token)
    assert not store.owner.link_works(token + "x")
    assert store.owner.set_password("first", token="of somebody else") is None
    assert store.owner.set_password("first", token=token) == 1
    row = store.owner.get()
    assert (row.password, row.password_version, row.setup_expires_at) == ("first", 1, None)
    assert not store.owner.link_works(token)
    assert store.owner.set_password("second", token=token) is None
    assert store.owner.get().password == "first"


def test_a_new_link_ends_the_one_before_and_keeps_the_password(store):
    old, _ = store.owner.new_link()
    store.owner.set_password("first", token=old)
    lost, _ = store.owner.new_link()
    new, _ = store.owner.new_link()
    assert not store.owner.link_works(lost)
    assert store.owner.get().password == "first"
    assert store.owner.set_password("second", token=new) == 2


def test_a_link_ends_with_its_time(settings, open_store):
    clock = VirtualClock()
    store = open_store(settings, clock=clock)
    token, until = store.owner.new_link()
    clock.now += (module.LINK_S - 1) * 1000
    assert store.owner.link_works(token)
    clock.now += 1000
    assert clock.now_ms() == until
    assert not store.owner.link_works(token)
    assert store.owner.set_password("late", token=token) is None


def test_a_password_set_directly_ends_links_and_raises_the_version(store):
    assert store.owner.set_password("from the shell") == 1
    token, _ = store.owner.new_link()
    assert store.owner.set_password("again") == 2
    assert not store.owner.link_works(token)


def test_another_process_sees_every_change_at_once(settings, open_store):
    one, two = open_store(settings), open_store(settings)
    assert two.owner.get() is None
    token, _ = one.owner.new_link()
    assert two.owner.link_works(token)
    two.owner.set_password("hash", token=token)
    assert one.owner.get().password_version == 1
    one.owner.end_session("sid", 2**50)
    assert "sid" in two.owner.get().ended


def test_sessions_signed_out_are_remembered_until_their_time(settings, open_store, monkeypatch):
    monkeypatch.setattr(module, "_MOST_ENDED", 2)
    clock = VirtualClock()
    store = open_store(settings, clock=clock)
    store.owner.end_session("nobody", 2**50)  # no account: nothing to remember
    assert store.owner.get() is None
    store.owner.set_password("hash")
    now = clock.now_ms()
    store.owner.end_session("a", now + 1000)
    store.owner.end_session("b", now + 3000)
    assert store.owner.get().ended == {"a": now + 1000, "b": now + 3000}
    store.owner.end_session("c", now + 2000)
    assert set(store.owner.get().ended) == {"b", "c"}, "the one that ends first is forgotten"
    clock.now += 2500
    store.owner.end_session("d", now + 9000)
    assert set(store.owner.get().ended) == {"b", "d"}
    store.owner.set_password("new")
    assert store.owner.get().ended == {}, "those sessions are over anyway"


def test_nothing_shows_the_hash(store):
    store.owner.set_password("the-hash")
    assert "the-hash" not in repr(store.owner.get())
