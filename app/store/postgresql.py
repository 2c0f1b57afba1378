"""PostgreSQL, for installations that have one.

Law of this room: reads come from a small pool and are cooperative (psycopg waits through the patched
selectors); the writer's connection lives in the writer's thread alone.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

import psycopg
from gevent.lock import BoundedSemaphore
from sqlalchemy import Executable, create_engine, exc
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.engine import URL, Connection, Engine

from app.store.db import Busy, Row, RunAside, Statement
from app.store.errors import StoreFailed

_STATEMENT_MS = (
    30_000  # no statement of ours takes a second; one that hangs must not hold a run's end for ever
)
_SLOW = 8  # slow queries at once; further ones wait, and the server keeps connections for others
_IDLE = 4  # connections of theirs that are kept
# A server that is cut off says nothing: after about a minute a connection is given up instead of waited for.
_NETWORK = {
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
_LOOK_MS = 1000  # how often the server looks whether somebody still waits for a slow query
_MIGRATION_LOCK = 0x53747564696F  # "Studio": the key of the advisory lock


class PostgresBackend:
    """See :class:`app.store.db.Backend`."""

    name = "postgresql"

    def __init__(self, address: URL, wait_s: float) -> None:
        self._address = address
        self._wait_s = wait_s
        self._dialect = PGDialect_psycopg(paramstyle="format")  # type: ignore[no-untyped-call]  # SQLAlchemy
        self._pool: Engine | None = None
        self._idle: list[psycopg.Connection[t.Any]] = []
        self._places = BoundedSemaphore(_SLOW)

    def prepare(self, statement: Executable) -> Statement:
        """See :class:`app.store.db.Backend`."""
        return Statement(statement, self._dialect)

    def rows(self, statement: Statement, values: Mapping[str, t.Any]) -> list[Row]:
        """See :class:`app.store.db.Backend`."""
        return self._query(statement.sql, statement.bind(values))

    def slow(self, statement: Statement, values: Mapping[str, t.Any], run: RunAside) -> list[Row]:
        """See :class:`app.store.db.Backend`. The server works elsewhere, and waiting for it is cooperative; but a pool
        would take back the connection of a caller that was thrown out, so these queries have connections of their own.
        """
        with self._places:
            return self._slow(statement.sql, statement.bind(values))

    def _slow(self, sql: str, values: Row) -> list[Row]:
        while True:
            idle = self._idle.pop() if self._idle else None
            try:
                raw = idle or self._connect_slow()
            except Busy as error:
                raise StoreFailed("The database server could not answer.") from error
            try:
                found = raw.execute(sql, values).fetchall()
            except psycopg.Error as error:
                if idle is None or not raw.broken:  # else the server closed it while it was idle
                    raise StoreFailed("The database server could not answer.") from error
            else:
                if len(self._idle) < _IDLE:
                    self._idle.append(raw)
                return [tuple(row) for row in found]
            finally:
                if raw not in self._idle:
                    raw.close()

    def _connect_slow(self) -> psycopg.Connection[t.Any]:
        raw = self.connect()
        try:
            # Before that, a query that is left goes on to its time limit.
            if raw.info.server_version >= 14_00_00:
                with suppress(psycopg.Error):  # servers on some systems cannot look
                    raw.execute(f"SET client_connection_check_interval = {_LOOK_MS}")
        except BaseException:  # the caller has left
            raw.close()
            raise
        return raw

    def connect(self) -> psycopg.Connection[t.Any]:
        """See :class:`app.store.db.Backend`."""
        uri = self._address.set(drivername="postgresql").render_as_string(hide_password=False)
        try:
            return psycopg.connect(
                uri,
                autocommit=True,
                connect_timeout=max(2, int(self._wait_s)),
                options=f"-c statement_timeout={_STATEMENT_MS} -c lock_timeout={int(self._wait_s * 1000)}",
                **_NETWORK,  # type: ignore[arg-type]  # psycopg names them all the same
            )
        except psycopg.OperationalError as error:
            raise Busy("the database server could not be reached") from error

    def connect_inline(self) -> None:
        """See :class:`app.store.db.Backend`. A server answers when it answers: the thread waits for it."""

    def begin(self, raw: psycopg.Connection[t.Any]) -> None:
        """See :class:`app.store.db.Backend`. The server may have closed the connection meanwhile."""
        try:
            raw.execute("BEGIN")
        except psycopg.OperationalError as error:
            raise Busy("the database server closed the connection") from error

    def commit(self, raw: psycopg.Connection[t.Any]) -> None:
        """See :class:`app.store.db.Backend`."""
        raw.execute("COMMIT")

    def rollback(self, raw: psycopg.Connection[t.Any]) -> None:
        """See :class:`app.store.db.Backend`."""
        raw.execute("ROLLBACK")

    def gave_way(self, error: BaseException) -> bool:
        """See :class:`app.store.db.Backend`. Two that waited for one another: the server ended one."""
        return isinstance(error, psycopg.errors.DeadlockDetected)

    @contextmanager
    def migration_lock(self) -> Iterator[Connection]:
        """See :class:`app.store.db.Backend`. The lock ends with the transaction, or with the connection."""
        with self._engine().connect() as connection:
            connection.exec_driver_sql("SET LOCAL statement_timeout = 0")
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})")
            yield connection

    def revision(self) -> str | None:
        """See :class:`app.store.db.Backend`."""
        if not self._query("SELECT 1 FROM pg_tables WHERE tablename = 'alembic_version'", ()):
            return None
        found = self._query("SELECT version_num FROM alembic_version", ())
        return str(found[0][0]) if found else None

    def close(self) -> None:
        """See :class:`app.store.db.Backend`."""
        while self._idle:
            self._idle.pop().close()
        if self._pool is not None:
            self._pool.dispose()
            self._pool = None

    def _engine(self) -> Engine:
        if self._pool is None:
            options = f"-c statement_timeout={_STATEMENT_MS}"
            self._pool = create_engine(
                self._address,
                pool_size=4,
                max_overflow=12,
                pool_pre_ping=True,
                connect_args={"options": options, **_NETWORK},
            )
        return self._pool

    def _query(self, sql: str, values: Row) -> list[Row]:
        try:
            with self._engine().connect() as connection:
                reader = connection.execution_options(isolation_level="AUTOCOMMIT")
                return [tuple(row) for row in reader.exec_driver_sql(sql, values)]
        except exc.DBAPIError as error:
            raise StoreFailed("The database server could not answer.") from error
