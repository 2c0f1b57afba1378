"""Databases of one's own for tests: a file for SQLite, a database on the server of STUDIO_TEST_POSTGRES_URL.

Law of this room: the variable names a database whose owner may create others; without it the tests that need a
server are skipped and say so (on CI that is a failure, ``tests/conftest.py``).
"""

from __future__ import annotations

import os
import typing as t
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

KINDS = ("sqlite", "postgresql")
VARIABLE = "STUDIO_TEST_POSTGRES_URL"


@contextmanager
def postgresql() -> Iterator[str]:
    """The address of an empty database, dropped afterwards."""
    server = os.environ.get(VARIABLE, "")
    if not server:
        pytest.skip(f"no PostgreSQL: set {VARIABLE} to an address such as postgresql://USER@HOST/postgres")
    import psycopg

    name = f"studio_{uuid.uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(t.cast(t.Any, f"CREATE DATABASE {name}"))
    start, _, _ = server.rpartition("/")
    try:
        yield f"{start}/{name}"
    finally:
        with psycopg.connect(server, autocommit=True) as admin:
            admin.execute(t.cast(t.Any, f"DROP DATABASE {name} WITH (FORCE)"))
