"""Databases of one's own for tests: a file for SQLite, a database on the server of STUDIO_TEST_POSTGRES_URL.

Law of this room: the variable names a database whose owner may create others; without it the tests that need a
server are skipped and say so (on CI that is a failure, ``tests/conftest.py``). The steps of the migrations run once in
a process; whoever wants a migrated database gets a copy of what they made, or one that somebody had before and that is
as it was then: a server takes half a second to make one.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
import typing as t
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import make_url

from app.config import Settings
from app.store import NotMigrated, Store
from tests.support import quick, spares

quick.install()

KINDS = ("sqlite", "postgresql")
VARIABLE = "STUDIO_TEST_POSTGRES_URL"


def ready(settings: Settings) -> None:
    """Bring the database of ``settings`` to the program's revision, whatever it has; a new file is a copy."""
    address = make_url(settings.database_url)
    if address.get_backend_name() == "sqlite" and not Path(str(address.database)).exists():
        Path(str(address.database)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(_migrated_file(), str(address.database))
        return
    store = Store(settings)
    try:
        store.check_revision()
    except NotMigrated:
        store.migrate()
    finally:
        store.close()


def begun(folder: Path) -> None:
    """Make ``folder`` the data folder of a Studio that was started before: its examples and owner key are there."""
    shutil.copytree(_begun_folder(), folder, dirs_exist_ok=True)


@contextmanager
def postgresql(*, migrated: bool = False) -> Iterator[str]:
    """The address of an empty or a migrated database, taken away afterwards."""
    server = os.environ.get(VARIABLE, "")
    if not server:
        pytest.skip(f"no PostgreSQL: set {VARIABLE} to an address such as postgresql://USER@HOST/postgres")
    name = _spare.pop() if migrated and _spare else _created(server, migrated)
    address = f"{server.rpartition('/')[0]}/{name}"
    try:
        yield address
    finally:
        if migrated and spares.emptied(address, _as_migrated()):
            _spare.append(name)
        else:
            _drop(server, name)


#: Migrated databases that nobody has.
_spare: list[str] = []


def _created(server: str, migrated: bool) -> str:
    import psycopg

    name = f"studio_{uuid.uuid4().hex}"
    template = f" TEMPLATE {_migrated_database()}" if migrated else ""
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(t.cast(t.Any, f"CREATE DATABASE {name}{template}"))
    return name


def _drop(server: str, *names: str) -> None:
    import psycopg

    with psycopg.connect(server, autocommit=True) as admin:
        for name in names:
            admin.execute(t.cast(t.Any, f"DROP DATABASE {name} WITH (FORCE)"))


def with_driver(address: str) -> str:
    """``address`` as ``STUDIO_DATABASE_URL`` has it once it was read."""
    return f"postgresql+psycopg://{address.partition('://')[2]}"


@functools.cache
def _begun_folder() -> Path:
    from app.cli import serve

    folder = _kept_folder()
    serve._prepare(Settings(data_dir=folder))
    return folder


def _kept_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="studio-tests-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@functools.cache
def _migrated_file() -> Path:
    folder = _kept_folder()
    _migrate(Settings(data_dir=folder))
    (made,) = folder.glob("*.db")
    return made


@functools.cache
def _migrated_database() -> str:
    server = os.environ[VARIABLE]
    name = _created(server, False)
    atexit.register(lambda: _drop(server, name, *_spare))
    _migrate(Settings(database_url=with_driver(f"{server.rpartition('/')[0]}/{name}")))
    return name


@functools.cache
def _as_migrated() -> spares.Contents:
    return spares.contents(f"{os.environ[VARIABLE].rpartition('/')[0]}/{_migrated_database()}")


def _migrate(settings: Settings) -> None:
    store = Store(settings)
    store.migrate()
    store.close()  # nobody may be connected to a database that is copied
