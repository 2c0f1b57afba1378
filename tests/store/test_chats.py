"""Chats in the store: a slug is one chat's, revisions tell who was first, passes end with their gate."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from app.store.chats import SlugTaken
from app.store.errors import RevisionConflict, StoreConflict

FULL = {
    "title": "Support",
    "description": "Ask us\0",
    "welcome_message": "Hello!",
    "auth_type": "password",
    "password": "scrypt:hash",
    "allowed_emails": ("@example.com", "ada@example.org"),
    "outputs": ("agent_1.content",),
    "include_thinking": True,
    "include_tool_calls": True,
    "customization": {"primaryColor": "#123456"},
    "allowed_origins": ("https://example.com",),
    "rate_limit": {"perMinute": 5},
    "budget": {"tokens": 100, "period": "day"},
    "redact": {"mode": "live"},
    "active": False,
}


@pytest.fixture
def workflow(store):
    return store.workflows.save({"blocks": []}, "Support")


def made(store, workflow, slug="support", **values):
    return store.chats.create({"workflow_id": workflow, "slug": slug, "title": "Support", **values})


def test_a_chat_is_read_as_it_was_made(store, workflow):
    row = made(store, workflow, **FULL)
    assert store.chats.get(row.id) == row
    assert store.chats.by_slug("support") == row
    assert {name: getattr(row, name) for name in FULL} == {**FULL, "description": "Ask us�"}
    assert row.id.startswith("chat_")
    assert (row.revision, row.password_version) == (1, 1)
    assert row.created_at == row.updated_at > 0
    assert "scrypt" not in repr(row)


def test_what_is_left_out_is_unset(store, workflow):
    row = made(store, workflow)
    assert row == store.chats.get(row.id)
    assert (row.auth_type, row.active, row.outputs, row.allowed_emails) == ("public", True, None, ())
    assert made(store, workflow, "other", outputs=()).outputs == ()


def test_a_slug_is_one_chats_only(store, workflow):
    row, other = made(store, workflow), made(store, workflow, "other")
    with pytest.raises(SlugTaken, match="'support'") as caught:
        made(store, workflow)
    assert caught.value.code == "slug_taken"
    with pytest.raises(SlugTaken):
        store.chats.update(other.id, 1, {"slug": "support"})
    assert store.chats.update(row.id, 1, {"slug": "support", "title": "T"}).title == "T"
    assert store.chats.by_slug("nobody") is None


def test_a_chat_needs_its_workflow(store, workflow):
    with pytest.raises(StoreConflict, match="wf_nobody"):
        made(store, "wf_nobody")


def test_of_two_writers_the_second_is_told(store, workflow):
    row = made(store, workflow)
    changed = store.chats.update(row.id, 1, {"title": "One"})
    assert (changed.title, changed.revision) == ("One", 2)
    with pytest.raises(RevisionConflict):
        store.chats.update(row.id, 1, {"title": "Two"})
    with pytest.raises(RevisionConflict):
        store.chats.delete(row.id, 1)
    assert store.chats.get(row.id) == changed
    assert store.chats.update("chat_nobody", 1, {"title": "Two"}) is None


def test_passes_end_with_what_decides_who_gets_in(store, workflow):
    row = made(store, workflow)
    kept = [{"title": "T"}, {"auth_type": "public"}, {"active": False}, {"slug": "s"}]
    for change in kept:
        row = store.chats.update(row.id, None, change)
        assert row.password_version == 1
    ends = [
        {"auth_type": "password", "password": "a"},
        {"password": "b"},
        {"allowed_emails": ("@example.com",)},
    ]
    for number, change in enumerate(ends, 2):
        row = store.chats.update(row.id, None, change)
        assert row.password_version == number


def test_the_list_is_newest_first_page_by_page(store, workflow):
    other = store.workflows.save({"blocks": []}, "Other")
    last = made(store, other, "c3")
    # Of one millisecond the order is that of ids.
    rows = sorted(
        [*(made(store, workflow, f"c{number}") for number in range(3)), last], key=lambda row: row.id
    )
    found, further = store.chats.list(None, 2)
    assert found == [rows[3], rows[2]]
    assert store.chats.list(further, 2) == ([rows[1], rows[0]], None)
    assert store.chats.list(workflow_id=other) == ([last], None)


def test_a_change_of_another_process_is_seen(settings, open_store):
    one, other = open_store(settings), open_store(settings)
    row = made(one, one.workflows.save({"blocks": []}, "Support"))
    assert other.chats.by_slug("support") == row
    changed = one.chats.update(row.id, 1, {"title": "New"})
    assert other.chats.by_slug("support") == changed
    seen = other.generation()
    assert one.chats.delete(row.id, 2) is True
    assert other.chats.by_slug("support", seen) == changed, "as of the generation that was read"
    assert other.chats.by_slug("support") is None
    assert one.chats.delete(row.id) is False


def test_a_row_can_be_put_back(store, workflow):
    row = made(store, workflow, **FULL)
    changed = store.chats.update(row.id, 1, {"outputs": None, "customization": None, "password": None})
    assert changed == replace(
        row,
        outputs=None,
        customization=None,
        password=None,
        password_version=2,
        revision=2,
        updated_at=changed.updated_at,
    )


def test_a_chat_that_is_read_while_it_changes_is_not_what_others_get(store, workflow, monkeypatch):
    """Reads of a database server let others go on, so what was read last need not be what is true now."""
    row = made(store, workflow)
    read = store._backend.rows
    changes = [lambda: store.chats.update(row.id, None, {"active": False})]

    def rows(statement, values):
        found = read(statement, values)
        if values.get("called") and changes:
            changes.pop()()
            assert store.chats.by_slug("support").active is False
        return found

    before = store.generation()
    monkeypatch.setattr(store.chats, "_backend", SimpleNamespace(rows=rows))
    assert store.chats.by_slug("support", before) == row
    assert store.chats.by_slug("support").active is False
