"""A real mail server for tests, and the messages it took.

Law of this room: the server is a process of its own on a free port of loopback; what it takes is a folder of files.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import re
import subprocess
import sys
import typing as t
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path

from tests.support.servers import end, wait_until
from tests.support.shared import ROOT


@dataclass(frozen=True)
class Mail:
    """A message that was taken. :ivar secure: it came over TLS. :ivar who: who signed in."""

    sender: str
    to: str
    secure: bool
    who: str
    message: EmailMessage

    @property
    def text(self) -> str:
        """Its body."""
        return str(self.message.get_content()).replace("\r\n", "\n")

    @property
    def code(self) -> str:
        """The six digits in it."""
        found = re.search(r"^(\d{6})$", self.text, re.MULTILINE)
        assert found is not None, self.text
        return found[1]


@dataclass
class Post:
    """The server. :ivar sender: the only one whose messages are looked at; any."""

    port: int
    folder: Path
    sender: str = ""

    def mails(self) -> list[Mail]:
        """All that it took, oldest first."""
        files = [path for path in self.folder.iterdir() if not path.name.startswith(".")]
        mails = [_read(path.read_bytes()) for path in sorted(files)]
        return [mail for mail in mails if self.sender in ("", mail.sender)]

    def wait(self, to: str, count: int = 1) -> Mail:
        """The ``count``-th message to an address, once it is there."""

        def found() -> list[Mail]:
            return [mail for mail in self.mails() if mail.to == to][count - 1 :]

        return t.cast("list[Mail]", wait_until(found, f"e-mail number {count} to {to}"))[0]


@contextmanager
def post(folder: Path, *options: str) -> Iterator[Post]:
    """A server that keeps what it takes in ``folder``; ``options``: of :mod:`tests.support.smtp_server`."""
    folder.mkdir(parents=True, exist_ok=True)
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.smtp_server", str(folder), *options],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        first = process.stdout.readline()
        assert first.startswith("listening "), first
        yield Post(int(first.split()[1]), folder)
    finally:
        end(process)
        process.stdout.close()


def certificate(path: Path) -> Path:
    """A file with a key and a certificate for loopback that signs itself."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(pem + made.public_bytes(serialization.Encoding.PEM))
    return path


def _read(data: bytes) -> Mail:
    head, _, content = data.partition(b"\n")
    sender, to, how, who = head.decode().split()
    message = t.cast(EmailMessage, message_from_bytes(content, policy=policy.default))
    return Mail(sender, to, how == "tls", "" if who == "-" else who, message)
