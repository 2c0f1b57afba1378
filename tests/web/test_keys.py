"""``/api/keys``: shown once, limited, ended; and when one was last used."""

from __future__ import annotations

import typing as t

import pytest

from app.clock import SteppingClock, rfc3339
from app.store.keys import USED_MS
from tests.support.servers import wait_until
from tests.web.conftest import Studio, assert_error, document
from tests.web.managing import ok, send

PATH = "/api/keys"


def test_a_key_is_made_and_its_text_shown_once(studio: Studio) -> None:
    answer = send(studio, "POST", PATH, {"name": "ci"})
    body = ok(answer, 201)
    text = body.pop("key")
    assert text.startswith(body["prefix"])
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Location"] == f"{PATH}/{body['id']}"
    admin = studio.store.keys.find(studio.keys["admin"])
    assert admin is not None
    assert (body["name"], body["scopes"], body["createdBy"]) == ("ci", ["run"], admin.id)
    assert set(body) == {"id", "name", "prefix", "scopes", "createdAt", "createdBy"}
    workflow = studio.deploy(document("scripted/plain"))
    assert ok(studio.execute(workflow, key=text))["success"]
    for found in (studio.get(f"{PATH}/{body['id']}", "admin"), studio.get(PATH, "admin")):
        assert text not in found.get_data(as_text=True)
        assert "hash" not in found.get_data(as_text=True)


def test_what_a_key_may_is_chosen(studio: Studio) -> None:
    limits = {"rateLimit": {"perMinute": 60, "perDay": None}, "budget": {"tokens": 1000, "period": "day"}}
    sent = {"name": "all", "scopes": ["admin", "run"], "expiresAt": "2099-01-01T02:00:00+02:00", **limits}
    body = ok(send(studio, "POST", PATH, sent), 201)
    assert body["scopes"] == ["admin"]
    assert body["expiresAt"] == "2099-01-01T00:00:00.000Z"
    assert (body["rateLimit"], body["budget"]) == ({"perMinute": 60}, limits["budget"])
    row = studio.store.keys.get(body["id"])
    assert row is not None
    assert row.scopes == {"admin", "read", "run"}


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, "name"),
        ({"name": ""}, "name"),
        ({"name": "x", "scopes": []}, "scopes"),
        ({"name": "x", "scopes": ["write"]}, "scopes[0]"),
        ({"name": "x", "expiresAt": "2099-01-01"}, "expiresAt"),
        ({"name": "x", "expiresAt": "2099-13-01T00:00:00Z"}, "expiresAt"),
        ({"name": "x", "expiresAt": "2020-01-01T00:00:00Z"}, "expiresAt"),
        ({"name": "x", "expiresAt": "9999-12-31T23:59:59-23:59"}, "expiresAt"),
        ({"name": "x", "rateLimit": {}}, "rateLimit"),
        ({"name": "x", "budget": {"tokens": 0}}, "budget.tokens"),
        ({"name": "x", "hash": "x"}, "hash"),
    ],
)
def test_bodies_are_strict(studio: Studio, body: dict[str, t.Any], path: str) -> None:
    before = len(studio.store.keys.list())
    assert_error(send(studio, "POST", PATH, body), 400, "validation_failed", path=path)
    assert len(studio.store.keys.list()) == before


@pytest.mark.parametrize(
    "name", ["a\nb", "a\tb", "\x1b[31mred", "a\x7f", "a\x9b", "a\u2028b", "a\u202eb"], ids=ascii
)
def test_a_name_is_one_line(studio: Studio, name: str) -> None:
    made = ok(send(studio, "POST", PATH, {"name": "clé 鍵 🔑"}), 201)
    for method, path in (("POST", PATH), ("PATCH", f"{PATH}/{made['id']}")):
        refused = send(studio, method, path, {"name": name}, match="*" if method == "PATCH" else None)
        found = next(c for c in name if c != "a")
        cure = f"has U+{ord(found):04X} at place {name.index(found) + 1}. Take it out"
        assert_error(refused, 400, "validation_failed", path="name", says=cure)
    assert ok(studio.get(f"{PATH}/{made['id']}", "admin"))["name"] == "clé 鍵 🔑"


def test_the_list_is_newest_first_with_revoked_ones(studio: Studio) -> None:
    made = [ok(send(studio, "POST", PATH, {"name": f"k{n}"}), 201)["id"] for n in range(4)]
    send(studio, "DELETE", f"{PATH}/{made[0]}")
    first = ok(studio.get(f"{PATH}?limit=2", "admin"))
    rest = ok(studio.get(f"{PATH}?limit=100&cursor={first['nextCursor']}", "admin"))
    listed = [*first["items"], *rest["items"]]
    assert [item["id"] for item in listed[:4]] == made[::-1]
    assert [item["id"] for item in listed if "revokedAt" in item] == [made[0]]
    assert len(listed) == 7
    for scope in ("read", "run"):
        assert_error(studio.get(PATH, scope), 403, "forbidden")


def test_a_key_is_changed_by_who_has_seen_it(studio: Studio) -> None:
    made = send(studio, "POST", PATH, {"name": "ci", "rateLimit": {"perMinute": 1}})
    body, tag = ok(made, 201), made.headers["ETag"]
    path = f"{PATH}/{body['id']}"
    assert_error(send(studio, "PATCH", path, {"name": "x"}), 428, "precondition_required")
    changed = send(studio, "PATCH", path, {"budget": {"cost": 1.5}, "rateLimit": None}, match=tag)
    assert (ok(changed)["budget"], ok(changed)["name"]) == ({"cost": 1.5}, "ci")
    assert "rateLimit" not in ok(changed)
    assert changed.headers["ETag"] == studio.get(path, "admin").headers["ETag"]
    assert_error(send(studio, "PATCH", path, {"name": "x"}, match=tag), 412, "precondition_failed")
    same = send(studio, "PATCH", path, {"name": "ci"}, match=changed.headers["ETag"])
    assert same.headers["ETag"] == changed.headers["ETag"]
    assert_error(
        send(studio, "PATCH", path, {"scopes": ["admin"]}, match="*"), 400, "validation_failed", path="scopes"
    )
    assert_error(send(studio, "PATCH", f"{PATH}/key_nobody", {"name": "x"}, match="*"), 404, "not_found")


def test_revoking_is_at_once_and_can_be_repeated(studio: Studio) -> None:
    body = ok(send(studio, "POST", PATH, {"name": "ci", "scopes": ["read"]}), 201)
    assert ok(studio.get("/api/runs", body["key"])) == {"items": []}
    path = f"{PATH}/{body['id']}"
    first = ok(send(studio, "DELETE", path))
    assert first["revokedAt"]
    assert first["warnings"] == []
    assert_error(studio.get("/api/runs", body["key"]), 401, "unauthorized", says="revoked")
    second = ok(send(studio, "DELETE", path))
    assert {**second, "lastUsedAt": ""} == {**first, "lastUsedAt": ""}
    assert_error(send(studio, "DELETE", f"{PATH}/sk-studio"), 404, "not_found")
    assert_error(send(studio, "DELETE", path, match='"9"'), 412, "precondition_failed")


def test_revoking_at_once_leaves_one_row_in_the_log(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    body = ok(send(studio, "POST", PATH, {"name": "ci"}), 201)
    seen = studio.store.keys.get(body["id"])
    assert ok(send(studio, "DELETE", f"{PATH}/{body['id']}"))["revokedAt"]
    # As a request sees it that looked before the other one wrote.
    monkeypatch.setattr(studio.store.keys, "get", lambda key_id: seen)
    assert ok(send(studio, "DELETE", f"{PATH}/{body['id']}"))["revokedAt"]
    audited = ok(studio.get(f"/api/audit?subject=key:{body['id']}", "admin"))["items"]
    assert [row["action"] for row in audited] == ["key.revoke", "key.create"]


def test_who_revokes_its_own_key_is_told(studio: Studio) -> None:
    admin = studio.store.keys.find(studio.keys["admin"])
    assert admin is not None
    said = ok(send(studio, "DELETE", f"{PATH}/{admin.id}"))["warnings"]
    assert len(said) == 2
    assert "this key" in said[0]["message"]
    assert "No other key" in said[1]["message"]
    assert_error(studio.get(PATH, "admin"), 401, "unauthorized")


def test_a_key_ends_when_its_time_is_over(studio: Studio) -> None:
    clock = studio.store.keys._clock = SteppingClock(start_ms=4_000_000_000_000, step_ms=0)
    end = clock.now_ms() + 1000
    body = ok(
        send(studio, "POST", PATH, {"name": "short", "scopes": ["read"], "expiresAt": rfc3339(end)}), 201
    )
    assert ok(studio.get("/api/runs", body["key"]))
    clock.sleep(0.999)
    assert ok(studio.get("/api/runs", body["key"]))
    clock.sleep(0.001)
    assert_error(studio.get("/api/runs", body["key"]), 401, "unauthorized", says="expired")
    later = {"expiresAt": rfc3339(end + 5000)}
    ok(send(studio, "PATCH", f"{PATH}/{body['id']}", later, match="*"))
    assert ok(studio.get("/api/runs", body["key"]))


def test_the_last_use_is_written_once_a_minute(studio: Studio) -> None:
    clock = studio.store.keys._clock = SteppingClock(step_ms=0)
    row, text = studio.store.keys.create("ci", ["read"])
    other, _ = studio.store.keys.create("never")
    generation = studio.store.generation()

    def used() -> int | None:
        found = studio.store.keys.get(row.id)
        assert found is not None
        return found.last_used_at

    first = clock.now_ms()
    assert used() is None
    ok(studio.get("/api/runs", text))
    wait_until(lambda: used() == first, "the first use is written")
    clock.sleep((USED_MS - 1) / 1000)
    for _ in range(3):
        ok(studio.get("/api/runs", text))
    studio.store.keys.create("a later write")  # the writer takes jobs in order
    assert used() == first
    clock.sleep(0.001)
    ok(studio.get("/api/runs", text))
    wait_until(lambda: used() == first + USED_MS, "the next use is written")
    assert_error(studio.get("/api/runs", "sk-studio-nobody"), 401, "unauthorized")
    unused = studio.store.keys.get(other.id)
    assert unused is not None
    assert unused.last_used_at is None
    shown = ok(studio.get(f"{PATH}/{row.id}", "admin"))
    assert shown["lastUsedAt"] == rfc3339(first + USED_MS)
    assert studio.store.generation() == generation + 1, "nothing that is cached depends on it"


def test_changes_are_in_the_audit_log(studio: Studio) -> None:
    body = ok(send(studio, "POST", PATH, {"name": "ci"}), 201)
    path = f"{PATH}/{body['id']}"
    send(studio, "PATCH", path, {"name": "cd", "budget": None}, match="*")
    send(studio, "DELETE", path)
    send(studio, "DELETE", path)
    answer = studio.get(f"/api/audit?subject=key:{body['id']}", "admin")
    assert body["key"] not in answer.get_data(as_text=True)
    assert [(row["action"], row["details"]) for row in ok(answer)["items"]] == [
        ("key.revoke", {"name": "cd"}),
        ("key.update", {"changed": ["budget", "name"]}),
        ("key.create", {"name": "ci", "scopes": ["run"]}),
    ]
