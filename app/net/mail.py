"""E-mail: one message to one address, by SMTP.

Law of this room: a message is built by the standard library, which lets nobody put a line into a header. Every step has
its time, and all from the greeting on have one together, however slowly a server answers. A failure says what went
wrong and repeats nothing that the server said: that may hold an address.
"""

from __future__ import annotations

import contextlib
import smtplib
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.utils import formatdate, make_msgid, parseaddr

from gevent import get_hub

#: Ports by which servers listen, as ``STUDIO_SMTP_TLS`` says.
PORTS = {"starttls": 587, "tls": 465, "none": 25}
TIMEOUT_S = 30.0
_STEP_S = 10.0


class MailFailed(Exception):
    """A message was not taken. Its text is for operators."""


@dataclass(frozen=True, slots=True)
class MailServer:
    """Where messages are handed in.

    :ivar port: 0: the usual one. :ivar tls: ``starttls``, ``tls`` or ``none``. :ivar sender: address, with or without a
        name.
    """

    host: str
    port: int = 0
    tls: str = "starttls"
    user: str = ""
    password: str = field(default="", repr=False)
    sender: str = ""

    @property
    def domain(self) -> str:
        """Of the sender; as this we greet."""
        return parseaddr(self.sender)[1].rpartition("@")[2] or "localhost"


def message(sender: str, to: str, subject: str, text: str) -> EmailMessage:
    """A message that says it was written by a program.

    :raises ValueError: a header would have more than one line.
    """
    made = EmailMessage()
    made["From"], made["To"], made["Subject"] = sender, to, subject
    made["Date"] = formatdate()
    made["Message-ID"] = make_msgid(domain=parseaddr(sender)[1].rpartition("@")[2] or "localhost")
    made["Auto-Submitted"] = "auto-generated"
    made.set_content(text)
    return made


def send(server: MailServer, made: EmailMessage, timeout_s: float = TIMEOUT_S) -> None:
    """Hand a message in. Waits cooperatively.

    :raises MailFailed: it was not taken.
    """
    try:
        with _bounded(_connected(server), timeout_s) as client:
            if server.tls == "starttls":
                client.starttls(context=ssl.create_default_context())
            if server.user:
                client.login(server.user, server.password)
            client.send_message(made)
            client.quit()
    except smtplib.SMTPResponseException as error:
        raise MailFailed(f"{type(error).__name__} {error.smtp_code}") from None
    except ssl.SSLCertVerificationError as error:
        raise MailFailed(f"its certificate is not trusted: {error.verify_message}") from None
    except (smtplib.SMTPException, OSError, ValueError) as error:
        raise MailFailed(type(error).__name__) from None


def _connected(server: MailServer) -> smtplib.SMTP:
    port = server.port or PORTS[server.tls]
    if server.tls != "tls":
        return smtplib.SMTP(server.host, port, server.domain, _STEP_S)
    context = ssl.create_default_context()
    return smtplib.SMTP_SSL(server.host, port, server.domain, timeout=_STEP_S, context=context)


@contextlib.contextmanager
def _bounded(client: smtplib.SMTP, timeout_s: float) -> Iterator[smtplib.SMTP]:
    timer = get_hub().loop.timer(timeout_s)
    timer.start(_end, client)
    try:
        yield client
    finally:
        timer.stop()
        timer.close()
        client.close()


def _end(client: smtplib.SMTP) -> None:
    """Hub callback: wake who waits for this server, by ending the connection."""
    if client.sock is not None:
        with contextlib.suppress(OSError):
            client.sock.shutdown(socket.SHUT_RDWR)
