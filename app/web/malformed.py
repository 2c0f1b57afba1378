"""The answer to what is no HTTP: requests the server refuses before an application sees them.

Law of this room: they get the one error shape too (contract section 11). gunicorn decides what is wrong
and writes its own page; this stands between it and the socket and puts our body in the page's place.
"""

from __future__ import annotations

import re
import socket
import typing as t
from contextlib import suppress
from http import HTTPStatus

from app import encoding
from app.clock import SystemClock

_STATUS_LINE = re.compile(rb"HTTP/1\.1 (\d{3}) ")
_MESSAGES = {
    414: "The address is too long. Put the data into the body.",
    417: "The header Expect asks for something this server does not do. Leave it out.",
    431: "The headers are too long. Send fewer or shorter ones.",
    500: "Something failed inside the server. Its log has the details.",
    501: "This transfer coding is not understood. Send Content-Length, or Transfer-Encoding: chunked.",
}


class ErrorPage:
    """A client's socket whose next write is gunicorn's error page; everything else is the socket's own."""

    def __init__(self, sock: t.Any) -> None:
        self._sock = sock

    def __getattr__(self, name: str) -> t.Any:
        return getattr(self._sock, name)

    def sendall(self, data: bytes, *flags: int) -> None:
        """Send our page instead; what is no page goes out as it is."""
        found = _STATUS_LINE.match(data)
        if found is None or b"Content-Type: text/html" not in data:
            self._sock.sendall(data, *flags)
            return
        self._sock.sendall(_page(int(found[1])), *flags)
        # What is closed with bytes unread is reset, and the page may be lost on its way: read some more of them.
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_WR)
            self._sock.settimeout(0.5)
            for _ in range(16):
                if not self._sock.recv(65536):
                    break


def _page(status: int) -> bytes:
    request = SystemClock().new_id("req")
    message = _MESSAGES.get(
        status, "This is not a valid HTTP request. Check its first line, headers and body."
    )
    code = "internal" if status == 500 else "validation_failed"
    body = encoding.dumps({"error": {"code": code, "message": message, "requestId": request}})
    head = (
        b"HTTP/1.1 %d %b\r\nConnection: close\r\nContent-Type: application/json\r\n"
        b"X-Request-Id: %b\r\nContent-Length: %d\r\n\r\n"
    )
    return head % (status, HTTPStatus(status).phrase.encode(), request.encode(), len(body)) + body
