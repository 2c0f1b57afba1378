"""E-mail by SMTP, against a real server."""

from __future__ import annotations

import os
import typing as t
from collections.abc import Iterator
from pathlib import Path

import gevent
import pytest

from app.net.mail import MailFailed, MailServer, message, send
from tests.support.mails import Post, certificate, post
from tests.support.servers import free_port

SENDER = "Studio <studio@example.org>"


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return certificate(tmp_path_factory.mktemp("tls") / "server.pem")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Post]:
    with post(tmp_path_factory.mktemp("post")) as made:
        yield made


@pytest.fixture
def trusted(pem: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's certificate is trusted here."""
    monkeypatch.setenv("SSL_CERT_FILE", os.fspath(pem))


def server(port: int, tls: str = "none", **more: t.Any) -> MailServer:
    return MailServer("127.0.0.1", port, tls, sender=SENDER, **more)


def hello(to: str = "ada@example.org", subject: str = "Hello") -> t.Any:
    return message(SENDER, to, subject, "Grüße aus der Ferne.\n")


def test_a_message_is_handed_in(plain: Post) -> None:
    send(server(plain.port), hello("ada@example.org", "Grüße an 東京"))
    mail = plain.wait("ada@example.org")
    assert (mail.sender, mail.secure) == ("studio@example.org", False)
    assert mail.text == "Grüße aus der Ferne.\n"
    assert mail.message["Subject"] == "Grüße an 東京"
    assert mail.message["From"] == SENDER
    assert mail.message["Auto-Submitted"] == "auto-generated"
    assert mail.message["Message-ID"].endswith("@example.org>")
    assert mail.message["Date"]


@pytest.mark.parametrize("bad", ["a\r\nBcc: eve@example.org", "a\nBcc: eve@example.org", "a\rb"])
def test_nobody_puts_a_line_into_a_header(bad: str) -> None:
    with pytest.raises(ValueError, match=r"newline|linefeed|carriage return|CR or LF"):
        message(SENDER, "ada@example.org", bad, "x")
    with pytest.raises(ValueError, match=r"newline|linefeed|carriage return|CR or LF"):
        message(SENDER, f"{bad}@example.org", "x", "x")


@pytest.mark.parametrize("tls", ["starttls", "tls"])
def test_over_tls_with_a_password(tmp_path: Path, pem: Path, trusted: None, tls: str) -> None:
    with post(tmp_path / "post", "--tls", tls, "--pem", str(pem), "--auth") as made:
        signed_in = server(made.port, tls, user="studio", password="mail-password")
        send(signed_in, hello())
        mail = made.wait("ada@example.org")
        assert (mail.secure, mail.who) == (True, "studio")
        with pytest.raises(MailFailed, match=r"^SMTPAuthenticationError 535$"):
            send(server(made.port, tls, user="studio", password="wrong"), hello())


def test_a_server_that_nobody_vouches_for_gets_nothing(tmp_path: Path, pem: Path) -> None:
    with post(tmp_path / "post", "--tls", "tls", "--pem", str(pem)) as made:
        with pytest.raises(MailFailed, match="certificate is not trusted"):
            send(server(made.port, "tls"), hello())
        assert not made.mails()


def test_nothing_goes_in_the_open_where_tls_was_asked_for(plain: Post) -> None:
    before = len(plain.mails())
    with pytest.raises(MailFailed, match="SMTPNotSupportedError"):
        send(server(plain.port, "starttls", user="studio", password="mail-password"), hello())
    assert len(plain.mails()) == before


def test_a_failure_does_not_repeat_the_address(plain: Post) -> None:
    with pytest.raises(MailFailed) as failed:
        send(server(plain.port), hello("refused@example.org"))
    assert "@" not in str(failed.value)
    assert failed.value.__cause__ is None
    assert failed.value.__suppress_context__


def test_a_server_that_is_not_there() -> None:
    with pytest.raises(MailFailed, match="ConnectionRefusedError"):
        send(server(free_port()), hello())


@pytest.mark.leak_check
def test_a_silent_server_is_left_and_others_go_on_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.net.mail._STEP_S", 1.0)
    turns: list[int] = []

    def count() -> None:
        while True:
            turns.append(1)
            gevent.sleep(0.01)

    with post(tmp_path / "post", "--silent") as made:
        counting = gevent.spawn(count)
        try:
            with pytest.raises(MailFailed, match="SMTPServerDisconnected"):
                send(server(made.port), hello())
        finally:
            counting.kill()
    assert len(turns) > 5


def test_the_password_is_not_shown() -> None:
    assert "mail-password" not in repr(server(1, user="studio", password="mail-password"))
