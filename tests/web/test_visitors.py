"""Who a visitor of a chat is: the token, in a cookie or in a header."""

from __future__ import annotations

import typing as t

import pytest
from flask import Response

from app.store.chats import ChatRow
from app.web import chat_gates, visitors
from tests.web.conftest import Studio

CHAT = ChatRow("chat_1", "wf_1", "help", "Help")
OTHER = ChatRow("chat_2", "wf_1", "other", "Other")


@pytest.fixture
def enter(studio: Studio) -> t.Callable[..., tuple[str, Response]]:
    """Enter a chat in a request with these headers and cookies; the visitor's id and the answer."""

    def one(chat: ChatRow = CHAT, url: str = "http://studio.test", **headers: str) -> tuple[str, Response]:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        with studio.app.test_request_context("/api/chat/help", base_url=url, headers=sent):
            who = chat_gates.enter(chat)
            return who.id, studio.app.process_response(Response())

    return one


def cookie_of(answer: Response) -> str:
    """``name=value`` of the one cookie that is set."""
    (line,) = answer.headers.getlist("Set-Cookie")
    return line.partition(";")[0]


def test_a_browser_is_known_again(enter: t.Any) -> None:
    first, answer = enter()
    again, silent = enter(Cookie=cookie_of(answer))
    assert again == first
    assert "Set-Cookie" not in silent.headers
    assert enter()[0] != first


def test_the_cookie_is_http_only_and_same_site(enter: t.Any) -> None:
    (line,) = enter()[1].headers.getlist("Set-Cookie")
    name, *attributes = line.split("; ")
    assert name.startswith("studio_chat_1=")
    assert {"HttpOnly", "Path=/", "SameSite=Lax"} <= set(attributes)
    assert not {"Secure", "Partitioned"} & set(attributes)
    assert "Domain" not in line


@pytest.mark.parametrize(
    ("origins", "same_site"),
    [((), "None"), (("https://elsewhere.test",), "None"), (("https://studio.test",), "Lax")],
)
def test_over_tls_the_cookie_is_secure_and_goes_into_frames_of_who_may_embed(
    enter: t.Any, origins: tuple[str, ...], same_site: str
) -> None:
    chat = ChatRow("chat_1", "wf_1", "help", "Help", allowed_origins=origins)
    first, answer = enter(chat, "https://studio.test")
    (line,) = answer.headers.getlist("Set-Cookie")
    name, *attributes = line.split("; ")
    assert name.startswith("__Host-studio_chat_1=")
    assert {"Secure", "HttpOnly", "Path=/", f"SameSite={same_site}"} <= set(attributes)
    assert ("Partitioned" in attributes) == (same_site == "None")
    assert enter(chat, "https://studio.test", Cookie=cookie_of(answer))[0] == first
    planted = cookie_of(answer).removeprefix("__Host-")
    assert enter(chat, "https://studio.test", Cookie=planted)[0] != first


def test_who_sends_the_header_is_answered_in_it_and_by_no_cookie(enter: t.Any) -> None:
    first, answer = enter(X_Studio_Visitor="new")
    assert "Set-Cookie" not in answer.headers
    again, _ = enter(X_Studio_Visitor=answer.headers[visitors.HEADER])
    assert again == first


def test_who_uses_cookies_gets_no_token_that_a_script_could_read(enter: t.Any) -> None:
    assert visitors.HEADER not in enter()[1].headers


def test_a_token_is_of_one_chat(enter: t.Any) -> None:
    first, answer = enter(X_Studio_Visitor="new")
    other, _ = enter(OTHER, X_Studio_Visitor=answer.headers[visitors.HEADER])
    assert other != first


def test_a_visitor_owns_by_chat_and_id(studio: Studio) -> None:
    assert visitors.Visitor("chat_1", "abc").subject == "chat:chat_1:abc"


def test_other_answers_carry_no_token(studio: Studio) -> None:
    answer = studio.client.get("/api/health", headers={visitors.HEADER: "new"})
    assert visitors.HEADER not in answer.headers
    assert "Set-Cookie" not in answer.headers


def test_browsers_may_send_and_read_the_header(studio: Studio) -> None:
    asked = studio.client.options("/api/chat/help")
    assert visitors.HEADER in asked.headers["Access-Control-Allow-Headers"]
    told = studio.client.get("/api/health")
    assert visitors.HEADER in told.headers["Access-Control-Expose-Headers"]
