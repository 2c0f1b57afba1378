"""The values that runs are searched for: all that are stored, without a query while nothing has changed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from cryptography.fernet import Fernet

from app.store.sealing import SecretsLocked


def unreadable(store, monkeypatch):
    """From now on every query is a fault."""

    def fails(*_):
        raise AssertionError("the database was asked")

    monkeypatch.setattr(store.secrets, "_backend", type("Broken", (), {"rows": staticmethod(fails)})())


def test_all_that_are_stored_are_known(store):
    assert store.secrets.known() == ()
    store.secrets.set("A", "aaaaaaaa")
    store.secrets.set("B", "bbbbbbbb")
    store.generation()
    assert set(store.secrets.known()) == {"aaaaaaaa", "bbbbbbbb"}


def test_nothing_is_asked_while_nothing_has_changed(store, monkeypatch):
    store.secrets.set("A", "aaaaaaaa")
    store.generation()
    first = store.secrets.known()
    unreadable(store, monkeypatch)
    monkeypatch.setattr(store.secrets._catalog, "generation", lambda: pytest.fail("the database was asked"))
    assert store.secrets.known() is first
    assert store.secrets.opened() is first


def test_without_any_nothing_is_asked_either(store, monkeypatch):
    store.generation()
    store.secrets.known()
    unreadable(store, monkeypatch)
    assert store.secrets.known() == ()


def test_what_another_process_stores_is_known_with_the_next_request(settings, store, open_store):
    assert store.secrets.known() == ()
    open_store(settings).secrets.set("A", "aaaaaaaa")
    assert store.secrets.known() == ()
    store.generation()  # as every request does
    assert store.secrets.known() == ("aaaaaaaa",)


def test_a_value_that_is_used_is_known_at_once(store):
    store.secrets.set("A", "aaaaaaaa")
    store.generation()
    store.secrets.known()
    store.secrets.set("A", "cccccccc")
    assert store.secrets.values()["A"] == "cccccccc"
    assert set(store.secrets.opened()) == {"aaaaaaaa", "cccccccc"}


def test_those_whose_key_is_missing_are_told_once_and_left_out(settings, open_store, caplog):
    keys = [Fernet.generate_key().decode() for _ in range(2)]
    first = open_store(replace(settings, secrets_key=(keys[0],)))
    first.secrets.set("A", "aaaaaaaa")
    other = open_store(replace(settings, secrets_key=(keys[1],)))
    for name in ("x", "y"):
        other.workflows.save({"name": name, "blocks": [], "edges": []}, name)
        other.generation()
        assert other.secrets.known() == ()
    assert caplog.text.count("cannot be opened here") == 1


def test_a_box_opens_what_another_of_the_same_keys_sealed(settings, store, open_store):
    sealed = store.secrets.box().seal(b"data")
    assert b"data" not in sealed
    assert open_store(settings).secrets.box(to_open=True).open(sealed) == b"data"
    other = open_store(replace(settings, secrets_key=(Fernet.generate_key().decode(),)))
    with pytest.raises(SecretsLocked, match="keys that are here"):
        other.secrets.box(to_open=True).open(sealed)


def test_what_only_opens_makes_no_key(store, settings):
    with pytest.raises(SecretsLocked):
        store.secrets.box(to_open=True)
    assert not (settings.data_dir / "secrets.key").exists()
