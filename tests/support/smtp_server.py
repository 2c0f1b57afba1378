"""A mail server of its own process for tests: aiosmtpd, which writes what it takes to a folder.

Law of this room: it is started by :mod:`tests.support.mails`, in a process that nothing has patched; its first line is
``listening PORT``.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import ssl
from pathlib import Path
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword

#: Names of messages, in the order in which they came: two may come in one tick of the clock that files go by.
_NUMBERS = itertools.count()


class Keep:
    """Keeps every message as a file, with its envelope in front."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def handle_RCPT(self, _s: Any, _session: Any, envelope: Envelope, address: str, _o: Any) -> str:
        """Nobody is called ``refused``."""
        if address.startswith("refused@"):
            return f"550 {address} is not known here"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Envelope) -> str:
        """Write it down, whole or not at all."""
        content = envelope.content
        assert isinstance(content, bytes)
        who = session.auth_data.decode() if session.authenticated else "-"
        how = "tls" if server.transport.get_extra_info("sslcontext") else "plain"
        head = f"{envelope.mail_from} {','.join(envelope.rcpt_tos)} {how} {who}\n"
        name = f"{next(_NUMBERS):06}"
        (self._folder / f".{name}").write_bytes(head.encode() + content)
        (self._folder / f".{name}").rename(self._folder / name)
        return "250 OK"


def _check(_server: Any, _session: Any, _envelope: Any, mechanism: str, data: Any) -> AuthResult:
    good = isinstance(data, LoginPassword) and (data.login, data.password) == (b"studio", b"mail-password")
    return AuthResult(success=good, auth_data=b"studio" if good else None, handled=False)


async def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tls", choices=("starttls", "tls", "none"), default="none")
    parser.add_argument("--pem")
    parser.add_argument("--auth", action="store_true")
    parser.add_argument("--silent", action="store_true", help="accept connections and say nothing")
    how = parser.parse_args()
    context = None
    if how.tls != "none":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(how.pem)

    def protocol() -> Any:
        return SMTP(
            Keep(how.folder),
            hostname="localhost",
            tls_context=context if how.tls == "starttls" else None,
            require_starttls=how.tls == "starttls",
            authenticator=_check if how.auth else None,
            auth_required=how.auth,
            auth_require_tls=how.tls == "starttls",
        )

    loop = asyncio.get_running_loop()
    made = asyncio.Protocol if how.silent else protocol
    server = await loop.create_server(made, "127.0.0.1", 0, ssl=context if how.tls == "tls" else None)
    print("listening", server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
