"""E-mails that a request causes, sent after it was answered.

Law of this room: who asked waits for no mail server and cannot tell from the time it took whether there was a message
at all: what sends none goes the same way. A few at once, so many in a queue; what fails is logged without the address.
A process that is asked to stop sends what waits first, for as long as it may stay.
"""

from __future__ import annotations

import logging
import socket
import sys
import typing as t
from collections import deque

from flask import Flask, current_app
from gevent.event import Event

from app.config import Settings
from app.engine.scope import spawn_service
from app.net.mail import MailFailed, MailServer, message, send
from app.web.http import services

log = logging.getLogger("studio.mail")

#: Messages of a worker that are handed in at once, and that wait.
AT_ONCE, WAITING = 4, 200


def can_send() -> bool:
    """Whether there is a way for e-mails."""
    return is_set(services().settings)


class _Waiting(t.NamedTuple):
    """A message; with ``to`` None one that is sent to nobody."""

    to: str | None
    subject: str
    text: str


class Mailer:
    """The way for e-mails of one process."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._waiting: deque[_Waiting] = deque()
        self._busy = self._sending = 0
        self._closed = False
        self._idle = Event()
        self._idle.set()

    def post(self, to: str | None, subject: str, text: str) -> bool:
        """Send a message after this; False when too many wait, or the process ends.

        :param to: None: to nobody, and it looks the same.
        """
        if self._closed or len(self._waiting) >= WAITING:
            return False
        self._waiting.append(_Waiting(to, subject, text))
        self._idle.clear()
        if self._busy < AT_ONCE:
            self._busy += 1
            spawn_service(self._work)
        return True

    def _work(self) -> None:
        try:
            while self._waiting:
                to, subject, text = self._waiting.popleft()
                if to is not None:
                    self._sending += 1
                    try:
                        self._send(to, subject, text)
                    finally:
                        self._sending -= 1
        finally:
            self._busy -= 1
            if not self._busy:
                self._idle.set()

    def drain(self, timeout_s: float) -> None:
        """Take no more messages once those that wait are sent, or when the time is over; how many then are not is
        logged, and nothing else of them.
        """
        self._idle.wait(timeout_s)
        self._closed = True
        left = self._sending + sum(waiting.to is not None for waiting in self._waiting)
        self._waiting.clear()
        if left:
            log.error(
                "%d e-mail(s) were not sent: this process ends, and waited for them for %g s", left, timeout_s
            )

    def _send(self, to: str, subject: str, text: str) -> None:
        server = _server(self._settings)
        try:
            made = message(server.sender, to, " ".join(subject.split()), text)
            if self._settings.mail == "console":
                # Not the log: what is in a message is meant for one person, and nothing masks it.
                sys.stdout.write(f"\n--- An e-mail, printed because of STUDIO_MAIL=console\n{made}---\n")
                sys.stdout.flush()
                return
            send(server, made)
        except MailFailed as failed:
            log.error("an e-mail was not taken by %s: %s", server.host, failed)
        except (
            Exception
        ) as error:  # whatever it is, the next message is tried, and no traceback shows this one
            log.error("an e-mail could not be sent: %s", type(error).__name__)


def mailer() -> Mailer:
    """The mailer of the running application."""
    found: Mailer | None = current_app.extensions.get("studio.mailer")
    if found is None:
        found = current_app.extensions["studio.mailer"] = Mailer(services().settings)
    return found


def drain(app: Flask, timeout_s: float) -> None:
    """Send what waits of an application that ends; see :meth:`Mailer.drain`."""
    found: Mailer | None = app.extensions.get("studio.mailer")
    if found is not None:
        found.drain(timeout_s)


def is_set(settings: Settings) -> bool:
    """Whether these settings name a way for e-mails."""
    return settings.mail == "console" or bool(settings.smtp_host)


def _server(settings: Settings) -> MailServer:
    user = settings.smtp_user
    sender = settings.smtp_from or (user if "@" in user else f"studio@{socket.gethostname()}")
    return MailServer(
        settings.smtp_host,
        settings.smtp_port,
        settings.smtp_tls,
        user,
        settings.smtp_password,
        sender,
    )
