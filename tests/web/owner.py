"""The workspace owner in tests: sessions made without a password, and forms filled in."""

from __future__ import annotations

import re
import secrets
import typing as t

from app.web import csrf, signing
from app.web.passwords import hashed
from tests.web.conftest import Studio

GOOD = "correct horse battery"
_hashes: dict[str, str] = {}


def set_password(studio: Studio, password: str = GOOD) -> int:
    """Set it past the pages; the hash of one is made once."""
    if password not in _hashes:
        _hashes[password] = hashed(password)
    version = studio.store.owner.set_password(_hashes[password])
    assert version is not None
    return version


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
