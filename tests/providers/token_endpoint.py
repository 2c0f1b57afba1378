"""A token endpoint of loopback, and what a scheme makes of its answers."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import parse_qs

import gevent.event
import pytest

from app.engine.scope import RunScope
from providers.spec import FetchingAuth, HttpRequest, ProviderError
from tests.providers.raw_server import Peer, raw_server


class Endpoint:
    """A token endpoint. ``forms`` and ``heads`` are what it was sent; ``replies`` what it says, the last one again."""

    def __init__(self, *replies: tuple[int, t.Any]) -> None:
        self.replies = list(replies) or [(200, {"access_token": "tok-1", "expires_in": 3600})]
        self.heads: list[bytes] = []
        self.forms: list[dict[str, str]] = []
        self.hold: gevent.event.Event | None = None
        self.asked = gevent.event.Event()

    def __call__(self, peer: Peer) -> None:
        head, _, body = peer.request().partition(b"\r\n\r\n")
        self.heads.append(head)
        self.forms.append({name: values[0] for name, values in parse_qs(body.decode()).items()})
        self.asked.set()
        if self.hold is not None:
            self.hold.wait(30)
        status, answer = self.replies[min(len(self.forms), len(self.replies)) - 1]
        data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        peer.send(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%b" % (status, len(data), data))


@contextmanager
def endpoint(*replies: tuple[int, t.Any]) -> Iterator[tuple[Endpoint, str]]:
    served = Endpoint(*replies)
    with raw_server(served) as address:
        yield served, f"http://{address}/token"


def header(auth: FetchingAuth, credentials: dict[str, str], name: str = "Authorization") -> str | None:
    """What a scheme adds, after asking for its token."""
    with RunScope() as scope:
        auth.prepare(credentials, 5.0, scope)
    request = HttpRequest("POST", "http://v", {}, b"")
    auth.apply(request, credentials)
    return request.headers.get(name)


def refusal(auth: FetchingAuth, credentials: dict[str, str]) -> ProviderError:
    with RunScope() as scope, pytest.raises(ProviderError) as caught:
        auth.prepare(credentials, 5.0, scope)
    return caught.value
