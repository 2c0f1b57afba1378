"""The gates of chats: each mode, by everything that can be shown at it; and what changing a chat does to passes."""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from app.store.chats import ChatRow
from app.web import chat_gates, signing, visitors
from app.web.visitors import HEADER, Pass, Visitor
from tests.web.conftest import Studio, assert_error, document
from tests.web.gates import PASSWORD, configure, make_chat, movable

MODES = ("public", "password", "email", "sso")
GATED = MODES[1:]


def token(studio: Studio, chat: ChatRow, **change: t.Any) -> str:
    """What a visitor has who got into ``chat`` just now, but for what is changed."""
    with studio.app.test_request_context("/"):
        who = visitors.passed(chat, visitors.new(chat), "ada@example.org")
        if change and who.passed is not None:
            who = dataclasses.replace(who, passed=dataclasses.replace(who.passed, **change))
        return visitors._token(who)


def get(studio: Studio, sent: str | None, slug: str = "help") -> tuple[int, str]:
    """Status and code of the chat's answer to somebody with this token."""
    answer = studio.app.test_client().get(f"/api/chat/{slug}", headers={} if sent is None else {HEADER: sent})
    return answer.status_code, answer.get_json().get("error", {}).get("code", "in")


def _ago(studio: Studio) -> int:
    services = studio.app.extensions["studio"]
    return int(services.clock.now_ms() // 1000 - services.settings.chat_pass_s - 1)


def _tampered(text: str) -> str:
    at = len(text) // 3
    return f"{text[:at]}{'A' if text[at] != 'A' else 'B'}{text[at + 1 :]}"


def _signed_for(studio: Studio, chat: ChatRow, purpose: str) -> str:
    with studio.app.test_request_context("/"):
        shown = Pass(chat.auth_type, chat.password_version, 4_000_000_000)
        return signing.sign(purpose, [chat.id, "0" * 24, *dataclasses.astuple(shown)])


@pytest.mark.parametrize("mode", MODES)
def test_what_opens_which_gate(studio: Studio, mode: str) -> None:
    """Everything that can be shown at a gate; a public chat has none."""
    chat = make_chat(studio, mode, allowed_emails=("ada@example.org",))
    other = make_chat(studio, mode, "other", allowed_emails=("ada@example.org",))
    right = token(studio, chat)
    shown = {
        "nothing": None,
        "a pass": right,
        "no token": "new",
        "an old pass": token(studio, chat, since=_ago(studio)),
        "a pass of before": token(studio, chat, version=chat.password_version - 1),
        "a pass of later": token(studio, chat, version=chat.password_version + 1),
        "a pass of another chat": token(studio, other),
        "a pass that was tampered with": _tampered(right),
        "a pass with a tail": right + "A",
        "something signed for something else": _signed_for(studio, chat, "session"),
        "a token without a pass": token(studio, dataclasses.replace(chat, auth_type="public")),
        **{f"a pass of the gate {gate}": token(studio, chat, mode=gate) for gate in GATED},
    }
    opening = {"a pass", f"a pass of the gate {mode}"} if mode in GATED else set(shown)
    refused = (401, f"auth_required_{mode}")
    assert {name: get(studio, sent) for name, sent in shown.items()} == {
        name: (200, "in") if name in opening else refused for name in shown
    }


@pytest.mark.parametrize("mode", GATED)
def test_nothing_else_of_the_chat_opens_without_it(studio: Studio, mode: str) -> None:
    """Each route that visitors call, by each of its methods, whatever key comes with it: 401, and no run."""
    make_chat(studio, mode, allowed_emails=("ada@example.org",))
    for method, path in (
        ("GET", ""),
        ("HEAD", ""),
        ("POST", ""),
        ("GET", "/runs/run_1"),
        ("GET", "/runs/run_1/events"),
        ("POST", "/runs/run_1/cancel"),
        ("POST", "/runs/run_1/resume"),
        ("GET", "/conversations/conv_1"),
    ):
        for key in (None, "admin"):
            headers = {} if key is None else {"X-API-Key": studio.keys[key]}
            body = {"input": "Hello"} if method == "POST" and not path else None
            answer = studio.app.test_client().open(
                f"/api/chat/help{path}", method=method, json=body, headers=headers
            )
            assert answer.status_code == 401, (method, path)
            assert "X-Run-Id" not in answer.headers
            if method != "HEAD":
                assert answer.get_json()["code"] == f"AUTH_REQUIRED_{mode.upper()}"
    assert studio.get("/api/runs", "admin").get_json()["items"] == []


@pytest.mark.parametrize("mode", MODES)
def test_no_cache_keeps_what_somebody_was_let_in_for(studio: Studio, mode: str) -> None:
    chat = make_chat(studio, mode, allowed_emails=("ada@example.org",))
    for sent in (None, token(studio, chat)):
        answer = studio.client.get("/api/chat/help", headers={} if sent is None else {HEADER: sent})
        assert answer.headers["Cache-Control"] == "no-store"


# -- passes and changes --------------------------------------------------------------------------------


CHANGES: dict[str, dict[str, t.Any]] = {
    "password": {"password": "scrypt:1:1:1$x$y"},
    "allowed_emails": {"allowed_emails": ("bob@example.org",)},
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("mode", GATED)
def test_passes_die_with_a_change_of_who_gets_in(studio: Studio, mode: str, change: str) -> None:
    chat = make_chat(studio, mode, allowed_emails=("ada@example.org",))
    sent = token(studio, chat)
    assert get(studio, sent) == (200, "in")
    studio.store.chats.update(chat.id, None, CHANGES[change])
    assert get(studio, sent) == (401, f"auth_required_{mode}")


@pytest.mark.parametrize("mode", GATED)
def test_passes_die_with_the_gate_also_when_it_comes_back(studio: Studio, mode: str) -> None:
    chat = make_chat(studio, mode, allowed_emails=("ada@example.org",))
    sent = token(studio, chat)
    studio.store.chats.update(chat.id, None, {"auth_type": "public"})
    assert get(studio, sent) == (200, "in")
    studio.store.chats.update(chat.id, None, {"auth_type": mode})
    assert get(studio, sent) == (401, f"auth_required_{mode}")


@pytest.mark.parametrize("mode", GATED)
def test_passes_outlive_other_changes(studio: Studio, mode: str) -> None:
    chat = make_chat(studio, mode, allowed_emails=("ada@example.org",))
    sent = token(studio, chat)
    studio.store.chats.update(chat.id, None, {"title": "Another", "allowed_origins": ("https://a.test",)})
    assert get(studio, sent) == (200, "in")


@pytest.mark.parametrize("mode", MODES)
def test_passes_die_with_the_chat(studio: Studio, mode: str) -> None:
    """Also of one that takes its place."""
    chat = make_chat(studio, mode, allowed_emails=("ada@example.org",))
    sent = token(studio, chat)
    studio.store.chats.delete(chat.id)
    assert get(studio, sent) == (404, "not_found")
    made = make_chat(studio, mode, allowed_emails=("ada@example.org",))
    assert made.id != chat.id
    assert get(studio, sent) == ((200, "in") if mode == "public" else (401, f"auth_required_{mode}"))


def test_a_pass_lasts_as_long_as_is_configured(studio: Studio) -> None:
    chat, clock = make_chat(studio, "password"), movable(studio)
    configure(studio, chat_pass_s=600.0)
    sent = token(studio, chat)
    clock.pass_(590)
    assert get(studio, sent) == (200, "in")
    clock.pass_(11)
    assert get(studio, sent) == (401, "auth_required_password")


def test_using_it_does_not_prolong_it(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token is signed anew now and then; since when the pass counts stays as it was."""
    chat, clock = make_chat(studio, "password"), movable(studio)
    sent = token(studio, chat)
    monkeypatch.setattr(visitors, "_RENEWED_S", -1)
    for _ in range(3):
        clock.pass_(studio.app.extensions["studio"].settings.chat_pass_s / 4)
        answer = studio.client.get("/api/chat/help", headers={HEADER: sent})
        assert answer.status_code == 200
        sent = answer.headers[HEADER]
    clock.pass_(studio.app.extensions["studio"].settings.chat_pass_s / 4)
    assert get(studio, sent) == (401, "auth_required_password")


# -- a session -----------------------------------------------------------------------------------------


def test_getting_in_without_a_message_and_leaving(studio: Studio) -> None:
    make_chat(studio, "password")
    client = studio.app.test_client()
    wrong = client.post("/api/chat/help/session", json={"password": "wrong"})
    assert (wrong.status_code, wrong.get_json()["code"]) == (401, "AUTH_REQUIRED_PASSWORD")
    answer = client.post("/api/chat/help/session", json={"password": PASSWORD})
    assert answer.status_code == 200
    assert answer.get_json()["authType"] == "password"
    assert answer.get_json()["expiresAt"].endswith("Z")
    assert client.get("/api/chat/help").status_code == 200
    left = client.delete("/api/chat/help/session")
    assert (left.status_code, left.get_data()) == (204, b"")
    assert client.get("/api/chat/help").status_code == 401


def test_a_public_chat_has_sessions_too(studio: Studio) -> None:
    make_chat(studio)
    answer = studio.client.post("/api/chat/help/session")
    assert answer.get_json() == {"authType": "public"}


def test_who_leaves_is_somebody_else_afterwards(studio: Studio) -> None:
    chat = make_chat(studio)
    client = studio.app.test_client()
    client.get("/api/chat/help")
    before = client.get_cookie(f"studio_{chat.id}").value
    client.delete("/api/chat/help/session")
    assert client.get_cookie(f"studio_{chat.id}") is None
    client.get("/api/chat/help")
    with studio.app.test_request_context("/", headers={HEADER: before}):
        first = visitors.sent(chat)
    with studio.app.test_request_context("/", headers={HEADER: client.get_cookie(f"studio_{chat.id}").value}):
        second = visitors.sent(chat)
    assert first is not None
    assert second is not None
    assert first.id != second.id


def test_leaving_with_the_header(studio: Studio) -> None:
    chat = make_chat(studio)
    left = studio.client.delete("/api/chat/help/session", headers={HEADER: token(studio, chat)})
    assert (left.status_code, left.headers[HEADER]) == (204, "")
    assert "Set-Cookie" not in left.headers


@pytest.mark.parametrize(("slug", "status"), [("nope", 404), ("closed", 204)])
def test_leaving_needs_no_chat_that_answers(studio: Studio, slug: str, status: int) -> None:
    make_chat(studio, slug="closed", active=False)
    assert studio.client.delete(f"/api/chat/{slug}/session").status_code == status


def test_bodies_of_sessions_are_strict(studio: Studio) -> None:
    make_chat(studio)
    for method, body in (("POST", {"x": 1}), ("POST", {"password": 1}), ("DELETE", {"x": 1})):
        answer = studio.client.open("/api/chat/help/session", method=method, json=body)
        assert (answer.status_code, answer.get_json()["code"]) == (400, "VALIDATION_FAILED")


# -- making chats --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("auth_type", "lacking", "cure"),
    [
        ("email", {"mail": "smtp", "smtp_host": ""}, "STUDIO_SMTP_HOST"),
        ("sso", {}, "STUDIO_OIDC_ISSUER"),
        ("sso", {"oidc_issuer": "https://id.example"}, "STUDIO_OIDC_CLIENT_ID"),
    ],
)
def test_a_gate_that_cannot_work_is_refused(
    studio: Studio, auth_type: str, lacking: dict[str, t.Any], cure: str
) -> None:
    configure(studio, **lacking)
    workflow = studio.deploy(document("scripted/plain"))
    body = {"workflowId": workflow, "slug": "help", "title": "Help", "authType": auth_type}
    sent = {**body, "allowedEmails": ["@example.org"]}
    answer = studio.client.post("/api/chats", json=sent, headers={"X-API-Key": studio.keys["admin"]})
    assert_error(answer, 400, "validation_failed", path="authType", says=cure)


@pytest.mark.parametrize(
    ("auth_type", "there"),
    [
        ("email", {"mail": "console"}),
        ("email", {"mail": "smtp", "smtp_host": "mail.example"}),
        ("sso", {"oidc_issuer": "https://id.example", "oidc_client_id": "studio"}),
    ],
)
def test_one_that_can_is_made(studio: Studio, auth_type: str, there: dict[str, t.Any]) -> None:
    configure(studio, **there)
    workflow = studio.deploy(document("scripted/plain"))
    body = {"workflowId": workflow, "slug": "help", "title": "Help", "authType": auth_type}
    sent = {**body, "allowedEmails": ["@example.org"]}
    answer = studio.client.post("/api/chats", json=sent, headers={"X-API-Key": studio.keys["admin"]})
    assert answer.status_code == 201, answer.get_data()


# -- tampering -----------------------------------------------------------------------------------------

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."
_BENDS: tuple[Callable[[str, str, int, str], str], ...] = (
    lambda right, other, at, text: right[:at],
    lambda right, other, at, text: right[at + 1 :],
    lambda right, other, at, text: right[:at] + right[at + 1 :],
    lambda right, other, at, text: right[:at] + other[at:],
    lambda right, other, at, text: other[:at] + right[at:],
    lambda right, other, at, text: right[:at] + text + right[at + 1 :],
    lambda right, other, at, text: right[:at] + text + right[at:],
    lambda right, other, at, text: right + text,
    lambda right, other, at, text: other,
    lambda right, other, at, text: text,
)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    bend=st.sampled_from(_BENDS),
    at=st.integers(0, 10_000),
    text=st.text(max_size=20) | st.text(_LETTERS, max_size=200),
)
def test_no_changed_token_says_anything_else(
    studio: Studio, bend: Callable[[str, str, int, str], str], at: int, text: str
) -> None:
    """Cut, lengthened, changed, put together of two, or made up: it is the same visitor's still, or nobody's."""
    chat = _once(studio)
    right, other = (token(studio, one) for one in (chat, dataclasses.replace(chat, id="chat_other")))
    with studio.app.test_request_context("/"):
        mine = visitors._read(chat.id, right, visitors.KNOWN_S)
        found = visitors._read(chat.id, bend(right, other, at % len(right), text), visitors.KNOWN_S)
    assert mine is not None
    assert found in (None, mine)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(mode=st.sampled_from(MODES), version=st.integers(-5, 5), age=st.integers(-1000, 10**6))
@example(mode="password", version=0, age=0)
def test_a_pass_is_worth_what_it_says(studio: Studio, mode: str, version: int, age: int) -> None:
    """It opens the gate it was given at, as that is now, for its time; whatever else is in it."""
    chat = _once(studio)
    services = studio.app.extensions["studio"]
    now = services.clock.now_ms() // 1000
    shown = Pass(mode, chat.password_version + version, now - age)
    with studio.app.test_request_context("/"):
        opens = chat_gates._is_in(chat, Visitor(chat.id, "x", shown))
    assert opens == (mode == "password" and version == 0 and age < services.settings.chat_pass_s)


def _once(studio: Studio) -> ChatRow:
    return studio.store.chats.by_slug("help") or make_chat(studio, "password")
