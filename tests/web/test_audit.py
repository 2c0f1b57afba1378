"""The audit log over HTTP: every change of the management API leaves a row, without what is secret."""

from __future__ import annotations

import typing as t

from app.clock import SteppingClock
from tests.web.conftest import Studio, assert_error


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
