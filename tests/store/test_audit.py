"""A change and its row in the audit log: both are kept, or neither."""

from __future__ import annotations

import typing as t
from collections.abc import Callable

import pytest

from app.clock import SteppingClock
from app.config import Settings
from app.store import Store, StoreFailed
from app.store.audit import AuditFilter, Entry, told
from app.store.documents import Draft
from app.store.writer import Note
from tests.store import other

Change = Callable[[Store, Note | None], t.Any]


class SameIds(SteppingClock):
    """Gives every row one id, so that the database takes no second one."""

    def new_id(self, prefix: str) -> str:
        """See above."""
        return f"{prefix}_same"


def _chat(store: Store, note: Note | None) -> t.Any:
    return store.chats.create({"workflow_id": "wf_1", "slug": "new", "title": "New"}, note)


def _begun(store: Store) -> None:
    """What the changes below change."""
    store.workflows.save({"n": 1}, "First", "wf_1")
    store.workflows.deploy("wf_1")
    store.workflows.save({"n": 2}, "First", "wf_1")
    store.workflows.deploy("wf_1")
    store.workflows.save({"n": 3}, "First", "wf_1")
    store.workflows.save({}, "Second", "wf_2")
    store.secrets.set("TOKEN", "a value")
    store.owner.set_password("hashed")
    store.chats.create({"workflow_id": "wf_1", "slug": "old", "title": "Old"})


#: Each with how to look at what it changes.
CHANGES: dict[str, tuple[Change, Callable[[Store], t.Any]]] = {
    "workflow.save": (
        lambda store, note: store.workflows.save({}, "New", "wf_9", note),
        lambda store: store.workflows.get("wf_9"),
    ),
    "workflow.create": (
        lambda store, note: store.workflows.create({}, "New", "wf_9", note),
        lambda store: store.workflows.get("wf_9"),
    ),
    "workflow.change": (
        lambda store, note: store.workflows.change("wf_1", None, {"n": 4}, "Changed", note),
        lambda store: store.workflows.get("wf_1"),
    ),
    "workflow.remove": (
        lambda store, note: store.workflows.remove("wf_2", None, note=note),
        lambda store: store.workflows.get("wf_2"),
    ),
    "workflow.deploy": (
        lambda store, note: store.workflows.deploy("wf_1", note=note),
        lambda store: store.workflows.live("wf_1"),
    ),
    "workflow.undeploy": (
        lambda store, note: store.workflows.versions.undeploy("wf_1", note=note),
        lambda store: store.workflows.live("wf_1"),
    ),
    "workflow.rollback": (
        lambda store, note: store.workflows.versions.rollback("wf_1", 1, draft=True, note=note),
        lambda store: (store.workflows.live("wf_1"), store.workflows.get("wf_1")),
    ),
    "key.create": (
        lambda store, note: store.keys.create("new", note=note),
        lambda store: store.keys.list(),
    ),
    "key.change": (
        lambda store, note: store.keys.change(store.keys.list()[0].id, None, {"name": "changed"}, note),
        lambda store: store.keys.list(),
    ),
    "key.revoke": (
        lambda store, note: store.keys.revoke(store.keys.list()[0].id, note),
        lambda store: store.keys.list(),
    ),
    "chat.create": (_chat, lambda store: store.chats.list()),
    "chat.update": (
        lambda store, note: store.chats.update(store.chats.list()[0][0].id, None, {"title": "Changed"}, note),
        lambda store: store.chats.list(),
    ),
    "chat.delete": (
        lambda store, note: store.chats.delete(store.chats.list()[0][0].id, note=note),
        lambda store: store.chats.list(),
    ),
    "secret.set": (
        lambda store, note: store.secrets.set("NEW", "a value", note),
        lambda store: store.secrets.list(),
    ),
    "secret.remove": (
        lambda store, note: store.secrets.remove("TOKEN", note),
        lambda store: store.secrets.list(),
    ),
    "secret.rotate": (
        lambda store, note: store.secrets.rotate(note),
        lambda store: store.secrets.list(),
    ),
    "owner.link": (
        lambda store, note: store.owner.new_link(note),
        lambda store: t.cast(t.Any, store.owner.get()).setup_expires_at,
    ),
    "owner.password": (
        lambda store, note: store.owner.set_password("another", note=note),
        lambda store: store.owner.get(),
    ),
    "owner.sign_out": (
        lambda store, note: store.owner.end_session("ses_1", 2**50, note),
        lambda store: store.owner.get(),
    ),
    "file.upload": (
        lambda store, note: store.files.put("key_1", "a", "text/plain", b"a", None, 100, note),
        lambda store: store.files.page(None, None, 10),
    ),
    "file.delete": (
        lambda store, note: store.files.remove(store.files.page(None, None, 10)[0][0].id, note),
        lambda store: store.files.page(None, None, 10),
    ),
    "document.put": (
        lambda store, note: store.documents.put("notes", Draft("b.txt", "other words"), note=note),
        lambda store: store.documents.list("notes"),
    ),
    "document.remove": (
        lambda store, note: store.documents.remove(store.documents.list("notes")[0][0].id, note=note),
        lambda store: store.documents.list("notes"),
    ),
}


@pytest.fixture
def begun(store: Store) -> Store:
    """A store with one of everything."""
    _begun(store)
    store.keys.create("old")
    store.files.put("key_1", "old", "text/plain", b"old", None, 100)
    store.documents.put("notes", Draft("a.txt", "some words"))
    return store


def _logged(store: Store) -> list[str]:
    return [row.action for row in store.audit.page(AuditFilter(), None, 100)[0]]


@pytest.mark.parametrize("name", sorted(CHANGES))
def test_a_row_that_cannot_be_written_undoes_the_change(begun: Store, name: str) -> None:
    change, look = CHANGES[name]
    before = look(begun)
    begun.audit._clock = SameIds()
    begun.audit.record("cli", "the first", "of this id")
    note = begun.audit.note("cli", told(name, "subject:1"))
    with pytest.raises(StoreFailed):
        change(begun, note)
    assert look(begun) == before
    assert _logged(begun) == ["the first"]


@pytest.mark.parametrize("name", sorted(CHANGES))
def test_a_change_and_its_row_are_kept_together(begun: Store, name: str) -> None:
    change, look = CHANGES[name]
    before = look(begun)
    change(begun, begun.audit.note("cli", told(name, "subject:1"), "192.0.2.7", "req_1"))
    if name != "secret.rotate":  # what that changes nobody sees
        assert look(begun) != before
    (row,) = begun.audit.page(AuditFilter(), None, 100)[0]
    assert (row.actor, row.action, row.subject, row.address) == ("cli", name, "subject:1", "192.0.2.7")


def test_what_changes_nothing_leaves_no_row(begun: Store) -> None:
    note = begun.audit.note("cli", told("is not", "told"))
    assert begun.keys.revoke("sk-nobody's", note) is None
    assert not begun.files.remove("file_none", note)
    assert not begun.secrets.remove("NONE", note)
    assert begun.chats.update("chat_none", None, {}, note) is None
    key = begun.keys.list()[0]
    begun.keys.change(key.id, None, {"name": key.name}, note)
    draft = begun.workflows.get("wf_1")
    assert draft is not None
    begun.workflows.change("wf_1", None, draft.document, draft.name, note)
    assert _logged(begun) == []


def test_what_is_said_may_depend_on_what_came_of_it(store: Store) -> None:
    note = store.audit.note("cli", lambda row: Entry("key.create", f"key:{row.id}", {"name": row.name}))
    made, _ = store.keys.create("nul\0 and \ud800", note=note)
    (row,) = store.audit.page(AuditFilter(subject=f"key:{made.id}"), None, 10)[0]
    assert row.details == {"name": made.name}


def test_a_process_killed_between_the_two_keeps_neither(settings: Settings, store: Store) -> None:
    process = other.start("killed_in_note", settings)
    assert process.wait(60) < 0
    assert [row.name for row in store.keys.list()] == ["told"]
    assert _logged(store) == ["key.create"]
