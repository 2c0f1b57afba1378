"""Entering chats in tests: requests of browsers that keep their cookies."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field, replace

from flask import Response

from app.clock import SystemClock
from app.errors import ApiError
from app.store.chats import ChatRow
from app.web import chat_gates, passwords
from app.web.chat_gates import Visitor
from tests.web.conftest import Studio, document

PASSWORD = "correct horse battery"


def make_chat(studio: Studio, auth_type: str = "public", slug: str = "help", **more: t.Any) -> ChatRow:
    """A chat of a workflow of its own."""
    workflow = studio.deploy(document("scripted/plain"))
    if auth_type == "password":
        more.setdefault("password", passwords.hashed(PASSWORD))
    values = {"workflow_id": workflow, "slug": slug, "title": "Help", "auth_type": auth_type, **more}
    return studio.store.chats.create(values)


def use_up(studio: Studio, key: str, most: int, but: int = 0, period_s: float = 900) -> None:
    """Take all of somebody's tries, but for so many."""
    for _ in range(most - but):
        assert studio.store.counters.take(key, most, period_s)


def tried(studio: Studio, key: str, most: int) -> int:
    """How many tries of somebody count."""
    return studio.store.counters.taken(key, most).value


@dataclass
class Browser:
    """Somebody with a cookie jar, at an address."""

    studio: Studio
    address: str = "192.0.2.1"
    jar: dict[str, str] = field(default_factory=dict)

    def enter(self, chat: ChatRow, password: str | None = None, headers: t.Any = None) -> Visitor:
        """Let the gate decide, and keep what it sets.

        :raises ApiError: it says no.
        """
        return self.request(lambda: chat_gates.enter(chat, {"password": password}), headers)

    def request(self, view: t.Callable[[], t.Any], headers: t.Any = None) -> t.Any:
        """The value of ``view()`` in a request of this browser's."""
        cookies = "; ".join(f"{name}={value}" for name, value in self.jar.items())
        sent = {**({"Cookie": cookies} if cookies else {}), **(headers or {})}
        where = {"REMOTE_ADDR": self.address}
        with self.studio.app.test_request_context("/api/chat/x", headers=sent, environ_base=where):
            value = view()
            self.keep(self.studio.app.process_response(Response()))
        return value

    def keep(self, answer: t.Any) -> None:
        """Take in the cookies of an answer."""
        for line in answer.headers.getlist("Set-Cookie"):
            name, _, value = line.partition(";")[0].partition("=")
            if value:
                self.jar[name] = value
            else:
                self.jar.pop(name, None)


def code_of(enter: t.Callable[[], t.Any]) -> str:
    """The code of the refusal; ``in`` when there is none."""
    try:
        enter()
    except ApiError as refused:
        return refused.code
    return "in"


class Later(SystemClock):
    """The time that is set, and not the machine's."""

    ahead_ms = 0

    def now_ms(self) -> int:
        """See :class:`app.clock.Clock`."""
        return super().now_ms() + self.ahead_ms

    def monotonic(self) -> float:
        """See :class:`app.clock.Clock`."""
        return super().monotonic() + self.ahead_ms / 1000

    def pass_(self, seconds: float) -> None:
        """Let time pass."""
        self.ahead_ms += round(seconds * 1000)


def movable(studio: Studio) -> Later:
    """A clock by which passes, codes and counts of ``studio`` go from now on."""
    clock = Later()
    studio.app.extensions["studio"].clock = clock
    for part in (studio.store.chat_codes, studio.store.counters):
        part._clock = clock
    return clock


def configure(studio: Studio, **settings: t.Any) -> None:
    """Change settings of the running application."""
    services = studio.app.extensions["studio"]
    services.settings = replace(services.settings, **settings)
