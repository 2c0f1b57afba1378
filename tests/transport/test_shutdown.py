"""SIGTERM: every stream gets its end."""

from __future__ import annotations

import signal
import socket

import pytest

from app.events import SHUTDOWN_TEXT
from tests.transport.server import Server, serving, unchunked

WRITERS = ("direct", "generator")


def assert_left_by_itself(server: Server) -> None:
    """The worker was neither at the end of its patience nor killed by the master at the end of its own."""
    assert "graceful timeout" not in server.log
    assert "Worker exiting" in server.log


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_every_stream_gets_its_terminal_frame(writer: str, sign: signal.Signals) -> None:
    with serving(writer) as server:
        clients = [server.client({"tokens": 1, "silent_s": "forever"}) for _ in range(20)]
        for client in clients:
            client.read_head()
            client.until(b'"chunk"')
        server.process.send_signal(sign)
        for client in clients:
            client.until(b"0\r\n\r\n")
            frames = unchunked(client.data).split(b"\n\n")
            assert SHUTDOWN_TEXT.encode() in frames[-3]
            assert b'"code":"cancelled"' in frames[-3]
            assert frames[-2].endswith(b'data: "[DONE]"')
            client.leave()
        assert server.wait() == 0
    assert "Traceback" not in server.log
    assert_left_by_itself(server)


@pytest.mark.parametrize("writer", WRITERS)
def test_an_idle_connection_holds_nobody_up(writer: str) -> None:
    with serving(writer) as server:
        idle = server.client({}, path="/stats", method="GET")
        idle.read_head()
        server.process.send_signal(signal.SIGTERM)
        idle.rest()  # ends long before the keepalive time of the test server
        assert server.wait() == 0
    assert_left_by_itself(server)


def test_a_connection_that_asks_nothing_holds_nobody_up() -> None:
    """Browsers open some to have them at hand."""
    with serving("direct") as server, socket.create_connection(("127.0.0.1", server.port)):
        server.stats()  # was accepted later, so the other is served
        assert server.stop() == 0
    assert_left_by_itself(server)


def test_a_connection_whose_answer_ends_after_the_signal_is_closed() -> None:
    with serving("generator") as server:
        client = server.client({"tokens": 1, "silent_s": "forever"})
        client.read_head()
        client.until(b'"chunk"')
        server.process.send_signal(signal.SIGTERM)
        assert client.rest().endswith(b"0\r\n\r\n")
        assert server.wait() == 0
    assert_left_by_itself(server)


def test_worker_whose_master_died_ends_by_itself() -> None:
    with serving("direct") as server:
        client = server.client({"tokens": 1, "silent_s": "forever"})
        client.read_head()
        client.until(b'"chunk"')
        server.process.kill()
        client.until(b'"[DONE]"')
        client.leave()
        server.wait()  # returns when the last holder of stderr, the worker, has left
    assert "The master is gone" in server.log
