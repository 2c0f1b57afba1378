"""Makes a PostgreSQL database that was used what it was when it was made.

Law of this room: it may only be given out again if its schema is the same, piece by piece; its rows are put back.
"""

from __future__ import annotations

import typing as t

import psycopg
from psycopg import sql

_SCHEMA = """
SELECT string_agg(piece, E'\n' ORDER BY piece) FROM (
    SELECT concat_ws(' ', c.relname, c.relkind, a.attname, a.atttypid, a.attnotnull, pg_get_expr(d.adbin, c.oid))
      FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
      LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
     WHERE c.relnamespace = 'public'::regnamespace
    UNION ALL SELECT concat_ws(' ', conrelid::regclass, conname, pg_get_constraintdef(oid))
      FROM pg_constraint WHERE connamespace = 'public'::regnamespace
    UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'
    UNION ALL SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal
    UNION ALL SELECT concat_ws(' ', proname, prosrc) FROM pg_proc WHERE pronamespace = 'public'::regnamespace
    UNION ALL SELECT nspname FROM pg_namespace WHERE nspname NOT LIKE 'pg_%'
    UNION ALL SELECT concat_ws(' ', extname, extversion) FROM pg_extension
    UNION ALL SELECT array_to_string(setconfig, ',') FROM pg_db_role_setting
) AS pieces (piece)
"""
_OTHERS = """
SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity
 WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


class Contents(t.NamedTuple):
    """What a database holds: its schema, and the rows of each table as COPY writes them."""

    schema: str
    rows: dict[str, bytes]


def contents(address: str) -> Contents:
    """What the database at ``address`` holds."""
    with psycopg.connect(address) as connection:
        return Contents(
            _schema(connection), {name: _copied(connection, name) for name in _tables(connection)}
        )


def emptied(address: str, once: Contents) -> bool:
    """Put the rows back that were there ``once``; False: its schema is another one by now.

    Who is still connected is thrown out, as by ``DROP DATABASE … WITH (FORCE)``.
    """
    with psycopg.connect(address) as connection:
        connection.execute(_OTHERS)
        if _schema(connection) != once.schema:
            return False
        used = [
            name
            for name in _tables(connection)
            if once.rows[name] or connection.execute(_from("SELECT 1 FROM {} LIMIT 1", name)).fetchone()
        ]
        if used:
            names = sql.SQL(", ").join(map(sql.Identifier, used))
            connection.execute(sql.SQL("TRUNCATE {} RESTART IDENTITY CASCADE").format(names))
        for name in used:
            if once.rows[name]:
                with connection.cursor().copy(_from("COPY {} FROM STDIN", name)) as copy:
                    copy.write(once.rows[name])
        return True


def _schema(connection: psycopg.Connection) -> str:
    found = connection.execute(_SCHEMA).fetchone()
    assert found is not None
    return str(found[0])


def _tables(connection: psycopg.Connection) -> list[str]:
    query = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
    return [name for (name,) in connection.execute(query)]


def _copied(connection: psycopg.Connection, name: str) -> bytes:
    with connection.cursor().copy(_from("COPY {} TO STDOUT", name)) as copy:
        return b"".join(bytes(piece) for piece in copy)


def _from(query: t.LiteralString, name: str) -> sql.Composed:
    return sql.SQL(query).format(sql.Identifier(name))
