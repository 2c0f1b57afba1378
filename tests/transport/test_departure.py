"""Clients that leave, or read slowly, or not at all."""

from __future__ import annotations

import time
import typing as t

import pytest

from tests.transport.server import Server, serving, unchunked

WRITERS = ("direct", "generator")
SILENT = {"tokens": 1, "silent_s": "forever"}


@pytest.fixture(scope="module", params=WRITERS)
def server(request: pytest.FixtureRequest) -> t.Iterator[Server]:
    with serving(request.param) as running:
        yield running


@pytest.mark.parametrize("how", ["reset", "leave"])
def test_a_client_that_leaves_during_silence_is_noticed(server: Server, how: str) -> None:
    before = server.stats()
    client = server.client(SILENT)
    client.read_head()
    client.until(b'"chunk"')
    left = time.monotonic()
    getattr(client, how)()
    stats = server.until(lambda now: now["gone"] == before["gone"] + 1)
    # Usually a millisecond; the bound only tells it from a keepalive write, which comes every 15 seconds.
    assert time.monotonic() - left < 12
    server.until(lambda now: now["done"] == before["done"] + 1 and now["streams"] == 0)
    assert stats["watched"] == 0


def test_a_waiting_caller_that_leaves_is_noticed(server: Server) -> None:
    before = server.stats()
    client = server.client({}, path="/wait")
    server.until(lambda now: now["watched"] == 1)
    client.leave()
    server.until(lambda now: now["waiters_gone"] == before["waiters_gone"] + 1 and now["watched"] == 0)


@pytest.mark.parametrize("how", ["reset", "leave"])
def test_two_hundred_abrupt_closes_leave_nothing_behind(server: Server, how: str) -> None:
    """Field case CANCEL-06."""
    client = server.client({"tokens": 1})
    client.read_head()
    client.until(b"0\r\n\r\n")
    client.leave()
    baseline = server.until(lambda now: now["streams"] == 0 and now["watched"] == 0)
    clients = [server.client(SILENT) for _ in range(200)]
    for client in clients:
        client.read_head()
        client.until(b'"chunk"')
    assert server.stats()["streams"] == 200
    for client in clients:
        getattr(client, how)()
    server.until(
        lambda now: (
            now["descriptors"] <= baseline["descriptors"]
            and now["done"] == baseline["done"] + 200
            and now["watched"] == now["streams"] == 0
        )
    )


def test_a_slow_reader_slows_its_own_run_and_loses_nothing(server: Server) -> None:
    plan = {"tokens": 1500, "size": 4000}
    slow = server.client(plan, receive_buffer=32 * 1024)
    slow.read_head()
    held = server.until(lambda now: now["gate_closed"])
    assert held["emitted"] < 1000
    quick = server.client({"tokens": 3})  # another stream is not held up
    quick.read_head()
    quick.until(b'"[DONE]"')
    quick.leave()
    slow.until(b'"[DONE]"\n\n\r\n0\r\n\r\n')
    body = unchunked(slow.data)
    assert body.count(b'"chunk":') == 1500
    numbers = [int(part.split(b":")[0]) for part in body.split(b'"chunk":"')[1:]]
    assert numbers == list(range(1500))
    slow.leave()


def test_a_slow_reader_that_leaves_ends_its_run(server: Server) -> None:
    before = server.stats()
    slow = server.client({"tokens": 100_000, "size": 4000}, receive_buffer=32 * 1024)
    slow.read_head()
    server.until(lambda now: now["gate_closed"])
    slow.reset()
    server.until(lambda now: now["gone"] == before["gone"] + 1 and now["done"] == before["done"] + 1)
    server.until(lambda now: now["streams"] == 0 and now["watched"] == 0)


@pytest.mark.parametrize("writer", WRITERS)
def test_a_reader_that_takes_nothing_counts_as_gone(writer: str) -> None:
    """Field case LOAD-01, for one reader."""
    with serving(writer, STUDIO_SLOW_READER_S="0.5") as server:
        stuck = server.client({"tokens": 100_000, "size": 4000}, receive_buffer=32 * 1024)
        stuck.read_head()
        server.until(lambda now: now["gone"] == 1 and now["done"] == 1 and now["streams"] == 0)
        assert not stuck.rest().endswith(b"0\r\n\r\n")
