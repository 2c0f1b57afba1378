"""E-mails that a request causes, sent after it was answered.

Law of this room: who asked waits for no mail server and cannot tell from the time it took whether there was a message
at all: what sends none goes the same way. A few at once, so many in a queue; what fails is logged without the address.
"""

from __future__ import annotations

import logging
import socket
import sys
from collections import deque
from collections.abc import Callable

from flask import current_app

from app.config import Settings
from app.engine.scope import spawn_service
from app.net.mail import MailFailed, MailServer, message, send
from app.web.http import services

log = logging.getLogger("studio.mail")

#: Messages of a worker that are handed in at once, and that wait.
AT_ONCE, WAITING = 4, 200


def can_send() -> bool:
    """Whether there is a way for e-mails."""
    return _can(services().settings)


class Mailer:
    """The way for e-mails of one process."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._waiting: deque[Callable[[], None]] = deque()
        self._busy = 0

    def post(self, to: str | None, subject: str, text: str) -> bool:
        """Send a message after this; False when too many wait.

        :param to: None: to nobody, and it looks the same.
        """
        if len(self._waiting) >= WAITING:
            return False
        self._waiting.append(lambda: None if to is None else self._send(to, subject, text))
        if self._busy < AT_ONCE:
            self._busy += 1
            spawn_service(self._work)
        return True

    def _work(self) -> None:
        try:
            while self._waiting:
                self._waiting.popleft()()
        finally:
            self._busy -= 1

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


def _can(settings: Settings) -> bool:
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
