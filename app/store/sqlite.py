"""SQLite: one file, write-ahead log, one writer at a time.

Law of this room: writers take the write lock first (``BEGIN IMMEDIATE``), so a transaction that began
can finish; readers run single statements in autocommit and never upgrade. A commit is safe against a
crash of any process; after a power cut the last commits may be missing, never half of one
(``synchronous=NORMAL``).
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
import typing as t
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import gevent
from sqlalchemy import Executable, NullPool, create_engine, event
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.engine import Connection

from app.store.db import Busy, Row, RunAside, Statement
from app.store.errors import StoreFailed

_BUSY_MS = 1000  # one attempt of the writer's thread; its patience is the writer's business
_STEPS = 1_000_000  # of SQLite's machine, between two looks at whether a slow query was stopped
_BUSY_CODES = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _is_busy(error: BaseException) -> bool:
    # The low byte is the primary code; e.g. SQLITE_BUSY_RECOVERY carries more above it.
    return (
        isinstance(error, sqlite3.OperationalError)
        and (getattr(error, "sqlite_errorcode", 0) & 0xFF) in _BUSY_CODES
    )


class SqliteBackend:
    """See :class:`app.store.db.Backend`."""

    name = "sqlite"

    def __init__(self, path: str, wait_s: float) -> None:
        self.path = Path(path)
        self._wait_s = wait_s
        self._dialect = SQLiteDialect_pysqlite(paramstyle="qmark")
        self._reader: sqlite3.Connection | None = None

    def prepare(self, statement: Executable) -> Statement:
        """See :class:`app.store.db.Backend`."""
        return Statement(statement, self._dialect)

    def rows(self, statement: Statement, values: Mapping[str, t.Any]) -> list[Row]:
        """See :class:`app.store.db.Backend`."""
        try:
            return self._read(statement.sql, statement.bind(values))
        except sqlite3.Error as error:
            raise self.unreadable(error) from error

    def _read(self, sql: str, values: Row = ()) -> list[Row]:
        """Readers wait for nobody but a recovery after a crash, and who makes the database at this moment."""
        deadline = None
        while True:
            try:
                reader = self._reader or self._open_reader()
                return reader.execute(sql, values).fetchall()
            except sqlite3.Error as error:
                deadline = deadline or time.monotonic() + self._wait_s
                if not _is_busy(error) or time.monotonic() > deadline:
                    raise
            gevent.sleep(0.01)

    def slow(self, statement: Statement, values: Mapping[str, t.Any], run: RunAside) -> list[Row]:
        """See :class:`app.store.db.Backend`. SQLite works in the process that asks, so a thread asks."""
        self._check_exists()
        query = SlowQuery(self, statement.sql, statement.bind(values), self._wait_s)
        return run(query.rows, query.stop)

    def connect(self) -> sqlite3.Connection:
        """See :class:`app.store.db.Backend`."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        return self._open_writing(_BUSY_MS / 1000)

    def connect_inline(self) -> sqlite3.Connection:
        """See :class:`app.store.db.Backend`. Checkpoints, which do wait for the disk, are left to the thread."""
        raw = self._open_writing(0)
        raw.execute("PRAGMA wal_autocheckpoint=0")
        return raw

    def _open_writing(self, timeout_s: float) -> sqlite3.Connection:
        """A connection that writes; whoever uses it, its commits are equally safe."""
        raw = sqlite3.connect(self.path, timeout=timeout_s, isolation_level=None, check_same_thread=False)
        raw.execute("PRAGMA synchronous=NORMAL")
        raw.execute("PRAGMA foreign_keys=ON")
        return raw

    def begin(self, raw: sqlite3.Connection) -> None:
        """See :class:`app.store.db.Backend`. The wait is inside SQLite, without the interpreter's lock."""
        try:
            raw.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if _is_busy(error):
                raise Busy("another process kept the database locked") from error
            raise

    def commit(self, raw: sqlite3.Connection) -> None:
        """See :class:`app.store.db.Backend`."""
        raw.execute("COMMIT")

    def rollback(self, raw: sqlite3.Connection) -> None:
        """See :class:`app.store.db.Backend`. SQLite itself has rolled back after some errors."""
        if raw.in_transaction:
            raw.execute("ROLLBACK")

    def gave_way(self, error: BaseException) -> bool:
        """See :class:`app.store.db.Backend`. Whoever has begun is alone."""
        return False

    @contextmanager
    def migration_lock(self) -> Iterator[Connection]:
        """See :class:`app.store.db.Backend`. The lock is the kernel's, so a killed migration frees it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(f"{self.path}.migrate-lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            while not _locked(handle):
                gevent.sleep(0.02)
            yield from self._migration_connection()
        finally:
            os.close(handle)

    def _migration_connection(self) -> Iterator[Connection]:
        engine = create_engine(f"sqlite:///{self.path}", poolclass=NullPool)
        # The driver would commit before every DDL statement; with BEGIN given by us a migration is atomic.
        event.listen(engine, "connect", _manual_transactions)
        event.listen(engine, "begin", _begin_immediate)
        try:
            with engine.connect() as connection:
                yield connection
        finally:
            engine.dispose()

    def revision(self) -> str | None:
        """See :class:`app.store.db.Backend`."""
        if not self.path.exists():
            return None
        try:
            found = self._read("SELECT version_num FROM alembic_version")
        except sqlite3.Error as error:
            if "no such table" in str(error):
                self.close()  # one that was opened on an empty file may never see what another connection makes of it
                return None
            raise self.unreadable(error) from error
        return str(found[0][0]) if found else None

    def close(self) -> None:
        """See :class:`app.store.db.Backend`."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _open_reader(self) -> sqlite3.Connection:
        self._check_exists()
        # timeout 0: SQLite would sleep on the hub; our own wait lets other greenlets run.
        reader = sqlite3.connect(self.path, timeout=0, isolation_level=None, check_same_thread=False)
        reader.execute("PRAGMA query_only=ON")
        self._reader = reader
        return reader

    def _check_exists(self) -> None:
        if not self.path.exists():  # reading must not leave an empty database behind
            raise StoreFailed(f"There is no database at {self.path}. {_START}")

    def unreadable(self, error: sqlite3.Error) -> StoreFailed:
        """What a failed query is told as."""
        if "no such table" in str(error) or "no such column" in str(error):
            return StoreFailed(f"The database {self.path} is not up to date. {_START}")
        return StoreFailed(f"The database {self.path} cannot be read ({error}).")


class SlowQuery:
    """A query on a connection of its own, which the thread that runs it opens and closes."""

    def __init__(self, backend: SqliteBackend, sql: str, values: Row, wait_s: float) -> None:
        self._backend, self._sql, self._values, self._wait_s = backend, sql, values, wait_s
        self._raw: sqlite3.Connection | None = None
        self._stopped = False

    def rows(self) -> list[Row]:
        """Run it, once; all its rows, none when it was stopped before.

        :raises StoreFailed: the database cannot be read, or the query was stopped.
        """
        if self._stopped:
            return []
        try:
            raw = sqlite3.connect(
                self._backend.path, timeout=self._wait_s, isolation_level=None, check_same_thread=False
            )
            try:
                raw.execute("PRAGMA query_only=ON")
                # An interrupt that comes before the query does nothing; then this ends it, some milliseconds later.
                raw.set_progress_handler(lambda: self._stopped, _STEPS)
                self._raw = raw
                return raw.execute(self._sql, self._values).fetchall()
            finally:
                self._raw = None
                raw.close()
        except sqlite3.Error as error:
            raise self._backend.unreadable(error) from error

    def stop(self) -> None:
        """End it, from any other thread; nobody wants its rows any more."""
        self._stopped = True
        raw = self._raw
        if raw is not None:
            try:
                raw.interrupt()
            except sqlite3.ProgrammingError:  # closed meanwhile: it had its rows
                pass


_START = "Run `studio migrate`; `studio serve` does so by itself."


def _locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _manual_transactions(raw: t.Any, _record: t.Any) -> None:
    raw.isolation_level = None
    raw.execute("PRAGMA busy_timeout=30000")
    raw.execute("PRAGMA journal_mode=WAL")  # kept in the file: every later connection has it


def _begin_immediate(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")
