"""Visitors of chats: what they are shown, what they may send, and what is nobody else's."""

from __future__ import annotations

import base64
import typing as t
from collections.abc import Mapping
from urllib.parse import quote

import pytest

from tests.support import sse
from tests.support.servers import NEGOTIATE
from tests.web.conftest import TOOL, Studio, document

PNG = b"\x89PNG\r\n\x1a\n" + bytes(32)
ORIGIN = "https://shop.example"


def refused(answer: t.Any, status: int, code: str) -> dict[str, t.Any]:
    """The answer is the error of a chat's route; its ``error`` member."""
    assert answer.status_code == status, answer.get_data()
    body = answer.get_json()
    assert set(body) == {"error", "message", "code"}
    assert body["error"]["code"] == code
    assert (body["message"], body["code"]) == (body["error"]["message"], code.upper())
    return t.cast("dict[str, t.Any]", body["error"])


class Visitor:
    """A browser of its own at a chat."""

    def __init__(self, studio: Studio, slug: str = "help") -> None:
        self.studio, self.slug = studio, slug
        self.client = studio.app.test_client()

    def call(
        self, method: str, path: str = "", body: t.Any = None, headers: Mapping[str, str] | None = None
    ) -> t.Any:
        return self.client.open(
            f"/api/chat/{self.slug}{path}", method=method, json=body, headers=dict(headers or {})
        )

    def say(self, text: str = "hi", headers: Mapping[str, str] | None = None, **more: t.Any) -> t.Any:
        return self.call("POST", "", {"input": text, **more}, headers)

    def stream(self, text: str = "hi", **more: t.Any) -> list[t.Any]:
        """A negotiated answer to its end: the data of every frame, comments left out."""
        answer = self.say(text, NEGOTIATE, **more)
        assert answer.status_code == 200, answer.get_data()
        return [frame.json() for frame in sse.parse(answer.get_data()) if frame.comment is None]


@pytest.fixture
def chat(studio: Studio) -> t.Callable[..., Visitor]:
    """Deploys a workflow as a chat; a first visitor of it."""

    def make(
        model: str = "scripted/plain", agent: Mapping[str, t.Any] | None = None, **values: t.Any
    ) -> Visitor:
        given = values.pop("document", None) or document(model, **(agent or {}))
        workflow = studio.deploy(given)
        row = {"workflow_id": workflow, "slug": "help", "title": "Help", **values}
        studio.store.chats.create(row)
        return Visitor(studio, row["slug"])

    return make


# -- what visitors may know ----------------------------------------------------------------------------


def test_the_config_is_what_visitors_may_know(studio: Studio, chat: t.Any) -> None:
    visitor = chat(
        description="Ask us",
        welcome_message="Hello!",
        include_thinking=True,
        outputs=("agent_1.content",),
        customization={"primaryColor": "#123456"},
    )
    assert visitor.call("GET").get_json() == {
        "title": "Help",
        "description": "Ask us",
        "welcomeMessage": "Hello!",
        "authType": "public",
        "includeThinking": True,
        "includeToolCalls": False,
        "files": True,
        "customization": {"primaryColor": "#123456"},
    }


def test_unknown_inactive_and_undeployed_chats(studio: Studio, chat: t.Any) -> None:
    visitor = chat()
    for method in ("GET", "POST"):
        refused(Visitor(studio, "nobody").call(method, "", None if method == "GET" else {}), 404, "not_found")
    row = studio.store.chats.by_slug("help")
    studio.store.chats.update(row.id, None, {"active": False})
    refused(visitor.call("GET"), 403, "chat_inactive")
    refused(visitor.say(), 403, "chat_inactive")
    draft = studio.store.workflows.save(document("scripted/plain"), "Draft")
    studio.store.chats.create({"workflow_id": draft, "slug": "draft", "title": "Draft"})
    refused(Visitor(studio, "draft").say(), 403, "chat_inactive")


@pytest.mark.parametrize("auth", ["password", "email", "sso"])
def test_who_is_not_let_in_learns_the_gate_and_no_more(
    studio: Studio, chat: t.Any, auth: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    visitor = chat(auth_type=auth, welcome_message="Secret welcome")
    started: list[t.Any] = []
    monkeypatch.setattr(studio.app.extensions["studio"].store.runs, "started", started.append)
    for method, path in (
        ("GET", ""),
        ("POST", ""),
        ("GET", "/runs/run_x"),
        ("GET", "/runs/run_x/events"),
        ("POST", "/runs/run_x/cancel"),
        ("POST", "/runs/run_x/resume"),
        ("GET", "/conversations/c"),
    ):
        body = None if method == "GET" else {"input": "hi", "password": "wrong"} if path == "" else {}
        answer = visitor.call(method, path, body)
        refused(answer, 401, f"auth_required_{auth}")
        assert "Secret welcome" not in answer.get_data(as_text=True)
    assert visitor.call("HEAD").status_code == 401
    assert started == []


# -- talking -------------------------------------------------------------------------------------------


def test_a_client_without_the_header_gets_settled_text_as_it_always_did(chat: t.Any) -> None:
    """The bytes that clients of today read; only ids and times are made the same."""
    answer = chat().say()
    data = answer.get_data()
    run_id = answer.headers["X-Run-Id"]
    frames = data.replace(run_id.encode(), b"run_1").split(b"\n\n")
    assert frames[0] == b'data: {"blockId":"agent_1","chunk":"Hello there."}'
    assert frames[1].startswith(
        b'data: {"event":"final","data":{"success":true,"runId":"run_1","status":"completed","output":{},'
        b'"toolCalls":{"agent_1":{"list":[],"count":0}},"usage":{"tokens":{"input":3,"output":2,"total":5},'
    )
    assert frames[2:] == [b'data: "[DONE]"', b""]
    assert answer.headers["Content-Type"] == "text/event-stream; charset=utf-8"
    assert "X-Studio-Stream-Protocol" not in answer.headers


def test_an_unknown_version_is_no_header(chat: t.Any) -> None:
    answer = chat().say(headers={"X-Studio-Stream-Protocol": "agent-events-v9"})
    assert answer.status_code == 200
    assert b'"chunk":"Hello there."' in answer.get_data()
    assert "X-Studio-Stream-Protocol" not in answer.headers


def test_flags_are_the_deployments(studio: Studio, chat: t.Any) -> None:
    quiet = chat("scripted/thinker")
    assert not [
        frame for frame in quiet.stream() if isinstance(frame, dict) and frame.get("event") == "thinking"
    ]
    row = studio.store.chats.by_slug("help")
    studio.store.chats.update(row.id, None, {"include_thinking": True})
    assert [frame for frame in quiet.stream() if isinstance(frame, dict) and frame.get("event") == "thinking"]
    error = refused(quiet.say(includeThinking=True), 400, "validation_failed")
    assert error["details"][0]["path"] == "includeThinking"


def test_what_stays_inside_is_nowhere_on_the_wire(chat: t.Any) -> None:
    visitor = chat(
        "scripted/tooling",
        {"tools": [TOOL], "system": "The secret prompt."},
        include_tool_calls=True,
        outputs=("agent_1",),
    )
    for headers in (NEGOTIATE, {}, {"Accept": "application/json"}):
        text = visitor.say("hi", headers).get_data(as_text=True)
        for inside in ("private", "scripted/tooling", "Agent 1", "secret prompt", '"cost"', "byModel"):
            assert inside not in text, headers
    frames = visitor.stream()
    tools = [frame for frame in frames if isinstance(frame, dict) and frame.get("event") == "tool"]
    assert [(tool["phase"], tool["name"]) for tool in tools] == [("start", "secretive"), ("end", "secretive")]


def test_outputs_are_what_is_delivered(chat: t.Any) -> None:
    visitor = chat(outputs=("agent_1.finishReason",))
    *_, final, done = visitor.stream()
    assert done == "[DONE]"
    assert final["data"]["output"] == {"agent_1": {"finishReason": "stop"}}
    assert not [frame for frame in visitor.stream() if "chunk" in frame]


def test_a_client_that_takes_no_stream_waits_for_json(chat: t.Any) -> None:
    answer = chat().say(headers={"Accept": "application/json"})
    body = answer.get_json()
    assert (body["success"], body["status"]) == (True, "completed")
    assert body["output"] == {"agent_1": {"content": "Hello there."}}
    assert answer.headers["X-Run-Id"] == body["runId"]
    assert answer.headers["X-Conversation-Id"]


@pytest.mark.parametrize(
    "accept", ["*/*", "application/json, text/plain, */*", "text/event-stream", "nonsense", ""]
)
def test_whoever_takes_a_stream_gets_one(chat: t.Any, accept: str) -> None:
    assert chat().say(headers={"Accept": accept}).mimetype == "text/event-stream"


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, "input"),
        ({"input": "  "}, "input"),
        ({"input": {"message": "hi"}}, "input"),
        ({"input": "hi", "conversationId": ""}, "conversationId"),
        ({"input": "hi", "conversationId": "c" * 256}, "conversationId"),
        ({"input": "hi", "stream": True}, "stream"),
        ({"input": "hi", "files": [{"name": "a"}]}, "files[0].data"),
        ({"input": "hi", "files": [{"name": "a", "data": "http://example.com/a"}]}, "files[0]"),
        ({"input": "hi", "files": [{"name": "a", "data": "", "url": "http://x"}]}, "files[0].url"),
        (
            {"input": "hi", "files": [{"name": "a.exe", "data": base64.b64encode(b"MZ\x90\0").decode()}]},
            "files[0]",
        ),
        ({"input": "hi", "files": [{"name": "a", "data": "aGk=", "size": 3}]}, "files[0]"),
        ({"input": "hi", "files": [{"name": "a", "data": "aGk="}] * 16}, "files"),
    ],
)
def test_a_wrong_message_is_a_400_with_its_path(chat: t.Any, body: dict[str, t.Any], path: str) -> None:
    error = refused(chat().call("POST", "", body), 400, "validation_failed")
    assert path in [detail["path"] for detail in error["details"]]


def test_the_run_is_the_visitors_and_starts_with_what_was_said(studio: Studio, chat: t.Any) -> None:
    visitor = chat("scripted/plain", {"prompt": "{{ input.message }}"})
    sent = [
        {"name": "C:\\tmp\\note.txt", "type": "text/markdown", "data": base64.b64encode(b"# Note").decode()}
    ]
    answer = visitor.say("hi", files=sent, conversationId="c1")
    row = _row(studio, answer)
    assert row["input"] == {
        "message": "hi",
        "conversationId": "c1",
        "files": [
            {"name": "note.txt", "media_type": "text/markdown", "file": row["input"]["files"][0]["file"]}
        ],
    }
    chat_id = studio.store.chats.by_slug("help").id
    assert row["key_id"].startswith(f"chat:{chat_id}:")
    assert row["conversation_id"] == "c1"
    assert "X-Conversation-Id" not in answer.headers
    kept = studio.store.files.get(row["input"]["files"][0]["file"])
    assert (kept.key_id, studio.store.files.read(kept.id)) == (row["key_id"], b"# Note")
    assert kept.expires_at <= studio.app.extensions["studio"].clock.now_ms() + 361_000


def _row(studio: Studio, answer: t.Any) -> dict[str, t.Any]:
    answer.get_data()
    services = studio.app.extensions["studio"]
    services.runs.drain(5)
    services.runs.draining = False
    return t.cast("dict[str, t.Any]", studio.store.runs.get(answer.headers["X-Run-Id"]))


def test_files_may_come_without_words_and_are_what_their_bytes_say(studio: Studio, chat: t.Any) -> None:
    data = "data:text/html;base64," + base64.b64encode(PNG).decode()
    answer = chat().call("POST", "", {"files": [{"name": "a.html", "data": data}]})
    assert answer.status_code == 200
    [file] = _row(studio, answer)["input"]["files"]
    assert file["media_type"] == "image/png"


def test_visitors_together_keep_as_much_as_a_key(studio: Studio, chat: t.Any) -> None:
    """And a message that is refused for it leaves its conversation free."""
    visitor = chat()
    sent = {"conversationId": "c", "files": [{"name": "a.txt", "data": "aGk="}]}
    row = studio.store.chats.by_slug("help")
    most = studio.app.extensions["studio"].settings.files_mb * 1_000_000
    files = studio.store.files
    other = files.put(f"chat:{row.id}:other", "b.txt", "text/plain", b"x", None, most)
    files._writer.submit(
        lambda link: link.raw.execute("UPDATE files SET size = ? WHERE id = ?", (most, other.id))
    ).wait()
    answer = visitor.say(**sent)
    assert answer.headers["Retry-After"]
    refused(answer, 503, "at_capacity")
    files.remove(other.id)
    assert visitor.say(**sent).status_code == 200


def test_a_chat_whose_workflow_reads_no_files_takes_none(chat: t.Any) -> None:
    visitor = chat("scripted/plain", {"prompt": "Say hello."})
    assert visitor.call("GET").get_json()["files"] is False
    error = refused(visitor.say(files=[{"name": "a", "data": "aGk="}]), 400, "validation_failed")
    assert error["details"][0]["path"] == "files"


def test_a_large_message_is_taken_from_those_who_are_in(studio: Studio, chat: t.Any) -> None:
    visitor = chat()
    big = base64.b64encode(b"a" * (9 * 1024 * 1024)).decode()
    assert visitor.say(files=[{"name": "big.txt", "data": big}]).status_code == 200
    row = studio.store.chats.by_slug("help")
    studio.store.chats.update(row.id, None, {"auth_type": "password"})
    refused(visitor.say(files=[{"name": "big.txt", "data": big}]), 401, "auth_required_password")


def test_a_message_that_is_too_large_is_a_413(chat: t.Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.web.chat.MAX_MESSAGE", 11 * 1024 * 1024)
    answer = chat().say("a" * (12 * 1024 * 1024))
    assert "11 MiB" in refused(answer, 413, "payload_too_large")["message"]


def test_a_workflow_that_is_not_ready_says_so_without_saying_why(chat: t.Any) -> None:
    error = refused(chat("anthropic/claude-sonnet-4-5").say(), 503, "chat_not_ready")
    assert "ANTHROPIC" not in str(error)
    assert "claude" not in str(error)


def test_limits_hold_per_visitor_and_chat(studio: Studio, chat: t.Any) -> None:
    visitor = chat(rate_limit={"perMinute": 2})
    for _ in range(2):
        assert visitor.say().status_code == 200
    answer = Visitor(studio).say()
    refused(answer, 429, "rate_limited")
    assert int(answer.headers["Retry-After"]) >= 1


# -- conversations -------------------------------------------------------------------------------------


def test_without_a_name_a_conversation_is_made_and_told(studio: Studio, chat: t.Any) -> None:
    visitor = chat("scripted/plain", {"memory": {"type": "conversation"}})
    answer = visitor.say("first")
    answer.get_data()
    name = answer.headers["X-Conversation-Id"]
    assert name.startswith("conv_")
    assert "X-Conversation-Id" in answer.headers["Access-Control-Expose-Headers"]
    visitor.say("second", conversationId=name).get_data()
    history = visitor.call("GET", f"/conversations/{name}").get_json()["items"]
    assert [item["input"] for item in history] == ["second", "first"]
    assert history[0]["answers"] == [{"blockId": "agent_1", "text": "Hello there."}]
    assert {item["conversationId"] for item in history} == {name}


def test_another_visitors_conversation_of_the_same_name_is_another_one(studio: Studio, chat: t.Any) -> None:
    one = chat()
    other = Visitor(studio)
    one.say("mine", conversationId="c/1").get_data()
    refused(other.call("GET", "/conversations/c/1"), 404, "not_found")
    other.say("theirs", conversationId="c/1").get_data()
    for visitor, said in ((one, "mine"), (other, "theirs")):
        [item] = visitor.call("GET", "/conversations/c/1").get_json()["items"]
        assert item["input"] == said


@pytest.mark.parametrize("name", ["/", "/a", "//a", "a/../b", "..", "a\r\nb", "\n", "\u2028", "%2f", "ü?#;"])
def test_a_conversation_is_found_whatever_its_name(chat: t.Any, name: str) -> None:
    visitor = chat()
    visitor.say("hi", conversationId=name).get_data()
    [item] = visitor.call("GET", f"/conversations/{quote(name, safe='')}").get_json()["items"]
    assert item["conversationId"] == name


def test_history_has_final_text_alone(studio: Studio, chat: t.Any) -> None:
    visitor = chat(
        "scripted/tooling",
        {"tools": [TOOL]},
        include_tool_calls=True,
        outputs=("agent_1.content", "agent_1.toolCalls"),
    )
    visitor.say("hi", conversationId="c").get_data()
    answer = visitor.call("GET", "/conversations/c")
    [item] = answer.get_json()["items"]
    assert item["answers"] == [{"blockId": "agent_1", "text": "It is settled."}]
    for inside in ("private", "Let me look", "Agent 1", "scripted"):
        assert inside not in answer.get_data(as_text=True)


def test_one_message_at_a_time(studio: Studio, chat: t.Any) -> None:
    visitor = chat("scripted/silent")
    answer = visitor.client.post(
        "/api/chat/help", json={"input": "hi", "conversationId": "c"}, headers=NEGOTIATE
    )
    stream = answer.iter_encoded()
    next(stream)
    run_id = answer.headers["X-Run-Id"]
    error = refused(visitor.say(conversationId="c"), 409, "thread_busy")
    assert {"path": "runId", "message": run_id} in error["details"]
    other = Visitor(studio)
    refused(other.call("POST", f"/runs/{run_id}/cancel"), 404, "not_found")
    assert visitor.call("POST", f"/runs/{run_id}/cancel").status_code == 202
    frames = [frame.json() for frame in sse.parse(b"".join(stream)) if frame.comment is None]
    assert (frames[-2]["event"], frames[-2]["code"]) == ("error", "cancelled")


# -- runs ----------------------------------------------------------------------------------------------


def test_a_run_is_its_visitors_and_the_same_404_for_all_others(studio: Studio, chat: t.Any) -> None:
    visitor = chat(include_thinking=True)
    answer = visitor.say()
    answer.get_data()
    run_id = answer.headers["X-Run-Id"]
    other = Visitor(studio)
    other.call("GET")
    studio.store.chats.create(
        {"workflow_id": studio.store.chats.by_slug("help").workflow_id, "slug": "second", "title": "Second"}
    )
    elsewhere = Visitor(studio, "second")
    elsewhere.client = visitor.client
    for who in (other, elsewhere):
        for method, path in (("GET", ""), ("GET", "/events"), ("POST", "/cancel"), ("POST", "/resume")):
            body = {"decision": "approve"} if path == "/resume" else None
            told = [
                refused(who.call(method, f"/runs/{each}{path}", body), 404, "not_found")["message"].replace(
                    each, "ID"
                )
                for each in (run_id, "run_unknown")
            ]
            assert told[0] == told[1]
    assert visitor.call("GET", f"/runs/{run_id}").get_json()["status"] == "completed"
    replay = visitor.call("GET", f"/runs/{run_id}/events")
    assert b'"chunk":"Hello' in replay.get_data()


def test_a_replay_shows_what_the_stream_has_shown(chat: t.Any) -> None:
    visitor = chat("scripted/tooling", {"tools": [TOOL]}, include_tool_calls=True)
    answer = visitor.say(headers=NEGOTIATE)
    live = answer.get_data()
    run_id = answer.headers["X-Run-Id"]
    assert visitor.call("GET", f"/runs/{run_id}/events").get_data() == live
    text = visitor.call("GET", f"/runs/{run_id}/events?protocol=agent-text").get_data()
    assert b"id:" not in text
    for wrong in ("protocol=runs", "protocol=builder", "includeThinking=true", "events=full"):
        refused(visitor.call("GET", f"/runs/{run_id}/events?{wrong}"), 400, "validation_failed")


def test_a_key_is_no_visitor(studio: Studio, chat: t.Any) -> None:
    visitor = chat()
    answer = visitor.say()
    answer.get_data()
    path = f"/api/chat/help/runs/{answer.headers['X-Run-Id']}"
    refused(studio.client.get(path, headers={"X-API-Key": studio.keys["admin"]}), 404, "not_found")


# -- pages elsewhere -----------------------------------------------------------------------------------


def _allowed(answer: t.Any) -> tuple[str | None, str | None]:
    headers = answer.headers
    return headers.get("Access-Control-Allow-Origin"), headers.get("Access-Control-Allow-Credentials")


def test_a_chat_that_names_no_origins_may_be_used_from_anywhere_without_cookies(chat: t.Any) -> None:
    visitor = chat()
    for answer in (
        visitor.call("GET", headers={"Origin": ORIGIN}),
        visitor.say(headers={"Origin": ORIGIN}),
        visitor.call("OPTIONS", headers={"Origin": ORIGIN}),
    ):
        assert _allowed(answer) == ("*", None)


def test_a_chat_that_names_origins_answers_pages_of_those(chat: t.Any, studio: Studio) -> None:
    visitor = chat(allowed_origins=(ORIGIN,))
    for answer in (
        visitor.call("GET", headers={"Origin": ORIGIN}),
        visitor.say(headers={"Origin": ORIGIN}),
        visitor.call("OPTIONS", headers={"Origin": ORIGIN}),
    ):
        assert answer.status_code in (200, 204)
        assert _allowed(answer) == (ORIGIN, "true")
        assert "Origin" in answer.headers["Vary"]
    port = "https://shop.example:8443"
    for evil in ("https://evil.example", "null", "http://[", ORIGIN + ".evil.example", port):
        answer = visitor.say(headers={"Origin": evil})
        refused(answer, 403, "origin_not_allowed")
        assert _allowed(answer) == (None, None)
    assert visitor.say(headers={"Origin": "http://localhost"}).status_code == 200, "pages of this server may"
    assert visitor.say().status_code == 200, "programs send no origin"


def test_a_preflight_does_not_tell_whether_there_is_a_chat(chat: t.Any, studio: Studio) -> None:
    visitor = chat(allowed_origins=(ORIGIN,))
    asked = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    answers = [each.call("OPTIONS", headers=asked) for each in (visitor, Visitor(studio, "nobody"))]
    told = [sorted((k, v) for k, v in answer.headers if k != "X-Request-Id") for answer in answers]
    assert told[0] == told[1]
    assert [answer.status_code for answer in answers] == [204, 204]
    assert "Access-Control-Allow-Origin" not in answers[0].headers
