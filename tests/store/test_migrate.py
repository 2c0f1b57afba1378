"""Migrations: from nothing, by several at once, whole or not at all; other revisions are refused."""

from __future__ import annotations

import sqlite3

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from app.store import NotMigrated, Store, StoreFailed
from app.store.migrations import HEAD
from app.store.tables import metadata
from tests.store import other


def _set_revision(store, revision):
    store._writer.submit(
        lambda link: link.raw.execute(f"UPDATE alembic_version SET version_num = '{revision}'")
    ).wait()


def test_a_new_database_is_refused_until_it_is_migrated(settings):
    store = Store(settings)
    assert store.is_new()
    with pytest.raises(NotMigrated, match="`studio migrate`") as caught:
        store.check_revision()
    assert caught.value.code == "store_not_migrated"
    with pytest.raises(StoreFailed):
        store.generation()
    store.migrate()
    store.check_revision()
    assert not store.is_new()
    assert store.generation() == 1
    store.close()


def test_migrating_again_changes_nothing(store):
    made = store.workflows.save({"a": 1}, "w")
    store.migrate()
    assert store.workflows.get(made).document == {"a": 1}


def test_processes_that_migrate_at_once_take_turns(settings):
    processes = [other.start("migrate", settings) for _ in range(3)]
    assert [other.line(p) for p in processes] == ["ready"] * 3
    for process in processes:
        other.go_on(process)
    assert [other.finish(p) for p in processes] == [""] * 3
    store = Store(settings)
    store.check_revision()
    assert store.generation() == 1
    store.close()


def test_no_connection_is_kept_that_saw_an_empty_file(sqlite_settings):
    """Where others look at it while it is made, SQLite may show such a connection no table ever after."""
    path = sqlite_settings.data_dir / "studio.db"
    path.parent.mkdir()
    path.touch()
    store = Store(sqlite_settings)
    assert store.is_new()
    assert store._backend._reader is None
    store.migrate()
    store.check_revision()
    store.close()


def test_an_older_revision_is_refused(store):
    _set_revision(store, "0000")
    with pytest.raises(NotMigrated, match=r"has revision 0000.*studio migrate"):
        store.check_revision()


def test_a_newer_revision_is_refused_and_left_alone(store):
    _set_revision(store, "9999")
    with pytest.raises(NotMigrated, match=r"9999.*Install the version that made it"):
        store.check_revision()
    with pytest.raises(NotMigrated, match="9999"):
        store.migrate()


def test_a_step_that_fails_leaves_nothing_behind(sqlite_settings, monkeypatch):
    store = Store(sqlite_settings)
    monkeypatch.setattr("alembic.op.create_index", lambda *args, **options: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        store.migrate()
    assert store.is_new()
    monkeypatch.undo()
    store.migrate()
    store.check_revision()
    store.close()


def _in_both_databases(name, kind, _parents):
    """Each database indexes terms in its own way: SQLite by a virtual table, PostgreSQL by a GIN index."""
    return not (name or "").startswith("chunk_index" if kind == "table" else "ix_chunks_terms")


def test_the_steps_make_the_tables_of_the_code(settings, store):
    with store._backend.migration_lock() as connection:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "include_name": _in_both_databases}
        )
        assert compare_metadata(context, metadata) == []


def test_the_newest_step_is_the_one_the_program_needs():
    config = Config()
    config.set_main_option("script_location", "app.store:migrations")
    config.set_main_option("path_separator", "os")
    assert ScriptDirectory.from_config(config).get_heads() == [HEAD]


def test_sqlite_keeps_a_write_ahead_log(sqlite_settings, open_store):
    open_store(sqlite_settings)
    raw = sqlite3.connect(sqlite_settings.data_dir / "studio.db")
    assert raw.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    raw.close()


def test_reading_makes_no_database(sqlite_settings):
    store = Store(sqlite_settings)
    with pytest.raises(StoreFailed, match="no database"):
        store.keys.list()
    assert not sqlite_settings.data_dir.exists()
    store.close()
