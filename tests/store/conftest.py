"""Stores for tests, on SQLite and on PostgreSQL; each test gets a database of its own."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from app.config import Settings
from app.store import Store
from tests.support import databases


@pytest.fixture(params=databases.KINDS)
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Settings]:
    """Settings of a database that does not exist yet (SQLite) or is empty (PostgreSQL), unless a store is asked for."""
    made = Settings(data_dir=tmp_path / "data")
    if request.param == "sqlite":
        yield made
        return
    with databases.postgresql(migrated="open_store" in request.fixturenames) as address:
        yield replace(made, database_url=databases.with_driver(address))


@pytest.fixture
def sqlite_settings(tmp_path: Path) -> Settings:
    """Settings of an SQLite database, for what is particular to it."""
    return Settings(data_dir=tmp_path / "data")


@pytest.fixture
def open_store() -> Iterator[Callable[..., Store]]:
    """Opens stores, migrated; closes them after the test."""
    stores: list[Store] = []

    def make(settings: Settings, **options: t.Any) -> Store:
        databases.ready(settings)
        store = Store(settings, **options)
        stores.append(store)
        store.open()
        return store

    yield make
    for store in stores:
        store.close()


@pytest.fixture(scope="module", params=databases.KINDS)
def shared_settings(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Settings]:
    """Settings of one migrated database for a module whose tests keep out of each other's way."""
    made = Settings(data_dir=tmp_path_factory.mktemp("shared"))
    with ExitStack() as stack:
        if request.param != "sqlite":
            address = stack.enter_context(databases.postgresql(migrated=True))
            made = replace(made, database_url=databases.with_driver(address))
        databases.ready(made)
        yield made


@pytest.fixture(scope="module")
def two(shared_settings: Settings) -> Iterator[tuple[Store, Store]]:
    """Two stores of one database, as two processes have them: each with an owner of its own."""
    stores = Store(shared_settings), Store(shared_settings)
    for store in stores:
        store.runs.heartbeat(store.owner_id)
    yield stores
    for store in stores:
        store.close()


@pytest.fixture
def store(settings: Settings, open_store: Callable[..., Store]) -> Store:
    """An open store."""
    return open_store(settings)
