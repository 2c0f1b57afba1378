"""The access line of a stream whose socket was taken from the server, in the server's own format.

Law of this room: nothing is kept of a request when nobody reads access lines, and a line is never written
from the hub, where a log handler could not wait.
"""

from __future__ import annotations

import typing as t
from collections.abc import Sequence
from datetime import timedelta

from gevent import get_hub

from app.engine.scope import spawn_service

_KEPT = (
    "REMOTE_ADDR",
    "REQUEST_METHOD",
    "RAW_URI",
    "SERVER_PROTOCOL",
    "PATH_INFO",
    "QUERY_STRING",
    "HTTP_REFERER",
    "HTTP_USER_AGENT",
    "HTTP_AUTHORIZATION",
)


class _Response:
    """What the server's logger reads of a response."""

    def __init__(self, status: str, headers: Sequence[tuple[str, str]]) -> None:
        self.status = status
        self.headers = headers
        self.sent = 0


class AccessLine:
    """One line to be written when the stream is over. Made by :meth:`of`."""

    __slots__ = ("_began", "_environ", "_headers", "_log", "_response")

    def __init__(
        self, log: t.Any, environ: dict[str, str], headers: list[tuple[str, str]], response: _Response
    ) -> None:
        self._log = log
        self._environ = environ
        self._headers = headers
        self._response = response
        self._began: float = get_hub().loop.now()

    @classmethod
    def of(
        cls, log: t.Any, environ: dict[str, t.Any], status: str, headers: Sequence[tuple[str, str]]
    ) -> AccessLine | None:
        """The line of this request, None when the server writes no access lines."""
        if log is None or not log.access_log_enabled:
            return None
        kept = {key: environ[key] for key in _KEPT if key in environ}
        sent: list[tuple[str, str]] = []
        if "}i" in log.cfg.access_log_format:
            sent = [(k[5:].replace("_", "-"), v) for k, v in environ.items() if k.startswith("HTTP_")]
        return cls(log, kept, sent, _Response(status, list(headers)))

    def write(self, sent: int) -> None:
        """Write it. ``sent``: bytes of the body."""
        self._response.sent = sent
        elapsed = timedelta(seconds=max(0.0, get_hub().loop.now() - self._began))
        spawn_service(self._log.access, self._response, self._headers, self._environ, elapsed)
