"""Stores for tests: SQLite always, PostgreSQL too where STUDIO_TEST_POSTGRES_URL names a server.

The variable names a database whose owner may create others; each test gets a database of its own.
"""

from __future__ import annotations

import os
import typing as t
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from app.config import Settings
from app.store import Store

_SERVER = os.environ.get("STUDIO_TEST_POSTGRES_URL", "")
DATABASES = ["sqlite", *(["postgresql"] if _SERVER else [])]


@pytest.fixture(params=DATABASES)
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Settings]:
    """Settings of a database that does not exist yet (SQLite) or is empty (PostgreSQL)."""
    made = Settings(data_dir=tmp_path / "data")
    if request.param == "sqlite":
        yield made
        return
    import psycopg

    name = f"studio_{uuid.uuid4().hex}"
    with psycopg.connect(_SERVER, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")
    start, _, _ = _SERVER.replace("postgresql://", "postgresql+psycopg://").rpartition("/")
    yield replace(made, database_url=f"{start}/{name}")
    with psycopg.connect(_SERVER, autocommit=True) as admin:
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def sqlite_settings(tmp_path: Path) -> Settings:
    """Settings of an SQLite database, for what is particular to it."""
    return Settings(data_dir=tmp_path / "data")


@pytest.fixture
def open_store() -> Iterator[Callable[..., Store]]:
    """Opens stores, migrated; closes them after the test."""
    stores: list[Store] = []

    def make(settings: Settings, **options: t.Any) -> Store:
        store = Store(settings, **options)
        stores.append(store)
        store.migrate()
        store.open()
        return store

    yield make
    for store in stores:
        store.close()


@pytest.fixture
def store(settings: Settings, open_store: Callable[..., Store]) -> Store:
    """An open store."""
    return open_store(settings)
