"""Slow queries on PostgreSQL: how many at once, and what becomes of one that nobody waits for."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterator
from dataclasses import replace

import gevent
import psycopg
import pytest
import sqlalchemy as sa

from app.config import Settings
from app.store import Store, postgresql
from app.store.documents import Draft
from app.store.errors import StoreFailed
from tests.support import databases
from tests.support.servers import wait_until


@pytest.fixture
def address() -> Iterator[str]:
    with databases.postgresql() as found:
        yield found


@pytest.fixture
def store(address: str, tmp_path: t.Any, open_store: Callable[..., Store]) -> Store:
    _, _, rest = address.partition("://")
    made = Settings(data_dir=tmp_path / "data")
    return open_store(replace(made, database_url=f"postgresql+psycopg://{rest}"))


@pytest.fixture
def admin(address: str) -> Iterator[psycopg.Connection[t.Any]]:
    with psycopg.connect(address, autocommit=True) as connection:
        yield connection


def asleep(store: Store) -> gevent.Greenlet[..., t.Any]:
    statement = store._backend.prepare(sa.text("SELECT pg_sleep(50)"))
    return gevent.spawn(store._aside.rows, statement, {})


def running(admin: psycopg.Connection[t.Any]) -> int:
    found = admin.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'active' "
        "AND query LIKE '%pg_sleep%' AND pid <> pg_backend_pid()"
    ).fetchone()
    assert found is not None
    return int(found[0])


def test_few_slow_queries_are_asked_at_once_and_all_are_answered(
    store: Store, admin: psycopg.Connection[t.Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    store.documents.put("c", Draft("a", "words"))
    jobs = [asleep(store) for _ in range(postgresql._SLOW + 4)]
    wait_until(lambda: running(admin) == postgresql._SLOW, "as many queries as there are places")
    search = gevent.spawn(store.documents.search, "c", "words", 5)
    for _ in range(30):  # each look is a round trip, in which one query too many would begin
        assert running(admin) == postgresql._SLOW
    assert not search.ready()
    gevent.killall(jobs)
    assert [passage.source for passage in search.get(timeout=20)] == ["a"]


def test_the_server_ends_a_query_that_nobody_waits_for(
    store: Store, admin: psycopg.Connection[t.Any]
) -> None:
    job = asleep(store)
    wait_until(lambda: running(admin) == 1, "the query runs")
    job.kill()
    wait_until(lambda: running(admin) == 0, "the server ends the query")


def test_a_server_that_goes_fails_what_runs_and_nothing_later(
    store: Store, admin: psycopg.Connection[t.Any]
) -> None:
    store.documents.put("c", Draft("a", "words"))
    job = asleep(store)
    wait_until(lambda: running(admin) == 1, "the query runs")
    admin.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    with pytest.raises(StoreFailed):
        job.get(timeout=20)
    assert [passage.source for passage in store.documents.search("c", "words", 5)] == ["a"]
    store.documents.put("c", Draft("a", "other"))
    assert store.documents.search("c", "words", 5) == []


def test_a_server_that_is_cut_off_is_given_up(store: Store) -> None:
    backend = t.cast(postgresql.PostgresBackend, store._backend)
    with backend.connect() as slow, backend._engine().connect() as pooled:
        for raw in (slow, t.cast("psycopg.Connection[t.Any]", pooled.connection.dbapi_connection)):
            told = raw.info.get_parameters()
            assert (told["keepalives_idle"], told["tcp_user_timeout"]) == ("30", "60000")


def test_a_write_that_gave_way_to_another_is_done_again(store: Store) -> None:
    """Two transactions that wait for one another: the server ends one, though nothing is wrong with it."""
    tries: list[int] = []

    def job(_link: t.Any, failures: int) -> int:
        tries.append(1)
        if len(tries) <= failures:
            raise psycopg.errors.DeadlockDetected("deadlock detected")
        return len(tries)

    assert store._writer.submit(lambda link: job(link, 2)).wait() == 3
    tries.clear()
    with pytest.raises(StoreFailed):
        store._writer.submit(lambda link: job(link, 100)).wait()
    assert len(tries) < 10
