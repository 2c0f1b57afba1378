"""``studio owner``: links and passwords from the shell."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from werkzeug.security import check_password_hash

from app.cli.owner import setup_link
from app.config import Settings
from app.store import Store
from app.store.audit import AuditFilter
from tests.support import databases
from tests.support.servers import Studio

GOOD = "correct horse battery"


@pytest.fixture
def store(studio: Studio):
    databases.ready(Settings(data_dir=studio.data))
    opened = Store(Settings(data_dir=studio.data))
    yield opened
    opened.close()


def test_a_link_is_printed_alone_and_works(studio: Studio, store: Store) -> None:
    done = studio.run_cli("owner", "link", environ={"STUDIO_PUBLIC_URL": "https://studio.example.org/"})
    assert done.returncode == 0, done.stderr
    link = re.fullmatch(r"https://studio\.example\.org/setup/([\w-]{43})\n", done.stdout)
    assert link is not None
    assert "once" in done.stderr
    assert store.owner.link_works(link[1])
    assert studio.cli("owner", "link") != done.stdout
    assert not store.owner.link_works(link[1]), "a new one takes the place of the one before"


def test_a_password_comes_from_a_pipe_and_goes_nowhere(studio: Studio, store: Store) -> None:
    done = studio.run_cli("owner", "password", stdin=f"{GOOD}\n")
    assert done.returncode == 0, done.stderr
    assert GOOD not in done.stdout + done.stderr
    row = store.owner.get()
    assert row is not None
    assert row.password_version == 1
    assert check_password_hash(str(row.password), GOOD)
    assert [row.action for row in store.audit.page(AuditFilter(), None, 10)[0]] == ["owner.password"]


@pytest.mark.parametrize("given", ["", "too short\n", "a" * 40, "x" * 1025])
def test_a_password_that_could_be_guessed_is_refused(studio: Studio, store: Store, given: str) -> None:
    done = studio.run_cli("owner", "password", stdin=given)
    assert done.returncode == 2
    assert done.stderr.startswith("password: give ")
    assert store.owner.get() is None


def test_a_link_begins_where_the_server_is() -> None:
    for host, port, begins in (
        ("0.0.0.0", 8000, "http://127.0.0.1:8000/setup/t"),
        ("::1", 81, "http://[::1]:81/setup/t"),
        ("10.0.0.7", 0, "/setup/t"),
    ):
        assert setup_link(replace(Settings(), host=host), port, "t") == begins
