"""Chats behind a password: who gets in, for how long, and how often somebody may guess."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.clock import SteppingClock
from app.errors import ApiError
from app.store.chats import ChatRow
from app.web import chat_gates, password_gate, passwords
from app.web.password_gate import MOST, MOST_OF_ALL
from tests.web.conftest import Studio
from tests.web.gates import PASSWORD, Browser, code_of, make_chat, tried, use_up


@pytest.fixture
def chat(studio: Studio) -> ChatRow:
    return make_chat(studio, "password")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Comparing takes no time here; what was compared."""
    compared: list[str] = []

    def matches(_: str | None, password: str) -> bool:
        compared.append(password)
        return password == PASSWORD

    monkeypatch.setattr(passwords, "matches", matches)
    return compared


def guess(
    studio: Studio, chat: ChatRow, address: str, password: str = "wrong", jar: dict[str, str] | None = None
) -> ApiError:
    with pytest.raises(ApiError) as refused:
        Browser(studio, address, jar or {}).enter(chat, password)
    return refused.value


def test_the_password_lets_in_and_the_browser_stays_in(studio: Studio, chat: ChatRow) -> None:
    browser = Browser(studio)
    with pytest.raises(ApiError) as refused:
        browser.enter(chat)
    assert (refused.value.status, refused.value.code) == (401, "auth_required_password")
    first = browser.enter(chat, PASSWORD)
    assert browser.enter(chat).id == first.id
    assert first.email is None


@pytest.mark.parametrize(
    "password", ["", "wrong", PASSWORD + " ", PASSWORD.upper(), "x" * 100_000, "\0", "ä\ud800"]
)
def test_another_one_does_not(studio: Studio, chat: ChatRow, password: str) -> None:
    browser = Browser(studio)
    with pytest.raises(ApiError) as refused:
        browser.enter(chat, password)
    assert (refused.value.status, refused.value.code) == (401, "auth_required_password")
    assert not browser.jar


def test_wrong_ones_are_compared_as_the_right_one_is(studio: Studio, chat: ChatRow, quick: list[str]) -> None:
    """Of any length, and where no password is set: nothing is refused before it was hashed."""
    bare = replace(chat, password=None)
    for given in ("", "x", "x" * 5000):
        for where in (chat, bare):
            assert code_of(lambda where=where, given=given: Browser(studio).enter(where, given)) != "in"
    assert len(quick) == 6


def test_no_password_set_lets_nobody_in(studio: Studio, chat: ChatRow) -> None:
    for given in ("", "None", PASSWORD):
        assert code_of(lambda given=given: Browser(studio).enter(replace(chat, password=None), given)) != "in"


def test_ten_wrong_ones_of_an_address_are_enough(studio: Studio, chat: ChatRow, quick: list[str]) -> None:
    for _ in range(MOST):
        assert guess(studio, chat, "192.0.2.1").status == 401
    refused = guess(studio, chat, "192.0.2.1", PASSWORD)
    assert (refused.status, refused.code) == (429, "rate_limited")
    assert 1 <= int(refused.headers["Retry-After"]) <= password_gate.PERIOD_S
    assert len(quick) == MOST
    assert Browser(studio, "192.0.2.2").enter(chat, PASSWORD)


def test_right_ones_are_not_counted(studio: Studio, chat: ChatRow, quick: list[str]) -> None:
    for _ in range(3 * MOST):
        assert Browser(studio).enter(chat, PASSWORD)
    assert tried(studio, f"password:{chat.id}", MOST_OF_ALL) == 0


def test_many_addresses_have_no_more_tries_together(studio: Studio, chat: ChatRow, quick: list[str]) -> None:
    """Then nobody new gets in for a while, not even with the password; who is in stays in."""
    inside = Browser(studio, "192.0.2.200")
    inside.enter(chat, PASSWORD)
    answers = [guess(studio, chat, f"198.51.{n // 250}.{n % 250}").status for n in range(MOST_OF_ALL + 50)]
    assert answers == [401] * MOST_OF_ALL + [429] * 50
    assert guess(studio, chat, "203.0.113.1", PASSWORD).status == 429
    assert len(quick) == 1 + MOST_OF_ALL
    assert inside.enter(chat)
    other = make_chat(studio, "password", "other")
    assert Browser(studio, "203.0.113.1").enter(other, PASSWORD)


def test_who_was_in_before_comes_in_again_while_others_guess(
    studio: Studio, chat: ChatRow, quick: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """His time is over, his address and all others' tries are used up: he has tries of his own, and no more of them."""
    before, elsewhere = Browser(studio, "192.0.2.1"), make_chat(studio, "password", "elsewhere")
    who = before.enter(chat, PASSWORD)
    token = dict(before.jar)
    monkeypatch.setattr(chat_gates, "_is_in", lambda chat, visitor: False)
    use_up(studio, f"password:{chat.id}", MOST_OF_ALL)
    use_up(studio, f"password:{chat.id}:192.0.2.1", MOST)
    assert Browser(studio, "192.0.2.1", dict(token)).enter(chat, PASSWORD).id == who.id
    got = [guess(studio, chat, "192.0.2.9", jar=dict(token)).status for _ in range(MOST + 2)]
    assert got == [401] * MOST + [429] * 2
    assert guess(studio, chat, "192.0.2.1", PASSWORD, dict(token)).status == 429
    # A token says nothing of another chat, nor of a password that is no longer the chat's.
    use_up(studio, f"password:{elsewhere.id}", MOST_OF_ALL)
    assert guess(studio, elsewhere, "192.0.2.2", PASSWORD, dict(token)).status == 429
    other = Browser(studio, "192.0.2.3")
    changed = replace(chat, password_version=chat.password_version + 1)
    with pytest.raises(ApiError) as refused:
        Browser(studio, other.address, dict(token)).enter(changed, PASSWORD)
    assert refused.value.status == 429


def test_never_more_than_ten_in_any_quarter_of_an_hour(
    studio: Studio, chat: ChatRow, quick: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also around the end of one: each try is free again a quarter of an hour after it was made, and not before."""
    clock = SteppingClock(step_ms=0)
    monkeypatch.setattr(studio.store.counters, "_clock", clock)
    guess(studio, chat, "192.0.2.1")
    clock.sleep(800)
    assert [guess(studio, chat, "192.0.2.1").status for _ in range(MOST)] == [401] * (MOST - 1) + [429]
    clock.sleep(99.999)
    refused = guess(studio, chat, "192.0.2.1")
    assert (refused.status, refused.headers["Retry-After"]) == (429, "1")
    clock.sleep(0.001)
    assert [guess(studio, chat, "192.0.2.1").status for _ in range(2)] == [401, 429]
    assert guess(studio, chat, "192.0.2.1").headers["Retry-After"] == "800"
    clock.sleep(800)
    assert [guess(studio, chat, "192.0.2.1").status for _ in range(MOST)] == [401] * (MOST - 1) + [429]


def test_one_address_cannot_use_up_the_tries_of_all(studio: Studio, chat: ChatRow, quick: list[str]) -> None:
    for _ in range(MOST_OF_ALL + MOST):
        guess(studio, chat, "192.0.2.1")
    assert tried(studio, f"password:{chat.id}", MOST_OF_ALL) == MOST
    assert Browser(studio, "192.0.2.2").enter(chat, PASSWORD)


def test_what_is_refused_for_all_costs_nobody_a_try_of_his_own(
    studio: Studio, chat: ChatRow, quick: list[str]
) -> None:
    use_up(studio, f"password:{chat.id}", MOST_OF_ALL)
    assert guess(studio, chat, "192.0.2.1", PASSWORD).status == 429
    assert tried(studio, f"password:{chat.id}:192.0.2.1", MOST) == 0


def test_an_address_of_ipv6_is_its_network(studio: Studio, chat: ChatRow, quick: list[str]) -> None:
    for n in range(MOST):
        assert guess(studio, chat, f"2001:db8:1:2::{n:x}").status == 401
    assert guess(studio, chat, "2001:db8:1:2:ffff::1").status == 429
    assert guess(studio, chat, "2001:db8:1:3::1").status == 401


def test_many_guesses_at_once_do_not_wait_without_end(
    studio: Studio, chat: ChatRow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one too many is told so, and has lost no try."""

    def matches(*_: object) -> bool:
        if len(depth) == password_gate.WAITING:
            return False
        depth.append(1)
        waiting = Browser(studio, f"192.0.2.{len(depth)}")
        answers.append(code_of(lambda: waiting.enter(chat, "x")))
        return False

    depth: list[int] = []
    answers: list[str] = []
    monkeypatch.setattr(passwords, "matches", matches)
    guess(studio, chat, "192.0.2.100")
    assert answers[0] == "at_capacity"
    assert set(answers[1:]) == {"auth_required_password"}
    assert tried(studio, f"password:{chat.id}", MOST_OF_ALL) == password_gate.WAITING


def test_a_pass_ends_with_its_time(studio: Studio, chat: ChatRow) -> None:
    browser = Browser(studio)
    browser.enter(chat, PASSWORD)
    ((name, value),) = browser.jar.items()
    services = studio.app.extensions["studio"]

    class Later:
        def now_ms(self) -> int:
            return 1000 + int(services.settings.chat_pass_s * 1000) + clock.now_ms()

    clock, services.clock = services.clock, Later()
    try:
        assert code_of(lambda: Browser(studio, jar={name: value}).enter(chat)) == "auth_required_password"
    finally:
        services.clock = clock
    assert browser.enter(chat)


def test_the_log_says_once_that_a_chat_is_closed(
    studio: Studio, chat: ChatRow, quick: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    use_up(studio, f"password:{chat.id}", MOST_OF_ALL, but=1)
    for n in range(5):
        guess(studio, chat, f"192.0.2.{n}", "a guess")
    (line,) = [line for line in caplog.messages if "too many wrong passwords" in line]
    assert "the chat 'help' lets nobody new in" in line
    assert "a guess" not in caplog.text
