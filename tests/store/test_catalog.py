"""Keys, workflows, versions, and the generation that tells when they changed."""

from __future__ import annotations

import gevent
import pytest

from app.store import Store, StoreConflict
from app.store.keys import KEY_START


def test_a_key_is_found_by_its_text_and_stored_without_it(settings, store):
    row, plaintext = store.keys.create("ci", ["run"])
    assert plaintext.startswith(KEY_START)
    assert len(plaintext) >= len(KEY_START) + 32
    assert plaintext.startswith(row.prefix)
    assert store.keys.find(plaintext) == row
    assert store.keys.find(plaintext + "x") is None
    assert store.keys.find("") is None
    assert store.keys.find("\udcff\0") is None
    secret = plaintext.removeprefix(KEY_START).encode()
    store.close()
    for file in settings.data_dir.glob("*"):
        assert secret not in file.read_bytes()


def test_admin_includes_the_other_scopes(store):
    assert store.keys.create("owner", ["admin"])[0].scopes == {"run", "read", "admin"}
    assert store.keys.create("two", ["run", "read"])[0].scopes == {"run", "read"}
    assert store.keys.create("default")[0].scopes == {"run"}
    for wrong in ([], ["write"]):
        with pytest.raises(StoreConflict, match="run, read, admin"):
            store.keys.create("bad", wrong)
    assert {key.name for key in store.keys.list()} == {"owner", "two", "default"}


def test_a_revoked_key_is_not_found_but_listed(store):
    by_id, first = store.keys.create("one")
    by_prefix, second = store.keys.create("two")
    _, third = store.keys.create("three")
    assert store.keys.revoke(by_id.id).row.revoked_at is not None
    assert store.keys.revoke(by_prefix.prefix).row.name == "two"
    assert store.keys.revoke(third).row.name == "three"
    assert [store.keys.find(text) for text in (first, second, third)] == [None, None, None]
    assert all(key.revoked_at for key in store.keys.list())
    before = store.generation()
    again = store.keys.revoke(by_id.id)
    assert not again.is_new
    assert again.row in store.keys.list(), "a second time changes nothing"
    assert store.generation() == before
    assert store.keys.revoke("nobody") is None


def test_of_processes_that_revoke_a_key_at_once_one_has_done_it(settings, open_store):
    stores = [open_store(settings) for _ in range(4)]
    for _ in range(5):
        row, _ = stores[0].keys.create("one")
        calls = [gevent.spawn(store.keys.revoke, row.id) for store in stores for _ in range(3)]
        ended = [call.get(timeout=30) for call in calls]
        assert [done.is_new for done in ended].count(True) == 1
        assert {done.row for done in ended} == {stores[0].keys.get(row.id)}
        assert ended[0].row.revision == 2


def test_an_ambiguous_prefix_is_refused_and_wildcards_mean_nothing(store):
    store.keys.create("one")
    store.keys.create("two")
    with pytest.raises(StoreConflict, match=r"one.*two|two.*one"):
        store.keys.revoke(KEY_START)
    assert store.keys.revoke("%") is None
    assert store.keys.revoke("sk_studio") is None
    assert store.keys.revoke("") is None
    assert [key.revoked_at for key in store.keys.list()] == [None, None]


def test_drafts_change_and_versions_do_not(store):
    document = {"name": "Tour", "blocks": [{"z": 1, "a": None}], "text": "é\0"}
    made = store.workflows.save(document, "Tour")
    assert store.workflows.live(made) is None
    assert store.workflows.deploy(made, "first") == (1, True)
    store.workflows.save({"name": "Changed"}, "Changed", made)
    row = store.workflows.get(made)
    assert (row.name, row.document, row.live_version) == ("Changed", {"name": "Changed"}, 1)
    live = store.workflows.live(made)
    assert (live.version, live.name) == (1, "first")
    assert live.document == document
    assert list(live.document["blocks"][0]) == ["z", "a"], "member order is kept"
    assert store.workflows.deploy(made) == (2, True)
    assert store.workflows.live(made).document == {"name": "Changed"}
    assert store.workflows.version(made, 1) == live
    for number in (0, 3, -1, 2**70):
        assert store.workflows.version(made, number) is None


def test_a_workflow_can_have_a_fixed_id(store):
    assert store.workflows.save({}, "One", "hello-local") == "hello-local"
    assert store.workflows.save({"a": 1}, "Two", "hello-local") == "hello-local"
    assert [row.name for row in store.workflows.list()] == ["Two"]


def test_what_does_not_exist(store):
    assert store.workflows.get("nope") is None
    assert store.workflows.live("nope") is None
    assert store.workflows.version("nope", 1) is None
    assert store.workflows.get("\0\ud800") is None
    with pytest.raises(StoreConflict, match="'nope'"):
        store.workflows.deploy("nope")


def test_every_change_raises_the_generation_for_everybody(settings, store):
    elsewhere = Store(settings)
    seen = [elsewhere.generation()]
    row, _ = store.keys.create("k")
    seen.append(elsewhere.generation())
    made = store.workflows.save({}, "w")
    seen.append(elsewhere.generation())
    store.workflows.save({}, "w", made)
    seen.append(elsewhere.generation())
    store.workflows.deploy(made)
    seen.append(elsewhere.generation())
    store.keys.revoke(row.id)
    seen.append(elsewhere.generation())
    assert seen == sorted(set(seen))
    assert elsewhere.generation() == seen[-1]
    elsewhere.close()
