"""Chats that send a code by e-mail: who gets one, who gets in, and what nobody learns."""

from __future__ import annotations

import logging
import typing as t
import uuid
from collections.abc import Iterator
from dataclasses import replace

import pytest

from app.store.chats import ChatRow
from app.web import email_gate, mailer
from app.web.email_gate import (
    FROM_ONE,
    LIVE_MS,
    OF_ALL,
    PAUSE_MS,
    TO_ONE,
    TRIES,
    WRONG_FROM_ONE,
    WRONG_OF_ALL,
)
from tests.support.mails import Post, post
from tests.web.conftest import Studio
from tests.web.gates import Later, configure, make_chat, movable, tried, use_up

ADA, BOB, EVE = "ada@example.org", "bob@allowed.example", "eve@elsewhere.example"
ALLOWED = (ADA, "@allowed.example")


@pytest.fixture(scope="module")
def letters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Post]:
    with post(tmp_path_factory.mktemp("post")) as made:
        yield made


@pytest.fixture
def box(letters: Post) -> Post:
    """The mail server, empty: what an earlier test has sent may still be on its way."""
    return replace(letters, sender=f"studio-{uuid.uuid4().hex}@example.org")


@pytest.fixture
def chat(studio: Studio, box: Post) -> ChatRow:
    configure(
        studio,
        mail="smtp",
        smtp_host="127.0.0.1",
        smtp_port=box.port,
        smtp_tls="none",
        smtp_from=box.sender,
    )
    return make_chat(studio, "email", allowed_emails=ALLOWED)


@pytest.fixture
def clock(studio: Studio) -> Later:
    return movable(studio)


def ask(studio: Studio, email: str = ADA, slug: str = "help", address: str = "192.0.2.1") -> t.Any:
    where = {"REMOTE_ADDR": address}
    return studio.app.test_client().post(f"/api/chat/{slug}/otp", json={"email": email}, environ_base=where)


def give(
    studio: Studio,
    code: str,
    email: str = ADA,
    slug: str = "help",
    client: t.Any = None,
    address: str = "192.0.2.1",
) -> t.Any:
    client = client or studio.app.test_client()
    where = {"REMOTE_ADDR": address}
    return client.put(f"/api/chat/{slug}/otp", json={"email": email, "otp": code}, environ_base=where)


def code_for(studio: Studio, box: Post, email: str = ADA) -> str:
    assert ask(studio, email).status_code == 202
    return box.wait(email).code


def other_than(code: str) -> str:
    return f"{(int(code) + 1) % 1_000_000:06}"


def refused(answer: t.Any) -> None:
    assert_chat_error(answer, 401, "auth_required_email")
    assert "Set-Cookie" not in answer.headers


def assert_chat_error(answer: t.Any, status: int, code: str) -> None:
    assert (answer.status_code, answer.get_json()["error"]["code"]) == (status, code), answer.get_data()


# -- getting in ----------------------------------------------------------------------------------------


def test_the_code_lets_in(studio: Studio, chat: ChatRow, box: Post) -> None:
    client = studio.app.test_client()
    assert_chat_error(client.get("/api/chat/help"), 401, "auth_required_email")
    asked = ask(studio)
    assert (asked.status_code, asked.get_json()["validMs"], asked.get_json()["resendMs"]) == (
        202,
        LIVE_MS,
        PAUSE_MS,
    )
    mail = box.wait(ADA)
    assert mail.sender == box.sender
    assert mail.message["Subject"] == "Your code for Help"
    answer = give(studio, mail.code, client=client)
    assert answer.status_code == 200
    assert answer.get_json()["expiresAt"].endswith("Z")
    assert client.get("/api/chat/help").get_json()["title"] == "Help"


@pytest.mark.parametrize(
    "written", ["Ada@Example.ORG", "  ada@example.org ", BOB.upper(), "any.body+x@allowed.example"]
)
def test_addresses_and_domains_in_any_case(studio: Studio, chat: ChatRow, box: Post, written: str) -> None:
    ask(studio, written)
    code = box.wait(written.strip().lower()).code
    assert give(studio, f" {code[:3]}-{code[3:]} ", written).status_code == 200


@pytest.mark.parametrize(
    "email",
    [
        EVE,
        "ada@example.org.evil.example",
        "ada@sub.allowed.example",
        "xada@example.org",
        "x@notallowed.example",
    ],
)
def test_nobody_else_gets_one(studio: Studio, chat: ChatRow, box: Post, email: str) -> None:
    assert ask(studio, email).status_code == 202
    assert ask(studio, ADA).status_code == 202
    box.wait(ADA)
    assert [mail.to for mail in box.mails()] == [ADA]


def test_one_person_is_one_visitor_on_every_device_and_two_are_two_on_one(
    studio: Studio, chat: ChatRow, box: Post
) -> None:
    def enter(email: str, client: t.Any) -> str:
        answer = give(studio, code_for(studio, box, email), email, client=client)
        return str(answer.headers["X-Studio-Visitor"])

    def subject(token: str) -> str:
        from app.web import visitors

        with studio.app.test_request_context("/", headers={"X-Studio-Visitor": token}):
            found = visitors.sent(chat)
            assert found is not None
            assert found.email in (ADA, BOB)
            return found.subject

    clock = movable(studio)
    phone = _with_header(studio)
    desk = _with_header(studio)
    first = subject(enter(ADA, phone))
    clock.pass_(60)
    for path in box.folder.iterdir():
        path.unlink(missing_ok=True)
    assert subject(enter(ADA, desk)) == first
    assert subject(enter(BOB, desk)) != first
    assert "ada" not in first


def _with_header(studio: Studio) -> t.Any:
    client = studio.app.test_client()
    client.environ_base["HTTP_X_STUDIO_VISITOR"] = "new"
    return client


# -- codes ---------------------------------------------------------------------------------------------


def test_a_code_is_used_once(studio: Studio, chat: ChatRow, box: Post) -> None:
    code = code_for(studio, box)
    assert give(studio, code).status_code == 200
    refused(give(studio, code))


def test_it_has_five_tries(studio: Studio, chat: ChatRow, box: Post) -> None:
    code = code_for(studio, box)
    for _ in range(TRIES):
        refused(give(studio, other_than(code)))
    refused(give(studio, code))


def test_it_has_its_time(studio: Studio, chat: ChatRow, box: Post, clock: Later) -> None:
    code = code_for(studio, box)
    clock.pass_(LIVE_MS / 1000)
    refused(give(studio, code))


def test_the_next_takes_its_place_after_a_pause(
    studio: Studio, chat: ChatRow, box: Post, clock: Later
) -> None:
    first = code_for(studio, box)
    again = ask(studio)
    assert_chat_error(again, 429, "rate_limited")
    assert 25 <= int(again.headers["Retry-After"]) <= 30
    clock.pass_(PAUSE_MS / 1000)
    assert ask(studio).status_code == 202
    second = box.wait(ADA, 2).code
    if first != second:
        refused(give(studio, first))
    assert give(studio, second).status_code == 200


def test_it_is_of_one_address_and_chat(studio: Studio, chat: ChatRow, box: Post) -> None:
    make_chat(studio, "email", "other", allowed_emails=ALLOWED)
    code = code_for(studio, box)
    assert ask(studio, BOB).status_code == 202
    assert ask(studio, slug="other").status_code == 202
    if code not in {mail.code for mail in (box.wait(BOB), box.wait(ADA, 2))}:
        refused(give(studio, code, BOB))
        refused(give(studio, code, slug="other"))
    assert give(studio, code).status_code == 200


def test_who_is_taken_off_the_list_does_not_get_in_with_it(studio: Studio, chat: ChatRow, box: Post) -> None:
    code = code_for(studio, box)
    studio.store.chats.update(chat.id, None, {"allowed_emails": (BOB,)})
    refused(give(studio, code))


# -- what nobody learns --------------------------------------------------------------------------------


def _seen(answer: t.Any) -> tuple[int, bytes, list[tuple[str, str]]]:
    """Everything that came back but the request's id."""
    own = answer.headers["X-Request-Id"]
    headers = [(name, value.replace(own, "ID")) for name, value in answer.headers.items()]
    return answer.status_code, answer.get_data().replace(own.encode(), b"ID"), headers


def test_who_may_get_in_cannot_be_told_from_who_may_not(
    studio: Studio, chat: ChatRow, box: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes and headers, over all that can be asked: first, again, too often; wrong codes until no more count."""
    still = movable(studio)
    monkeypatch.setattr(Later, "now_ms", lambda self: 1_700_000_000_000 + self.ahead_ms)

    def story(email: str, address: str) -> list[t.Any]:
        told = [_seen(give(studio, "000000", email, address=address))]
        for _ in range(TO_ONE + 1):
            told += [_seen(ask(studio, email, address=address)) for _ in range(2)]
            told += [_seen(give(studio, "12345x", email, address=address))]
            told += [_seen(give(studio, "999999", email, address=address)) for _ in range(2)]
            still.pass_(PAUSE_MS / 1000)
        still.pass_(3600)
        return told

    monkeypatch.setattr(email_gate.secrets, "randbelow", lambda _: 123456)
    allowed, unknown = story(ADA, "192.0.2.1"), story(EVE, "192.0.2.2")
    assert allowed == unknown
    assert {status for status, *_ in allowed} == {202, 400, 401, 429}


def test_nothing_is_kept_in_the_open(studio: Studio, chat: ChatRow, box: Post) -> None:
    code = code_for(studio, box)
    link = studio.store._backend.connect()
    rows = (
        link.execute("SELECT * FROM chat_codes").fetchall()
        + link.execute("SELECT * FROM counters").fetchall()
    )
    link.close()
    kept = [value for row in rows for value in row if isinstance(value, (str, bytes))]
    assert len(kept) > 5
    assert not any(secret in repr(value) for value in kept for secret in (ADA, code))


def test_no_code_and_no_address_in_the_log(
    studio: Studio, chat: ChatRow, box: Post, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    code = code_for(studio, box)
    give(studio, other_than(code))
    give(studio, code)
    configure(studio, smtp_port=1)
    studio.app.extensions.pop("studio.mailer")
    ask(studio, BOB)
    while not any("an e-mail was not taken" in line for line in caplog.messages):
        pause()
    said = "\n".join(caplog.messages)
    assert code not in said
    assert ADA not in said
    assert BOB not in said


def pause() -> None:
    import gevent

    gevent.sleep(0.01)


# -- limits --------------------------------------------------------------------------------------------


def test_an_address_of_mail_gets_so_many(studio: Studio, chat: ChatRow, box: Post, clock: Later) -> None:
    for n in range(TO_ONE):
        assert ask(studio, address=f"192.0.2.{n}").status_code == 202
        clock.pass_(PAUSE_MS / 1000)
    answer = ask(studio, address="198.51.100.1")
    assert_chat_error(answer, 429, "rate_limited")
    assert int(answer.headers["Retry-After"]) > PAUSE_MS / 1000
    assert ask(studio, BOB, address="198.51.100.1").status_code == 202


def test_an_address_of_the_network_may_ask_for_so_many(studio: Studio, chat: ChatRow, box: Post) -> None:
    for n in range(FROM_ONE):
        assert ask(studio, f"nobody{n}@elsewhere.example").status_code == 202
    assert_chat_error(ask(studio, "nobody@elsewhere.example"), 429, "rate_limited")
    assert ask(studio, "nobody@elsewhere.example", address="192.0.2.2").status_code == 202


def test_a_chat_sends_so_many(studio: Studio, chat: ChatRow, box: Post) -> None:
    use_up(studio, f"otp:{chat.id}", OF_ALL)
    assert_chat_error(ask(studio), 429, "rate_limited")
    assert tried(studio, f"otp:{chat.id}:192.0.2.1", FROM_ONE) == 0


def test_wrong_codes_of_an_address_and_of_all_are_counted(studio: Studio, chat: ChatRow, box: Post) -> None:
    code = code_for(studio, box)
    for n in range(WRONG_FROM_ONE):
        refused(give(studio, "000000", f"nobody{n}@elsewhere.example"))
    assert_chat_error(give(studio, code), 429, "rate_limited")
    for n in range(WRONG_OF_ALL - WRONG_FROM_ONE):
        refused(give(studio, "000000", EVE, address=f"198.51.100.{n}"))
    assert_chat_error(give(studio, code, address="203.0.113.1"), 429, "rate_limited")


def test_right_ones_are_not(studio: Studio, chat: ChatRow, box: Post) -> None:
    give(studio, code_for(studio, box))
    assert tried(studio, f"otp-try:{chat.id}", WRONG_OF_ALL) == 0


# -- what is wrong -------------------------------------------------------------------------------------


NO_ADDRESSES = (
    "",
    "ada",
    "@allowed.example",
    "ada@",
    "a@b",
    "ada@example.org\r\nBcc: eve@elsewhere.example",
    "ada@example.org,x@y.z",
    "Ada <ada@example.org>",
    "a" * 65 + "@example.org",
    "ädä@example.org",
    "ada@exam ple.org",
    "ada@example.org\0",
)


def test_what_is_no_address(studio: Studio, chat: ChatRow) -> None:
    for email in NO_ADDRESSES:
        assert_chat_error(ask(studio, email), 400, "validation_failed")


def test_what_is_no_code(studio: Studio, chat: ChatRow) -> None:
    for otp in ("", "12345", "1234567", "12345a", "１２３４５６", "123456\n7"):
        assert_chat_error(give(studio, otp), 400, "validation_failed")


def test_bodies_are_strict(studio: Studio, chat: ChatRow) -> None:
    for method, body in (
        ("POST", {}),
        ("POST", {"email": ADA, "x": 1}),
        ("POST", {"email": [ADA]}),
        ("PUT", {"email": ADA}),
        ("PUT", {"email": ADA, "otp": 123456}),
    ):
        answer = studio.client.open("/api/chat/help/otp", method=method, json=body)
        assert_chat_error(answer, 400, "validation_failed")


@pytest.mark.parametrize(("method", "path"), [("POST", "otp"), ("PUT", "otp"), ("POST", "session")])
def test_what_strangers_send_is_small(studio: Studio, chat: ChatRow, method: str, path: str) -> None:
    answer = studio.client.open(f"/api/chat/help/{path}", method=method, json={"email": "x" * 65536})
    assert_chat_error(answer, 413, "payload_too_large")


@pytest.mark.parametrize("auth_type", ["public", "password", "sso"])
def test_other_chats_send_none(studio: Studio, chat: ChatRow, auth_type: str) -> None:
    make_chat(studio, auth_type, "other", allowed_emails=ALLOWED)
    assert_chat_error(ask(studio, slug="other"), 400, "not_supported")
    assert_chat_error(give(studio, "123456", slug="other"), 400, "not_supported")


def test_no_chat_and_no_mail(studio: Studio, chat: ChatRow) -> None:
    assert_chat_error(ask(studio, slug="nope"), 404, "not_found")
    configure(studio, smtp_host="")
    assert_chat_error(ask(studio), 503, "gate_unavailable")


def test_a_title_puts_no_line_into_a_header(studio: Studio, chat: ChatRow, box: Post) -> None:
    studio.store.chats.update(chat.id, None, {"title": "Help\r\nBcc: eve@elsewhere.example"})
    ask(studio)
    mail = box.wait(ADA)
    assert mail.message["Subject"] == "Your code for Help Bcc: eve@elsewhere.example"
    assert mail.message["Bcc"] is None


def test_the_console_shows_it(studio: Studio, chat: ChatRow, capsys: pytest.CaptureFixture[str]) -> None:
    configure(studio, smtp_host="", mail="console")
    ask(studio)
    said = ""
    while "This is your code" not in said:
        pause()
        said += capsys.readouterr().out
    code = next(line for line in said.splitlines() if line.isdigit())
    assert give(studio, code).status_code == 200


def test_too_many_that_wait_are_told_apart_by_nobody(
    studio: Studio, chat: ChatRow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mailer, "WAITING", 0)
    for email in (ADA, EVE):
        assert_chat_error(ask(studio, email), 503, "at_capacity")
