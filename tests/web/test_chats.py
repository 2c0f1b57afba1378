"""``/api/chats``: a chat is judged as a whole, changed under the eyes of its readers, and tells no password."""

from __future__ import annotations

import typing as t

import pytest

from tests.web.conftest import Studio, assert_error, document


@pytest.fixture
def workflow(studio: Studio) -> str:
    return studio.deploy(document("scripted/plain"))


def send(
    studio: Studio, method: str, path: str, body: t.Any = None, key: str = "admin", **headers: str
) -> t.Any:
    sent = {
        "X-API-Key": studio.keys[key],
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    return studio.client.open(path, method=method, json=body, headers=sent)


def create(studio: Studio, workflow: str, slug: str = "support", **more: t.Any) -> t.Any:
    return send(
        studio, "POST", "/api/chats", {"workflowId": workflow, "slug": slug, "title": "Support", **more}
    )


def test_a_chat_is_made_and_read(studio: Studio, workflow: str) -> None:
    made = create(studio, workflow, outputs=["agent_1.content"], welcomeMessage="Hello!")
    assert made.status_code == 201, made.get_data()
    body = made.get_json()
    assert made.headers["Location"] == f"/api/chats/{body['id']}"
    assert {name: value for name, value in body.items() if name not in ("id", "createdAt", "updatedAt")} == {
        "workflowId": workflow,
        "slug": "support",
        "title": "Support",
        "welcomeMessage": "Hello!",
        "authType": "public",
        "outputs": ["agent_1.content"],
        "includeThinking": False,
        "includeToolCalls": False,
        "active": True,
        "hasPassword": False,
        "version": 1,
        "draftDiffers": False,
    }
    read = send(studio, "GET", f"/api/chats/{body['id']}", key="read")
    assert read.get_json() == body
    assert read.headers["ETag"] == made.headers["ETag"]
    listed = send(studio, "GET", "/api/chats", key="read").get_json()
    assert listed == {"items": [body]}


def test_version_and_draft_are_those_of_the_moment(studio: Studio, workflow: str) -> None:
    path = f"/api/chats/{create(studio, workflow).get_json()['id']}"
    studio.store.workflows.save(document("scripted/thinker"), "One agent", workflow)
    assert send(studio, "GET", path).get_json()["draftDiffers"] is True
    studio.store.workflows.deploy(workflow)
    body = send(studio, "GET", path).get_json()
    assert (body["version"], body["draftDiffers"]) == (2, False)


def test_everything_that_is_wrong_is_said_at_once(studio: Studio, workflow: str) -> None:
    answer = create(
        studio,
        workflow,
        slug="Not A Slug",
        authType="email",
        password="secret",
        outputs=["agent_1.nothing", "nobody.content"],
        allowedOrigins=["https://example.com/", "*", "https://ok.example", "https://example.com:443"],
        allowedEmails=[],
        rateLimit={"perSecond": 1},
        budget={},
        redact={"mode": "sometimes"},
        customization={"primaryColor": "red; }", "logoUrl": "javascript:alert(1)"},
    )
    error = assert_error(answer, 400, "validation_failed")
    assert {detail["path"] for detail in error["details"]} == {
        "slug",
        "password",
        "outputs[0]",
        "outputs[1]",
        "allowedOrigins[0]",
        "allowedOrigins[1]",
        "allowedOrigins[3]",
        "allowedEmails",
        "rateLimit.perSecond",
        "budget",
        "redact.mode",
        "customization.primaryColor",
        "customization.logoUrl",
    }
    assert "agent_1" in next(d["message"] for d in error["details"] if d["path"] == "outputs[1]")


@pytest.mark.parametrize(
    ("sent", "path"),
    [
        ({"authType": "password"}, "password"),
        ({"authType": "password", "password": ""}, "password"),
        ({"authType": "open"}, "authType"),
        ({"authType": "email", "allowedEmails": ["ada"]}, "allowedEmails[0]"),
        ({"slug": "resume"}, "slug"),
        ({"slug": "a" * 101}, "slug"),
        ({"title": ""}, "title"),
        ({"workflowId": "wf_nobody"}, "workflowId"),
        ({"includeThinking": "yes"}, "includeThinking"),
        ({"include_thinking": True}, "include_thinking"),
        ({"outputs": ["agent_1.model"]}, "outputs[0]"),
        ({"redact": {"detectors": ["nonesuch"]}}, "redact.detectors[0]"),
        ({"customization": {"logoUrl": "https://a.example;sandbox/logo.png"}}, "customization.logoUrl"),
        ({"customization": {"logoUrl": "https://a.example,x"}}, "customization.logoUrl"),
        ({"customization": {"imageUrl": "https://user@a.example/"}}, "customization.imageUrl"),
    ],
)
def test_a_wrong_member_is_a_problem_with_its_path(
    studio: Studio, workflow: str, sent: dict[str, t.Any], path: str
) -> None:
    assert_error(
        create(studio, **{"workflow": workflow, **_named(sent)}), 400, "validation_failed", path=path
    )


def _named(sent: dict[str, t.Any]) -> dict[str, t.Any]:
    return {"workflow" if name == "workflowId" else name: value for name, value in sent.items()}


def test_a_slug_is_one_chats_only(studio: Studio, workflow: str) -> None:
    create(studio, workflow)
    other = create(studio, workflow, "other")
    assert_error(create(studio, workflow), 409, "slug_taken", says="support")
    path, tag = f"/api/chats/{other.get_json()['id']}", other.headers["ETag"]
    assert_error(send(studio, "PATCH", path, {"slug": "support"}, If_Match=tag), 409, "slug_taken")


def test_a_workflow_that_is_not_deployed_has_no_chat(studio: Studio) -> None:
    draft = studio.store.workflows.save(document("scripted/plain"), "Draft")
    assert_error(create(studio, draft), 409, "not_deployed")


def test_the_password_is_kept_as_a_hash_and_never_shown(studio: Studio, workflow: str) -> None:
    made = create(studio, workflow, authType="password", password="correct horse")
    body = made.get_json()
    assert body["hasPassword"] is True
    path = f"/api/chats/{body['id']}"
    row = studio.store.chats.get(body["id"])
    assert row.password.startswith("scrypt:")
    changed = send(studio, "PATCH", path, {"title": "New"}, If_Match=made.headers["ETag"])
    assert changed.get_json()["hasPassword"] is True
    assert studio.store.chats.get(body["id"]).password == row.password
    opened = send(studio, "PATCH", path, {"authType": "public"}, If_Match=changed.headers["ETag"])
    assert opened.get_json()["hasPassword"] is False
    again = send(studio, "PATCH", path, {"authType": "password"}, If_Match=opened.headers["ETag"])
    assert_error(again, 400, "validation_failed", path="password")
    everything = [made, changed, opened, send(studio, "GET", path), send(studio, "GET", "/api/audit")]
    for answer in everything:
        assert "correct horse" not in answer.get_data(as_text=True)
        assert "scrypt" not in answer.get_data(as_text=True)


def test_a_change_is_judged_with_what_is_there(studio: Studio, workflow: str) -> None:
    made = create(studio, workflow, allowedOrigins=["https://Example.COM"], description="Ask us")
    path, tag = f"/api/chats/{made.get_json()['id']}", made.headers["ETag"]
    assert made.get_json()["allowedOrigins"] == ["https://example.com"]
    answer = send(studio, "PATCH", path, {"authType": "email"}, If_Match=tag)
    assert_error(answer, 400, "validation_failed", path="allowedEmails")
    sent = {"authType": "email", "allowedEmails": ["Ada@Example.org", "@example.com"], "description": None}
    changed = send(studio, "PATCH", path, sent, If_Match=tag)
    assert changed.status_code == 200, changed.get_data()
    body = changed.get_json()
    assert body["allowedEmails"] == ["ada@example.org", "@example.com"]
    assert "description" not in body
    assert body["allowedOrigins"] == ["https://example.com"]


def test_a_write_names_what_it_has_seen(studio: Studio, workflow: str) -> None:
    made = create(studio, workflow)
    path, tag = f"/api/chats/{made.get_json()['id']}", made.headers["ETag"]
    assert_error(send(studio, "PATCH", path, {"title": "A"}), 428, "precondition_required")
    assert_error(send(studio, "DELETE", path), 428, "precondition_required")
    assert send(studio, "PATCH", path, {"title": "A"}, If_Match=tag).status_code == 200
    assert_error(send(studio, "PATCH", path, {"title": "B"}, If_Match=tag), 412, "precondition_failed")
    assert_error(send(studio, "DELETE", path, If_Match=tag), 412, "precondition_failed")
    read = send(studio, "GET", path)
    assert read.get_json()["title"] == "A"
    assert send(studio, "GET", path, If_None_Match=read.headers["ETag"]).status_code == 304
    assert send(studio, "DELETE", path, If_Match=read.headers["ETag"]).status_code == 204
    assert_error(send(studio, "GET", path), 404, "not_found")
    assert_error(send(studio, "DELETE", path, If_Match="*"), 404, "not_found")


def test_outputs_that_a_later_version_lacks_are_told(studio: Studio, workflow: str) -> None:
    made = create(studio, workflow, outputs=["agent_1.content"]).get_json()
    renamed = document("scripted/plain")
    renamed["blocks"][1]["id"] = renamed["edges"][0]["target"] = "writer"
    renamed["blocks"][1]["name"] = "Writer"
    studio.deploy(renamed, workflow)
    [problem] = send(studio, "GET", f"/api/chats/{made['id']}").get_json()["problems"]
    assert problem["path"] == "outputs[0]"
    answer = studio.client.get("/api/chat/support")
    assert answer.status_code == 503
    assert answer.get_json()["error"]["code"] == "chat_not_ready"


def test_deploying_and_rolling_back_warn_of_chats_that_lack_something(studio: Studio) -> None:
    both = document("scripted/plain")
    both["blocks"].append({**both["blocks"][1], "id": "writer", "name": "Writer"})
    both["edges"].append({"source": "agent_1", "target": "writer"})
    one = document("scripted/plain")
    path = f"/api/workflows/{studio.deploy(one)}"
    workflow = path.rpartition("/")[2]
    send(studio, "PUT", path, both, If_Match="*")
    assert send(studio, "POST", f"{path}/deploy", {}).get_json()["warnings"] == []
    lost = create(studio, workflow, "lost", outputs=["writer.content"]).get_json()["id"]
    less = create(studio, workflow, "less", outputs=["agent_1.content", "writer.model", "writer.content"])
    assert less.status_code == 400, "what visitors may not get"
    less = create(studio, workflow, "less", outputs=["agent_1.content", "writer.content"]).get_json()["id"]
    create(studio, workflow, "off", outputs=["writer.content"], active=False)
    create(studio, workflow, "fine", outputs=["agent_1.content"])
    create(studio, workflow, "any")

    def warned(answer: t.Any, status: int) -> None:
        assert answer.status_code == status, answer.get_data()
        first, second = answer.get_json()["warnings"]
        assert first["path"] == "chats.less.outputs[1]"
        assert "the chat 'less' gives its visitors less than before" in first["message"]
        assert second["path"] == "chats.lost.outputs[0]"
        assert "the chat 'lost' answers 503 chat_not_ready" in second["message"]
        for warning, chat in ((first, less), (second, lost)):
            assert '"writer.content" matches no block' in warning["message"]
            assert f"PATCH /api/chats/{chat} with other outputs" in warning["message"]
        assert studio.client.get("/api/chat/lost").get_json()["error"]["code"] == "chat_not_ready"
        assert studio.client.get("/api/chat/less").status_code == 200

    warned(send(studio, "POST", f"{path}/rollback", {"version": 1}), 200)
    assert send(studio, "POST", f"{path}/rollback", {"version": 2}).get_json()["warnings"] == []
    send(studio, "PUT", path, one, If_Match="*")
    warned(send(studio, "POST", f"{path}/deploy", {"name": "third"}), 201)
    warned(send(studio, "POST", f"{path}/deploy", {"name": "third"}), 200)


def test_deploying_what_nobody_answers_warns_of_its_chats(studio: Studio) -> None:
    workflow = studio.deploy(document("scripted/plain"))
    create(studio, workflow)
    silent = document("scripted/plain")
    silent["blocks"], silent["edges"] = silent["blocks"][:1], []
    send(studio, "PUT", f"/api/workflows/{workflow}", silent, If_Match="*")
    [warning] = send(studio, "POST", f"/api/workflows/{workflow}/deploy", {}).get_json()["warnings"]
    assert warning["path"] == "chats.support.outputs"
    assert "the chat 'support' has nothing to say: no agent answers" in warning["message"]


def test_the_list_can_be_narrowed_and_paged(studio: Studio, workflow: str) -> None:
    other = studio.deploy(document("scripted/plain"))
    ids = {create(studio, workflow, f"c{number}").get_json()["id"] for number in range(3)}
    last = create(studio, other, "c9").get_json()["id"]
    first = send(studio, "GET", "/api/chats?limit=2").get_json()
    second = send(studio, "GET", f"/api/chats?limit=2&cursor={first['nextCursor']}").get_json()
    found = [item["id"] for item in (*first["items"], *second["items"])]
    assert found == sorted(ids | {last}, reverse=True)
    narrowed = send(studio, "GET", f"/api/chats?workflowId={other}").get_json()
    assert [item["id"] for item in narrowed["items"]] == [last]
    assert_error(send(studio, "GET", "/api/chats?workflowId="), 400, "validation_failed", path="workflowId")


def test_null_opens_no_gate(studio: Studio, workflow: str) -> None:
    made = create(studio, workflow, authType="password", password="open sesame")
    path, tag = f"/api/chats/{made.get_json()['id']}", made.headers["ETag"]
    assert_error(
        send(studio, "PATCH", path, {"authType": None}, If_Match=tag),
        400,
        "validation_failed",
        path="authType",
    )
    kept = send(studio, "PATCH", path, {"password": None, "description": None}, If_Match=tag).get_json()
    assert (kept["authType"], kept["hasPassword"]) == ("password", True), "there is one, and it stays"
    opened = send(studio, "PATCH", path, {"authType": "public"}, If_Match="*").get_json()
    assert (opened["authType"], opened["hasPassword"]) == ("public", False)


@pytest.mark.parametrize("seen", ["any", "the one before"])
def test_of_two_changes_at_once_neither_is_lost(
    studio: Studio, workflow: str, seen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = create(studio, workflow)
    path, tag = f"/api/chats/{made.get_json()['id']}", made.headers["ETag"]
    update, between = studio.store.chats.update, [{"active": False}]

    def late(chat_id: str, revision: int | None, changes: t.Any, note: t.Any) -> t.Any:
        if between:  # what somebody else changes after this change was judged
            update(chat_id, None, between.pop())
        return update(chat_id, revision, changes, note)

    monkeypatch.setattr(studio.store.chats, "update", late)
    answer = send(studio, "PATCH", path, {"title": "B"}, If_Match="*" if seen == "any" else tag)
    now = send(studio, "GET", path).get_json()
    if seen == "any":
        assert (answer.status_code, now["title"], now["active"]) == (200, "B", False)
    else:
        assert_error(answer, 412, "precondition_failed")
        assert (now["title"], now["active"]) == ("Support", False)


def test_what_was_changed_is_in_the_audit_log(studio: Studio, workflow: str) -> None:
    made = create(studio, workflow)
    path, tag = f"/api/chats/{made.get_json()['id']}", made.headers["ETag"]
    sent = {"authType": "password", "password": "correct horse"}
    changed = send(studio, "PATCH", path, sent, If_Match=tag)
    send(studio, "DELETE", path, If_Match=changed.headers["ETag"])
    log = send(studio, "GET", f"/api/audit?subject=chat:{made.get_json()['id']}").get_json()["items"]
    assert {entry["action"]: entry["details"] for entry in log} == {
        "chat.create": {"slug": "support", "workflowId": workflow, "authType": "public"},
        "chat.update": {"slug": "support", "changed": ["authType", "password"]},
        "chat.delete": {"slug": "support", "workflowId": workflow, "authType": "password"},
    }
