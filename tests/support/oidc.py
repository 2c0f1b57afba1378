"""A real OpenID provider for tests, of the package oidc-provider-mock, and somebody in between who bends what it says.

Law of this room: the provider is a process of its own on a free port of loopback and forgets everything with it. What
stands in between passes on whatever the test does not change, and remembers what was asked.
"""

from __future__ import annotations

import json
import subprocess
import sys
import typing as t
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest
from gevent.pywsgi import WSGIServer

from tests.support.servers import end, free_port, tail, wait_until
from tests.support.shared import ROOT

#: Who can sign in there, by subject.
PEOPLE: dict[str, dict[str, t.Any]] = {
    "ada": {"email": "Ada@example.org", "email_verified": True},
    "bob": {"email": "bob@allowed.example", "email_verified": "true"},
    "eve": {"email": "ada@example.org", "email_verified": False},
    "mallory": {"email": "ada@example.org"},
    "nobody": {},
}

Bend = Callable[[str, t.Any], t.Any]


@dataclass
class Asked:
    """A request that was passed on. :ivar form: of its body."""

    method: str
    path: str
    headers: dict[str, str]
    form: dict[str, str]


@dataclass
class Issuer:
    """The provider as Studio reaches it.

    :ivar base: its address, which is the issuer's name. :ivar asked: what Studio asked, oldest first.
    :ivar bend: changes a JSON answer: path and value to another value, or to ``(status, headers, body)``.
    """

    base: str
    asked: list[Asked] = field(default_factory=list)
    bend: Bend = lambda path, value: value

    def paths(self) -> list[str]:
        """Where Studio asked."""
        return [asked.path for asked in self.asked]

    def sign_in(self, url: str, subject: str) -> str:
        """What the browser does at the provider: where it is sent back to."""
        return _located(url, f"sub={subject}".encode())

    def decline(self, url: str) -> str:
        """The same, when somebody says no."""
        return _located(url, b"action=deny")


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: t.Any) -> None:
        return None


def _located(url: str, form: bytes) -> str:
    with pytest.raises(urllib.error.HTTPError) as answered:
        urllib.request.build_opener(_Stay).open(url, form, timeout=10)
    with answered.value as answer:
        assert answer.code == 302, answer.read()
        return str(answer.headers["Location"])


@contextmanager
def provider(folder: Path) -> Iterator[str]:
    """The provider alone; its address."""
    folder.mkdir(parents=True, exist_ok=True)
    port, log = free_port(), folder / "provider.log"
    people = [
        argument
        for subject, claims in PEOPLE.items()
        for argument in ("--user-claims", json.dumps({"sub": subject, **claims}))
    ]
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "oidc_provider_mock", "-p", str(port), *people],
            cwd=ROOT,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    base = f"http://127.0.0.1:{port}"

    def ready() -> bool:
        assert process.poll() is None, tail(log)
        try:
            with urllib.request.urlopen(f"{base}/jwks", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    try:
        wait_until(ready, "the OpenID provider answers", 40)
        yield base
    finally:
        end(process)


@contextmanager
def issuer(behind: str) -> Iterator[Issuer]:
    """Somebody between Studio and the provider at ``behind``."""
    server = WSGIServer(
        ("127.0.0.1", 0), lambda environ, start: _pass_on(made, behind, environ, start), log=None
    )
    server.start()
    made = Issuer(f"http://127.0.0.1:{server.server_port}")
    try:
        yield made
    finally:
        server.stop(timeout=1)


def _pass_on(made: Issuer, behind: str, environ: t.Any, start: t.Any) -> list[bytes]:
    path, query = environ["PATH_INFO"], environ["QUERY_STRING"]
    body = environ["wsgi.input"].read()
    headers = {
        name[5:].replace("_", "-").title(): value for name, value in environ.items() if name[:5] == "HTTP_"
    }
    headers["Content-Type"] = environ.get("CONTENT_TYPE", "")
    is_browser = path == "/oauth2/authorize"
    if not is_browser:
        form = dict(parse_qsl(body.decode()))
        made.asked.append(Asked(environ["REQUEST_METHOD"], path, headers, form))
    url = f"{behind}{path}{'?' if query else ''}{query}"
    sent = urllib.request.Request(url, body or None, headers, method=environ["REQUEST_METHOD"])
    try:
        answer = urllib.request.build_opener(_Stay).open(sent, timeout=10)
    except urllib.error.HTTPError as error:
        answer = error
    status, data, given = answer.status, answer.read(), dict(answer.headers)
    answer.close()
    if not is_browser and "json" in given.get("Content-Type", ""):
        bent = made.bend(path, json.loads(data))
        if isinstance(bent, tuple):
            status, given, data = bent
        else:
            data = json.dumps(bent).encode()
    kept = [(name, value) for name, value in given.items() if name.lower() in ("content-type", "location")]
    start(f"{status} Bent", [*kept, ("Content-Length", str(len(data)))])
    return [data]


def query_of(url: str) -> dict[str, str]:
    """The parameters of an address."""
    return dict(parse_qsl(urlsplit(url).query))
