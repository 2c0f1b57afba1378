"""``/api/workflows``: drafts are made, read, changed, judged and removed, each by who has seen what it changes."""

from __future__ import annotations

import typing as t

import pytest
import yaml

from app.schemas import chat_deployment
from app.workflows import ids
from tests.web.conftest import Studio, assert_error, document
from tests.web.managing import made, ok, send

GOOD = document("scripted/plain")
#: Nobody could run it: a model that is not there, an edge into nothing.
UNFINISHED = {
    "name": "Unfinished",
    "blocks": [{"id": "agent_1", "type": "agent", "config": {"model": "scripted/nonesuch"}}],
    "edges": [{"source": "agent_1", "target": "later"}],
}


def test_a_draft_is_made_and_read(studio: Studio) -> None:
    answer = send(studio, "POST", "/api/workflows", GOOD)
    body = ok(answer, 201)
    assert answer.headers["Location"] == f"/api/workflows/{body['id']}"
    assert list(body) == [
        "id", "name", "draftDiffers", "createdAt", "updatedAt", "document", "problems", "warnings",
    ]  # fmt: skip
    assert (body["name"], body["document"], body["draftDiffers"]) == ("One agent", GOOD, True)
    assert (body["problems"], body["warnings"]) == ([], [])
    shown = studio.get(f"/api/workflows/{body['id']}")
    assert shown.get_json() == body
    assert shown.headers["ETag"] == answer.headers["ETag"]
    again = send(studio, "GET", f"/api/workflows/{body['id']}", If_None_Match=shown.headers["ETag"])
    assert (again.status_code, again.get_data()) == (304, b"")
    assert_error(studio.get("/api/workflows/wf_nobody"), 404, "not_found")


def test_an_unfinished_draft_is_kept_with_what_is_wrong_with_it(studio: Studio) -> None:
    body = ok(send(studio, "POST", "/api/workflows", UNFINISHED), 201)
    assert body["document"] == UNFINISHED
    assert [problem["path"] for problem in body["problems"]] == ["blocks[0].config.model", "edges[0].target"]
    assert all(problem["message"] for problem in body["problems"])
    assert ok(studio.get(f"/api/workflows/{body['id']}"))["problems"] == body["problems"]
    refused = send(studio, "POST", f"/api/workflows/{body['id']}/deploy", {})
    error = assert_error(refused, 400, "validation_failed", path="edges[0].target")
    assert len(error["details"]) == 2
    assert_error(studio.execute(body["id"]), 409, "not_deployed")


def test_nothing_at_all_is_a_draft_too(studio: Studio) -> None:
    body = ok(send(studio, "POST", "/api/workflows", {}), 201)
    assert (body["name"], body["document"]) == ("Untitled", {})
    assert body["problems"]
    empty = studio.client.post("/api/workflows", headers={"X-API-Key": studio.keys["admin"]})
    assert_error(empty, 400, "validation_failed", says="empty")


@pytest.mark.parametrize("kind", ["application/yaml", "text/x-yaml", "application/x-yaml; charset=utf-8"])
def test_yaml_comes_in_and_goes_out(studio: Studio, kind: str) -> None:
    answer = studio.client.post(
        "/api/workflows",
        data=yaml.safe_dump(GOOD, sort_keys=False).encode(),
        headers={"X-API-Key": studio.keys["admin"], "Content-Type": kind},
    )
    body = ok(answer, 201)
    assert body["document"] == GOOD
    path = f"/api/workflows/{body['id']}"
    out = send(studio, "GET", path, Accept="application/yaml")
    assert out.content_type == "application/yaml"
    assert out.headers["Vary"] == "Accept"
    assert yaml.safe_load(out.get_data()) == GOOD
    back = studio.client.put(
        path,
        data=out.get_data().replace(b"One agent", b"Two agents"),
        headers={"X-API-Key": studio.keys["admin"], "Content-Type": kind, "If-Match": out.headers["ETag"]},
    )
    assert ok(back)["name"] == "Two agents"
    assert send(studio, "GET", path, Accept="*/*").is_json


@pytest.mark.parametrize(
    ("data", "kind", "status", "code"),
    [
        (b"{", "application/json", 400, "invalid_json"),
        (b"[]", "application/json", 400, "validation_failed"),
        (b"a: 1\na: 2", "application/yaml", 400, "validation_failed"),
        (b"- 1", "application/yaml", 400, "validation_failed"),
        (b"a: \xff", "application/yaml", 400, "validation_failed"),
        (b"x", "text/plain", 415, "unsupported_media_type"),
    ],
)
def test_what_is_no_document_is_refused(
    studio: Studio, data: bytes, kind: str, status: int, code: str
) -> None:
    headers = {"X-API-Key": studio.keys["admin"], "Content-Type": kind, "If-Match": "*"}
    _, _ = made(studio, GOOD)
    for method, path in (("POST", "/api/workflows"), ("POST", "/api/workflows/validate")):
        assert_error(studio.client.open(path, method=method, data=data, headers=headers), status, code)
    assert len(studio.store.workflows.list()) == 1


def test_a_draft_is_replaced_by_who_has_seen_it(studio: Studio) -> None:
    workflow, tag = made(studio, GOOD)
    path = f"/api/workflows/{workflow}"
    new = {**GOOD, "name": "Renamed"}
    needed = assert_error(send(studio, "PUT", path, new), 428, "precondition_required")
    assert tag in needed["message"]
    first = send(studio, "PUT", path, new, match=tag)
    assert ok(first)["name"] == "Renamed"
    assert first.headers["ETag"] != tag
    assert_error(send(studio, "PUT", path, GOOD, match=tag), 412, "precondition_failed")
    assert ok(studio.get(path))["document"] == new
    weak = send(studio, "PUT", path, GOOD, match=f'"x", W/{first.headers["ETag"]}')
    assert ok(weak)["document"] == GOOD
    assert ok(send(studio, "PUT", path, new, match="*"))["document"] == new
    assert_error(send(studio, "PUT", "/api/workflows/nobody", new, match="*"), 404, "not_found")


def test_saving_the_same_again_changes_nothing(studio: Studio) -> None:
    workflow, tag = made(studio, GOOD)
    generation = studio.store.generation()
    answer = send(studio, "PUT", f"/api/workflows/{workflow}", GOOD, match=tag)
    assert ok(answer)
    assert answer.headers["ETag"] == tag
    changed = send(studio, "PUT", f"/api/workflows/{workflow}", {**GOOD, "name": "B"}, match=tag)
    assert ok(changed)
    assert studio.store.generation() == generation, "nobody who runs something reads a draft"


def test_a_merge_patch_changes_members(studio: Studio) -> None:
    workflow, tag = made(studio, {**GOOD, "variables": {"a": 1, "b": {"c": 2}}})
    path = f"/api/workflows/{workflow}"
    patch = {"name": "Patched", "variables": {"a": None, "b": {"d": 3}}, "settings": None}
    assert_error(send(studio, "PATCH", path, patch), 428, "precondition_required")
    answer = send(studio, "PATCH", path, patch, match=tag, Content_Type="application/merge-patch+json")
    body = ok(answer)
    assert body["name"] == "Patched"
    assert body["document"]["variables"] == {"b": {"c": 2, "d": 3}}
    assert "settings" not in body["document"]
    assert body["document"]["blocks"] == GOOD["blocks"]
    assert ok(send(studio, "PATCH", path, {"name": None}, match="*"))["name"] == "Patched"


def test_put_makes_a_workflow_under_its_id(studio: Studio) -> None:
    path = "/api/workflows/support-bot"
    assert_error(send(studio, "PUT", path, GOOD), 404, "not_found")
    answer = send(studio, "PUT", path, GOOD, If_None_Match="*")
    assert ok(answer, 201)["id"] == "support-bot"
    assert_error(send(studio, "PUT", path, GOOD, If_None_Match="*"), 412, "precondition_failed")
    wrong = send(studio, "PUT", "/api/workflows/not%20an%20id", GOOD, If_None_Match="*")
    assert_error(wrong, 400, "validation_failed", path="workflow_id")


def test_a_workflow_that_is_made_anew_is_another_one(studio: Studio) -> None:
    path = "/api/workflows/again"
    tag = send(studio, "PUT", path, GOOD, If_None_Match="*").headers["ETag"]
    assert send(studio, "DELETE", path, match=tag).status_code == 204
    assert_error(studio.get(path), 404, "not_found")
    send(studio, "PUT", path, GOOD, If_None_Match="*")
    assert_error(send(studio, "PUT", path, {}, match=tag), 412, "precondition_failed")


def test_a_document_is_judged_without_being_kept(studio: Studio) -> None:
    good = ok(send(studio, "POST", "/api/workflows/validate", GOOD, key="read"))
    assert good == {"valid": True, "problems": [], "warnings": []}
    bad = ok(send(studio, "POST", "/api/workflows/validate", UNFINISHED, key="read"))
    assert not bad["valid"]
    assert [p["path"] for p in bad["problems"]] == ["blocks[0].config.model", "edges[0].target"]
    assert studio.store.workflows.list() == []


def test_what_a_document_uses_is_judged_too(studio: Studio) -> None:
    uses = {
        "name": "Uses",
        "blocks": [
            {"id": "child", "type": "workflow", "config": {"workflow": "elsewhere"}},
            {
                "id": "http",
                "type": "http",
                "config": {
                    "method": "GET",
                    "url": "https://example.com",
                    "headers": {"Authorization": "Bearer {{ secrets.TOKEN }}"},
                },
            },
        ],
        "edges": [{"source": "child", "target": "http"}],
    }
    body = ok(send(studio, "POST", "/api/workflows/validate", uses))
    assert [p["path"] for p in body["problems"]] == ["blocks[0].config.workflow"]
    studio.deploy(GOOD, "elsewhere")
    body = ok(send(studio, "POST", "/api/workflows/validate", uses))
    assert body["valid"]
    assert [p["message"] for p in body["warnings"]] == [
        "there is no secret TOKEN; store it: studio secret set TOKEN"
    ]
    itself = ok(send(studio, "POST", "/api/workflows/validate?workflowId=elsewhere", uses))
    assert "inside itself" in itself["problems"][0]["message"]


def test_a_draft_is_judged_as_of_now(studio: Studio) -> None:
    uses = {
        "name": "Uses",
        "blocks": [
            {"id": "child", "type": "workflow", "config": {"workflow": "elsewhere"}},
            {"id": "look", "type": "retrieve", "config": {"collection": "notes", "query": "x"}},
        ],
        "edges": [{"source": "child", "target": "look"}],
    }
    path = f"/api/workflows/{made(studio, uses)[0]}"

    def said() -> tuple[int, int]:
        body = ok(studio.get(path))
        assert ok(studio.get(path)) == body
        return len(body["problems"]), len(body["warnings"])

    assert said() == (1, 0)
    studio.deploy(GOOD, "elsewhere")
    assert said() == (0, 1)
    put = {"collection": "notes", "source": "a", "text": "some words"}
    ok(send(studio, "POST", "/api/documents", put), 201)
    assert said() == (0, 0)
    assert send(studio, "DELETE", "/api/workflows/elsewhere", match="*").status_code == 204
    assert said() == (1, 0)
    assert_error(send(studio, "POST", f"{path}/deploy"), 400, "validation_failed")


def test_the_list_is_newest_first_in_pages_and_by_name(studio: Studio) -> None:
    ids = [made(studio, {**GOOD, "name": name})[0] for name in ("One", "a_b", "aXb", "100%", "Two")]
    live = studio.deploy({**GOOD, "name": "Live"})
    studio.store.workflows.save({**GOOD, "settings": {"timeout_s": 9}}, "Edited", studio.deploy(GOOD))
    body = ok(studio.get("/api/workflows"))
    assert {item["id"] for item in body["items"]} >= {*ids, live}
    by_name = {item["name"]: item for item in body["items"]}
    assert by_name["Live"]["liveVersion"] == 1
    assert not by_name["Live"]["draftDiffers"]
    assert by_name["Edited"]["draftDiffers"]
    assert by_name["One"]["draftDiffers"]
    assert "liveVersion" not in by_name["One"]
    assert set(by_name["One"]) == {"id", "name", "draftDiffers", "createdAt", "updatedAt"}
    times = [item["createdAt"] for item in body["items"]]
    assert times == sorted(times, reverse=True)
    seen: list[str] = []
    path = "/api/workflows?limit=3"
    while True:
        page = ok(studio.get(path))
        seen += [item["id"] for item in page["items"]]
        if "nextCursor" not in page:
            break
        path = f"/api/workflows?limit=3&cursor={page['nextCursor']}"
    assert seen == [item["id"] for item in body["items"]]

    def named(part: str) -> list[str]:
        return sorted(item["name"] for item in ok(studio.get(f"/api/workflows?name={part}"))["items"])

    assert named("a_b") == ["a_b"]
    assert named("100%25") == ["100%"]
    assert named("TWO") == ["Two"]
    assert named("%25") == ["100%"]
    assert named("nobody") == []
    error = assert_error(studio.get("/api/workflows?name=&limit=x&cursor=1"), 400, "validation_failed")
    assert {detail["path"] for detail in error["details"]} == {"name", "limit", "cursor"}


def test_the_order_of_members_is_no_difference(studio: Studio) -> None:
    workflow = studio.deploy(GOOD)
    reordered = {key: GOOD[key] for key in reversed(GOOD)}
    body = ok(send(studio, "PUT", f"/api/workflows/{workflow}", reordered, match="*"))
    assert not body["draftDiffers"]
    assert [w["draftDiffers"] for w in ok(studio.get("/api/workflows"))["items"]] == [False]
    body = ok(send(studio, "PATCH", f"/api/workflows/{workflow}", {"variables": {"a": 1}}, match="*"))
    assert body["draftDiffers"]


def test_a_workflow_is_removed_and_its_runs_stay(studio: Studio) -> None:
    workflow = studio.deploy(GOOD)
    run = studio.execute(workflow, {"input": "Hi"}).get_json()["runId"]
    path = f"/api/workflows/{workflow}"
    assert_error(send(studio, "DELETE", path), 428, "precondition_required")
    assert_error(send(studio, "DELETE", path, match='"old"'), 412, "precondition_failed")
    assert_error(send(studio, "DELETE", path + "?chats=keep", match="*"), 400, "validation_failed")
    tag = studio.get(path).headers["ETag"]
    assert send(studio, "DELETE", path, match=tag).status_code == 204
    assert_error(studio.get(path), 404, "not_found")
    assert_error(studio.execute(workflow), 404, "not_found")
    assert ok(studio.get(f"/api/runs/{run}"))["status"] == "completed"
    assert_error(send(studio, "DELETE", path, match=tag), 404, "not_found")


def test_chats_go_with_a_workflow_only_when_asked(studio: Studio) -> None:
    workflow = studio.deploy(GOOD)
    made_chat = studio.store.chats.create({"workflow_id": workflow, "slug": "help", "title": "Help"})
    path = f"/api/workflows/{workflow}"
    error = assert_error(send(studio, "DELETE", path, match="*"), 409, "has_chats", says="help")
    assert error["details"] == [{"path": "chats", "message": "help"}]
    assert studio.store.workflows.get(workflow) is not None
    assert send(studio, "DELETE", path + "?chats=delete", match="*").status_code == 204
    assert studio.store.chats.get(made_chat.id) is None


def test_changes_are_in_the_audit_log(studio: Studio) -> None:
    workflow, tag = made(studio, GOOD)
    path = f"/api/workflows/{workflow}"
    send(studio, "PUT", path, {**GOOD, "name": "B"}, match=tag)
    send(studio, "PUT", path, {**GOOD, "name": "B"}, match="*")
    send(studio, "POST", f"{path}/deploy", {"name": "first"})
    send(studio, "POST", f"{path}/deploy", {})
    send(studio, "DELETE", f"{path}/deploy")
    send(studio, "POST", f"{path}/rollback", {"version": 1})
    send(studio, "DELETE", path, match="*")
    rows = ok(studio.get(f"/api/audit?subject=workflow:{workflow}", "admin"))["items"]
    admin = studio.store.keys.find(studio.keys["admin"])
    assert admin is not None
    assert {row["actor"] for row in rows} == {admin.id}
    found: list[tuple[str, t.Any]] = [(row["action"], row.get("details")) for row in rows]
    assert found == [
        ("workflow.delete", {"name": "B"}),
        ("workflow.rollback", {"version": 1, "draft": False}),
        ("workflow.undeploy", {"version": 1}),
        ("workflow.deploy", {"version": 1}),
        ("workflow.update", {"revision": 2}),
        ("workflow.create", {"name": "One agent"}),
    ]


def test_no_workflow_is_made_under_a_word_of_the_addresses(studio: Studio) -> None:
    refused = send(studio, "PUT", "/api/workflows/validate", GOOD, If_None_Match="*")
    error = assert_error(refused, 400, "validation_failed", path="workflow_id")
    assert "choose another id" in error["details"][0]["message"]
    assert_error(studio.get("/api/workflows/validate"), 404, "not_found")


def test_one_that_was_stored_under_such_a_word_is_still_there_to_change_and_remove(studio: Studio) -> None:
    studio.store.workflows.create(GOOD, "Old", "validate")
    shown = studio.get("/api/workflows/validate")
    assert ok(shown)["name"] == "Old"
    changed = send(studio, "PUT", "/api/workflows/validate", GOOD, If_Match=shown.headers["ETag"])
    assert ok(changed)["name"] == GOOD["name"]
    ok(send(studio, "POST", "/api/workflows/validate", GOOD, key="read"))
    gone = send(studio, "DELETE", "/api/workflows/validate", If_Match=changed.headers["ETag"])
    assert gone.status_code == 204


def test_every_word_that_stands_where_an_id_of_a_workflow_does_is_reserved(studio: Studio) -> None:
    """So are the names of chats; all other ids are given by the server, or have no words beside them."""
    rules = [rule.rule.split("/") for rule in studio.app.url_map.iter_rules()]

    def words(*start: str) -> set[str]:
        place = len(start)
        found = {rule[place] for rule in rules if rule[:place] == list(start) and len(rule) > place}
        return {word for word in found if not word.startswith("<")}

    assert words("", "api", "workflows") == ids.RESERVED
    assert words("", "api", "chat") | words("", "chat") <= chat_deployment.RESERVED
    assert words("", "api", "secrets") == set()
