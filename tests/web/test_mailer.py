"""E-mails that wait when their process is asked to stop."""

from __future__ import annotations

import logging
from dataclasses import replace
from email.message import EmailMessage

import gevent
import pytest
from gevent.event import Event

from app.config import Settings
from app.web import mailer
from app.web.direct import StreamMiddleware
from app.web.mailer import AT_ONCE, Mailer
from tests.web.conftest import Studio

MANY = AT_ONCE + 3


class Box:
    """A mail server that takes messages once it is let to. :ivar taken: to whom."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open = Event()
        self.taken: list[str] = []
        monkeypatch.setattr(mailer, "send", self._send)

    def _send(self, _server: object, made: EmailMessage) -> None:
        self.open.wait()
        self.taken.append(str(made["To"]))


@pytest.fixture
def box(monkeypatch: pytest.MonkeyPatch) -> Box:
    return Box(monkeypatch)


def filled(settings: Settings) -> Mailer:
    """One with messages that wait, and as many to nobody."""
    made = Mailer(replace(settings, mail="smtp", smtp_host="127.0.0.1"))
    for number in range(MANY):
        assert made.post(f"someone{number}@example.org", "Your code", "123456")
        assert made.post(None, "Your code", "123456")
    return made


def test_what_waits_is_sent_before_the_process_ends(studio: Studio, box: Box) -> None:
    made = studio.app.extensions["studio.mailer"] = filled(studio.app.extensions["studio"].settings)
    drained = gevent.spawn(StreamMiddleware(studio.app).drain, 60)
    gevent.idle()
    assert box.taken == []
    box.open.set()
    drained.get()
    assert sorted(box.taken) == [f"someone{number}@example.org" for number in range(MANY)]
    assert not made.post("late@example.org", "Your code", "123456")


def test_what_cannot_be_sent_in_time_is_counted(box: Box, caplog: pytest.LogCaptureFixture) -> None:
    made = filled(Settings())
    with caplog.at_level(logging.ERROR):
        made.drain(0)
    assert f"{MANY} e-mail(s) were not sent" in caplog.text
    assert "example.org" not in caplog.text
    assert "123456" not in caplog.text
    box.open.set()  # those that were being handed in end
    while made._busy:
        gevent.idle()
    assert len(box.taken) == AT_ONCE


def test_nothing_waits(studio: Studio, caplog: pytest.LogCaptureFixture) -> None:
    mailer.drain(studio.app, 0)
    Mailer(Settings()).drain(0)
    assert "e-mail" not in caplog.text
