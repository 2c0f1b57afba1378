"""A visitor's browser at a chat of a real server.

Law of this room: it keeps cookies as a browser does and knows no more of a chat than a page could.
"""

from __future__ import annotations

import http.client
import json
import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.support import sse


@dataclass
class Browser:
    """Keeps the cookies of a chat; every request is a connection of its own."""

    port: int
    slug: str
    cookies: dict[str, str] = field(default_factory=dict)

    def headers(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """What this browser sends."""
        cookie = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        return {**({"Cookie": cookie} if cookie else {}), **(more or {})}

    def call(
        self, method: str, path: str = "", body: t.Any = None, more: Mapping[str, str] | None = None
    ) -> tuple[int, t.Any]:
        """One exchange: status and decoded body."""
        sent = None if body is None else json.dumps(body).encode()
        headers = {**({} if body is None else {"Content-Type": "application/json"}), **(more or {})}
        status, got, answer = sse.request(
            self.port, method, f"/api/chat/{self.slug}{path}", sent, self.headers(headers)
        )
        self._keep(got)
        return status, json.loads(answer) if answer else None

    def sent(self, body: t.Any, more: Mapping[str, str] | None = None) -> http.client.HTTPConnection:
        """A message that is on its way."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        headers = {"Content-Type": "application/json", **self.headers(more)}
        connection.request("POST", f"/api/chat/{self.slug}", json.dumps(body).encode(), headers)
        return connection

    def got(self, connection: http.client.HTTPConnection) -> sse.EventStream:
        """Its answer, once the headers are here."""
        stream = sse.EventStream(connection, connection.getresponse())
        self._keep(stream.headers)
        return stream

    def say(self, body: t.Any, more: Mapping[str, str] | None = None) -> sse.EventStream:
        """Send a message; its answer, once the headers are here."""
        return self.got(self.sent(body, more))

    def events(self, run_id: str, after: str = "") -> sse.EventStream:
        """Follow a run."""
        more = {"Last-Event-ID": after} if after else {}
        path = f"/api/chat/{self.slug}/runs/{run_id}/events"
        return sse.get(self.port, path, self.headers(more))

    def _keep(self, headers: t.Any) -> None:
        for line in headers.get_all("Set-Cookie") or ():
            name, _, value = line.partition(";")[0].partition("=")
            self.cookies[name] = value
