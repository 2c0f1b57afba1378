"""The audit log over HTTP: every change of the management API leaves a row, without what is secret."""

from __future__ import annotations

import typing as t

from app.clock import SteppingClock, first_id
from tests.web.conftest import Studio, assert_error, document
from tests.web.managing import ok, send


def rows(studio: Studio, query: str = "") -> list[dict[str, t.Any]]:
    """The newest rows."""
    answer = studio.get(f"/api/audit{query}", "admin")
    assert answer.status_code == 200, answer.get_data()
    return t.cast("list[dict[str, t.Any]]", answer.get_json()["items"])


def test_a_row_says_who_what_whence(studio: Studio) -> None:
    with studio.app.test_request_context(
        "/", headers={"X-Request-Id": "req-1"}, environ_base={"REMOTE_ADDR": "192.0.2.7"}
    ):
        from flask import g

        from app.web import audit
        from app.web.auth import Caller

        g.caller = Caller("key_1", frozenset({"admin"}))
        audit.record("workflow.deploy", "workflow:wf_1", {"version": 2})
        g.caller = Caller(None, frozenset())
        audit.record("owner.sign_in", "owner:owner", actor="owner")
    first, second = sorted(rows(studio), key=lambda row: row["actor"])
    assert first.pop("id").startswith("aud_")
    assert first.pop("at").endswith("Z")
    assert first == {
        "actor": "key_1",
        "action": "workflow.deploy",
        "subject": "workflow:wf_1",
        "details": {"version": 2},
        "address": "192.0.2.7",
        "requestId": "req-1",
    }
    assert second["actor"] == "owner"
    assert "details" not in second


def test_the_list_is_filtered_and_read_in_pages(studio: Studio) -> None:
    # Ids of one millisecond are in no order; of this clock they are.
    studio.store.audit._clock = SteppingClock()
    for number in range(5):
        studio.store.audit.record("cli", "key.create" if number % 2 else "key.revoke", f"key:{number}")
    studio.store.audit.record("key_1", "key.create", "key:0")
    assert [row["subject"] for row in rows(studio)] == ["key:0", "key:4", "key:3", "key:2", "key:1", "key:0"]
    assert [row["actor"] for row in rows(studio, "?subject=key:0")] == ["key_1", "cli"]
    assert [row["subject"] for row in rows(studio, "?action=key.create&actor=cli")] == ["key:3", "key:1"]
    first = studio.get("/api/audit?limit=4", "admin").get_json()
    rest = studio.get(f"/api/audit?limit=4&cursor={first['nextCursor']}", "admin").get_json()
    assert [row["subject"] for row in rest["items"]] == ["key:1", "key:0"]
    assert "nextCursor" not in rest


def test_a_wrong_query_says_everything(studio: Studio) -> None:
    answer = studio.get("/api/audit?actor=&limit=0&cursor=x&who=me", "admin")
    error = assert_error(answer, 400, "validation_failed")
    assert {detail["path"] for detail in error["details"]} == {"actor", "limit", "cursor", "who"}


def test_only_admin_reads_it(studio: Studio) -> None:
    for scope in ("read", "run"):
        assert_error(studio.get("/api/audit", scope), 403, "forbidden")


def test_every_change_is_recorded_without_what_it_holds(studio: Studio) -> None:
    """Those of workflows, keys, files, chats and the owner are in their own tests."""
    send(studio, "PUT", "/api/secrets/TOKEN", {"value": "hunter2-secret-value"})
    send(studio, "PUT", "/api/secrets/TOKEN", {"value": "hunter3-secret-value"})
    send(studio, "DELETE", "/api/secrets/TOKEN")
    put = {"collection": "notes", "source": "a.txt", "text": "what the document says"}
    kept = ok(send(studio, "POST", "/api/documents", put), 201)["id"]
    assert send(studio, "DELETE", f"/api/documents/{kept}", match="*").status_code == 204
    workflow = studio.deploy(document("scripted/plain", memory={"type": "conversation"}))
    ok(studio.execute(workflow, {"input": "Hi", "conversationId": "mine"}))
    thread = ok(studio.get("/api/threads"))["items"][0]["threadId"]
    ok(send(studio, "DELETE", f"/api/threads/{thread}/memory", key="run"))
    found = [(row["action"], row["subject"], row.get("details")) for row in rows(studio)]
    assert found == [
        ("memory.forget", f"thread:{thread}", {"deleted": 1}),
        ("document.remove", f"document:{kept}", {"collection": "notes"}),
        ("document.put", f"document:{kept}", {"collection": "notes", "version": 1}),
        ("secret.remove", "secret:TOKEN", None),
        ("secret.set", "secret:TOKEN", {"new": False}),
        ("secret.set", "secret:TOKEN", {"new": True}),
    ]
    whole = studio.get("/api/audit", "admin").get_data(as_text=True)
    assert "secret-value" not in whole
    assert "what the document says" not in whole


def test_a_change_whose_row_cannot_be_written_is_none(studio: Studio) -> None:
    """The rest of the writers are in ``tests/store/test_audit.py``."""
    workflow = studio.deploy(document("scripted/plain", memory={"type": "conversation"}))
    ok(studio.execute(workflow, {"input": "Hi", "conversationId": "mine"}))
    thread = ok(studio.get("/api/threads"))["items"][0]["threadId"]
    put = {"collection": "notes", "source": "a.txt", "text": "what the document says"}
    studio.store.audit._stamp = lambda: ("aud_1", 1)  # type: ignore[method-assign]
    studio.store.audit.record("cli", "the first", "of this id")
    for method, path, body, key in (
        ("POST", "/api/keys", {"name": "new", "scopes": ["run"]}, "admin"),
        ("PUT", "/api/secrets/TOKEN", {"value": "a value"}, "admin"),
        ("POST", "/api/documents", put, "admin"),
        ("DELETE", f"/api/threads/{thread}/memory", None, "run"),
    ):
        answer = send(studio, method, path, body, key=key)
        assert answer.status_code >= 500, (path, answer.get_data())
    assert {key.name for key in studio.store.keys.list()} == {"run", "read", "admin"}
    assert studio.store.secrets.list() == []
    assert studio.store.documents.list("notes")[0] == []
    assert len(studio.store.memories.page(thread, None, 10)[0]) == 1
    assert [row["action"] for row in rows(studio)] == ["the first"]


def test_what_fails_leaves_no_row(studio: Studio) -> None:
    assert_error(send(studio, "DELETE", "/api/secrets/NOBODY"), 404, "not_found")
    assert_error(send(studio, "POST", "/api/keys", {}), 400, "validation_failed")
    assert rows(studio) == []


def test_old_rows_are_forgotten(studio: Studio) -> None:
    for number in range(3):
        studio.store.audit.record("cli", "key.create", f"key:{number}")
    now = studio.app.extensions["studio"].clock.now_ms()
    assert studio.store.audit.forget_before(first_id("aud", now - 60_000)) == 0
    assert studio.store.audit.forget_before(first_id("aud", now + 60_000)) == 3
    assert rows(studio) == []
