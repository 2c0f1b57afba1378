"""What the store needs of a database, and the statements it is asked.

Law of this room: statements are built with SQLAlchemy Core and compiled once per process; executing
one is a driver call with a tuple, nothing else. Writes happen on the writer's connection only
(:mod:`app.store.writer`); a read is one statement and sees one moment.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager

from sqlalchemy import Executable
from sqlalchemy.engine import Dialect, make_url
from sqlalchemy.sql.compiler import SQLCompiler

from app import encoding

if t.TYPE_CHECKING:
    from sqlalchemy.engine import Connection

Row = tuple[t.Any, ...]


class Busy(Exception):
    """The database cannot be written now; trying again can help. Its text says what went on. Never leaves
    the store.
    """


class Statement:
    """A compiled statement: ``sql`` for the driver and the order of its parameters.

    :ivar names: the parameters, in order.
    """

    __slots__ = ("_defaults", "names", "sql")

    def __init__(self, statement: Executable, dialect: Dialect) -> None:
        compiled = t.cast(SQLCompiler, statement.compile(dialect=dialect))  # type: ignore[attr-defined]
        self.sql = str(compiled)
        self.names: tuple[str, ...] = tuple(compiled.positiontup or ())
        self._defaults: dict[str, t.Any] = dict(compiled.params)

    def bind(self, values: Mapping[str, t.Any]) -> Row:
        """``values`` in order; what is missing is the statement's own constant, else None."""
        defaults = self._defaults
        return tuple([values[name] if name in values else defaults[name] for name in self.names])


class Link:
    """A driver connection inside a transaction: what a write job works with."""

    __slots__ = ("raw",)

    def __init__(self, raw: t.Any) -> None:
        self.raw = raw

    def execute(self, statement: Statement, values: Mapping[str, t.Any]) -> int:
        """Run one statement; the number of rows it changed."""
        return int(self.raw.execute(statement.sql, statement.bind(values)).rowcount)

    def change(self, statement: Statement, row: Row) -> int:
        """Like :meth:`execute`, with values in the statement's order."""
        return int(self.raw.execute(statement.sql, row).rowcount)

    def insert(self, statement: Statement, rows: Sequence[Row]) -> None:
        """Insert rows whose values stand in the statement's order."""
        if len(rows) == 1:
            self.raw.execute(statement.sql, rows[0])
        elif rows:
            self.raw.cursor().executemany(statement.sql, rows)

    def rows(self, statement: Statement, values: Mapping[str, t.Any]) -> list[Row]:
        """Run one query inside the transaction; all its rows."""
        return list(self.raw.execute(statement.sql, statement.bind(values)).fetchall())


class RunAside(t.Protocol):
    """See :meth:`app.store.aside.Aside.run`."""

    def __call__(self, fn: Callable[[], list[Row]], stop: Callable[[], None], /) -> list[Row]:
        """The result of ``fn()``, run in a thread; ``stop`` is called when the caller leaves before."""


class Backend(t.Protocol):
    """A database. Reads may be asked from any greenlet of the process, the rest belongs to one thread.

    :ivar name: ``sqlite`` or ``postgresql``, for what cannot be said in one way to both.
    """

    name: str

    def prepare(self, statement: Executable) -> Statement:
        """``statement`` compiled for this database."""

    def rows(self, statement: Statement, values: Mapping[str, t.Any]) -> list[Row]:
        """One query, on the hub: never blocks it for a lock.

        :raises StoreFailed: the database cannot be read.
        """

    def slow(self, statement: Statement, values: Mapping[str, t.Any], run: RunAside) -> list[Row]:
        """One query that may take long, while other greenlets go on. Unlike :meth:`rows` it may stand inside a guarded
        wait: a caller that is thrown out of it leaves nothing behind.

        :raises StoreFailed: the database cannot be read.
        """

    def connect(self) -> t.Any:
        """A driver connection for the writer's thread, in autocommit.

        :raises Busy: the server cannot be reached.
        """

    def connect_inline(self) -> t.Any:
        """A connection whose commits neither wait for a lock nor for a disk; None when there is no such thing."""

    def begin(self, raw: t.Any) -> None:
        """Start a write transaction, waiting at most about a second.

        :raises Busy: another process writes, or the connection is lost.
        """

    def commit(self, raw: t.Any) -> None:
        """Make the transaction durable."""

    def rollback(self, raw: t.Any) -> None:
        """Undo it."""

    def gave_way(self, error: BaseException) -> bool:
        """Whether a transaction failed only because another went first; done again it can succeed."""

    def migration_lock(self) -> AbstractContextManager[Connection]:
        """An SQLAlchemy connection, while no other process migrates the database."""

    def revision(self) -> str | None:
        """The database's revision; None for an empty one."""

    def close(self) -> None:
        """Close the reading side."""


def open_backend(url: str, wait_s: float) -> Backend:
    """The backend for ``url`` (see ``STUDIO_DATABASE_URL``). Connects when first used.

    :param wait_s: longest wait for a lock.
    """
    address = make_url(url)
    if address.get_backend_name() == "sqlite":
        from app.store.sqlite import SqliteBackend

        return SqliteBackend(str(address.database), wait_s)
    from app.store.postgresql import PostgresBackend

    return PostgresBackend(address, wait_s)


def text(value: t.Any) -> str | None:
    """``value`` as text every database takes: no lone surrogates, no U+0000; None stays None."""
    if value is None:
        return None
    cleaned = encoding.clean_text(value)
    return cleaned.replace("\0", "�") if "\0" in cleaned else cleaned


def json_text(value: t.Any) -> str | None:
    """``value`` as JSON text; None stays None (unset)."""
    return None if value is None else encoding.dumps(value).decode()


def from_json(value: str | None) -> t.Any:
    """The inverse of :func:`json_text`."""
    return None if value is None else encoding.loads(value)


def named(names: Iterable[str], row: Row, json_columns: frozenset[str] = frozenset()) -> dict[str, t.Any]:
    """A row as a dict, JSON columns decoded."""
    return {
        name: from_json(value) if name in json_columns else value
        for name, value in zip(names, row, strict=True)
    }
