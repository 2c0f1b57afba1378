"""The workspace owner in tests: sessions made without a password, and forms filled in."""

from __future__ import annotations

import re
import secrets
import typing as t

from werkzeug.security import generate_password_hash

from app.web import csrf, guesses, signing
from tests.web.conftest import Studio

GOOD = "correct horse battery"


def set_password(studio: Studio, password: str = GOOD) -> int:
    """Set it past the pages, with a hash that is quick to compare."""
    version = studio.store.owner.set_password(generate_password_hash(password, "scrypt:1024:8:1"))
    assert version is not None
    return version


def anew(studio: Studio) -> Studio:
    """The same application for the next test: another browser, no guesses, sessions or links of before."""
    studio.client = studio.app.test_client()
    counters = studio.store.counters
    for key in ("owner-account", "owner-address:127.0.0.1"):
        for place in range(counters.taken(key, guesses.ALL).value and guesses.ALL):
            counters.clear(f"{key}#{place + 1}")
    set_password(studio)
    return studio


class Session(t.NamedTuple):
    """A session as a browser has it."""

    cookie: str
    token: str

    def headers(self, *, proves: bool = True) -> dict[str, str]:
        """Of a request; ``proves``: it brings the token."""
        sent = {"Cookie": f"studio_session={self.cookie}"}
        return {**sent, csrf.HEADER: self.token} if proves else sent


def session(studio: Studio, *, version: int | None = None, age_s: int = 3600) -> Session:
    """A session of the owner that was signed for this test; ``age_s``: how much longer it lasts."""
    row = studio.store.owner.get()
    assert row is not None
    known = row.password_version if version is None else version
    id_ = secrets.token_urlsafe(16)
    until = studio.app.extensions["studio"].clock.now_ms() // 1000 + age_s
    with studio.app.app_context():
        return Session(signing.sign("session", [id_, known, until]), csrf.token(id_))


def form(client: t.Any, path: str) -> str:
    """The token of the form on a page."""
    page = client.get(path)
    assert page.status_code == 200, page.get_data()
    found = re.search(r'name="csrf_token" value="([^"]+)"', page.get_data(as_text=True))
    assert found is not None
    return found[1]


def sign_in(client: t.Any, password: str = GOOD, **more: str) -> t.Any:
    """Fill in the form of /login and send it."""
    return client.post("/login", data={"csrf_token": form(client, "/login"), "password": password, **more})
