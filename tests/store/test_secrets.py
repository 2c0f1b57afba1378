"""Secrets in the store: sealed, opened by name, never without their key."""

from __future__ import annotations

import stat
from dataclasses import replace

import pytest
from cryptography.fernet import Fernet

from app.errors import BlockError
from app.store import StoreFailed
from app.store import secrets as module
from app.store.errors import StoreConflict
from app.store.sealing import SecretsLocked

FIRST, SECOND = Fernet.generate_key().decode(), Fernet.generate_key().decode()


def keyed(settings, *keys):
    return replace(settings, secrets_key=keys)


def rows(store):
    """What the table really holds."""
    return store._writer.submit(lambda link: link.rows(store.secrets._list, {})).wait()


def test_a_value_is_had_by_name_and_lies_sealed(store, settings):
    assert store.secrets.set("CRM_KEY", "s3cret-välue") is True
    assert store.secrets.values()["CRM_KEY"] == "s3cret-välue"
    [(name, sealed, created, updated)] = rows(store)
    assert name == "CRM_KEY"
    assert created == updated
    assert b"s3cret" not in bytes(sealed)
    assert Fernet((settings.data_dir / "secrets.key").read_bytes().strip()).decrypt(bytes(sealed)) == (
        "s3cret-välue".encode()
    )


def test_the_list_has_names_and_times_only(store):
    store.secrets.set("B_KEY", "bbbbbbbb")
    store.secrets.set("A_KEY", "aaaaaaaa")
    listed = store.secrets.list()
    assert [row.name for row in listed] == ["A_KEY", "B_KEY"]
    assert "aaaa" not in repr(listed)
    assert "aaaa" not in repr(store.secrets.values())


def test_setting_again_replaces_and_is_seen_at_once(store):
    store.secrets.set("KEY", "first-value")
    before = store.secrets.values()
    assert before["KEY"] == "first-value"
    assert store.secrets.set("KEY", "second-value") is False
    assert store.secrets.values()["KEY"] == "second-value"
    assert before["KEY"] == "first-value"  # a run in the middle of a call is not disturbed
    [row] = store.secrets.list()
    assert row.created_at <= row.updated_at


def test_removing(store):
    store.secrets.set("KEY", "some-value")
    assert store.secrets.remove("KEY") is True
    assert store.secrets.remove("KEY") is False
    with pytest.raises(BlockError, match="studio secret set KEY") as caught:
        store.secrets.values()["KEY"]
    assert caught.value.code == "secret_unknown"


def test_what_another_process_stores_is_seen(settings, open_store):
    one, other = open_store(settings), open_store(settings)
    assert "KEY" not in other.secrets.values()
    one.secrets.set("KEY", "some-value")
    assert other.secrets.values()["KEY"] == "some-value"


def test_values_are_kept_while_secrets_do_not_change(store):
    store.secrets.set("KEY", "some-value")
    kept = store.secrets.values()
    store.keys.create("a change of another table")
    assert store.secrets.values() is kept


def test_only_values_that_were_asked_for_are_opened(store):
    for name in ("A_KEY", "B_KEY"):
        store.secrets.set(name, f"value of {name}")
    assert store.secrets.opened() == ()
    store.secrets.values()["B_KEY"]
    assert store.secrets.opened() == ("value of B_KEY",)


def test_values_that_were_used_stay_known_when_secrets_change(store):
    """A call that began with one may still fail, and its server say it back into the log."""
    for name in ("A_KEY", "B_KEY"):
        store.secrets.set(name, f"value of {name}")
        store.secrets.values()[name]
    store.secrets.set("A_KEY", "another value")
    store.secrets.remove("B_KEY")
    assert dict(store.secrets.values()) == {"A_KEY": "another value"}
    assert store.secrets.opened() == ("value of A_KEY", "value of B_KEY", "another value")


def test_the_values_longest_not_used_are_forgotten_at_last(store, monkeypatch):
    monkeypatch.setattr(module, "MOST_USED", 2)
    for number in range(3):
        store.secrets.set("KEY", f"value {number}")
        store.secrets.values()["KEY"]
    assert store.secrets.opened() == ("value 1", "value 2")


def test_the_key_file_is_its_owners_alone_and_made_by_the_first_secret(store, settings):
    file = settings.data_dir / "secrets.key"
    store.secrets.values()
    assert not file.exists()
    store.secrets.set("KEY", "some-value")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    made = file.read_bytes()
    store.secrets.set("OTHER", "some-value")
    assert file.read_bytes() == made
    assert [path.name for path in settings.data_dir.iterdir() if "secrets" in path.name] == ["secrets.key"]


def test_a_key_file_that_others_may_read_is_told(settings, open_store, caplog):
    open_store(settings).secrets.set("KEY", "some-value")
    file = settings.data_dir / "secrets.key"
    file.chmod(0o640)
    assert open_store(settings).secrets.values()["KEY"] == "some-value"
    assert caplog.messages == [f"others may read the key of the secrets; cure: chmod 600 {file}"]


def test_without_the_key_nothing_opens_and_nothing_is_sealed_with_a_new_one(settings, open_store):
    open_store(settings).secrets.set("KEY", "some-value")
    (settings.data_dir / "secrets.key").unlink()
    store = open_store(settings)
    for use in (lambda: store.secrets.values()["KEY"], lambda: store.secrets.set("OTHER", "some-value")):
        with pytest.raises(SecretsLocked, match="STUDIO_SECRETS_KEY") as caught:
            use()
        assert caught.value.code == "secrets_locked"
    assert [row.name for row in store.secrets.list()] == ["KEY"]
    assert not (settings.data_dir / "secrets.key").exists()
    assert store.secrets.remove("KEY") is True
    store.secrets.set("OTHER", "some-value")
    assert store.secrets.values()["OTHER"] == "some-value"


@pytest.mark.parametrize("content", [b"", b"not a key\n", b"\xff\xfe"])
def test_a_key_file_without_a_key_is_named(store, settings, content):
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    (settings.data_dir / "secrets.key").write_bytes(content)
    with pytest.raises(SecretsLocked, match=r"secrets\.key"):
        store.secrets.set("KEY", "some-value")


def test_another_key_is_told_and_changes_nothing(settings, open_store):
    open_store(keyed(settings, FIRST)).secrets.set("KEY", "some-value")
    store = open_store(keyed(settings, SECOND))
    with pytest.raises(SecretsLocked, match="KEY was sealed with another key"):
        store.secrets.values()["KEY"]
    with pytest.raises(SecretsLocked):
        store.secrets.set("OTHER", "some-value")
    with pytest.raises(SecretsLocked, match="The secret KEY was sealed with another key"):
        store.secrets.rotate()
    assert [row.name for row in store.secrets.list()] == ["KEY"]


def test_rotation(settings, open_store):
    open_store(keyed(settings, FIRST)).secrets.set("KEY", "some-value")
    both = open_store(keyed(settings, SECOND, FIRST))
    assert both.secrets.values()["KEY"] == "some-value"
    both.secrets.set("NEW", "new-value")
    assert both.secrets.rotate() == 2
    only = open_store(keyed(settings, SECOND))
    assert dict(only.secrets.values()) == {"KEY": "some-value", "NEW": "new-value"}
    assert not (settings.data_dir / "secrets.key").exists()


def test_there_is_a_bound(store, monkeypatch):
    monkeypatch.setattr(module, "MOST", 1)
    store.secrets.set("KEY", "some-value")
    with pytest.raises(StoreConflict, match="1 secrets already"):
        store.secrets.set("OTHER", "some-value")
    store.secrets.set("KEY", "other-value")
    assert [row.name for row in store.secrets.list()] == ["KEY"]


def test_a_closed_store_keeps_nothing(store):
    store.close()
    with pytest.raises(StoreFailed):
        store.secrets.set("KEY", "some-value")
