"""Stores for tests, on SQLite and on PostgreSQL; each test gets a database of its own."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from app.config import Settings
from app.store import Store
from tests.support import databases


@pytest.fixture(params=databases.KINDS)
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Settings]:
    """Settings of a database that does not exist yet (SQLite) or is empty (PostgreSQL)."""
    made = Settings(data_dir=tmp_path / "data")
    if request.param == "sqlite":
        yield made
        return
    with databases.postgresql() as address:
        scheme, _, rest = address.partition("://")
        yield replace(made, database_url=f"{scheme.removesuffix('+psycopg')}+psycopg://{rest}")


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
