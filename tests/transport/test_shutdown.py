"""SIGTERM: every stream gets its end."""

from __future__ import annotations

import signal

import pytest

from app.events import SHUTDOWN_TEXT
from tests.transport.server import serving, unchunked

WRITERS = ("direct", "generator")


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
    assert "graceful timeout" not in server.log


@pytest.mark.parametrize("writer", WRITERS)
def test_an_idle_connection_holds_nobody_up(writer: str) -> None:
    with serving(writer) as server:
        idle = server.client({}, path="/stats", method="GET")
        idle.read_head()
        server.process.send_signal(signal.SIGTERM)
        idle.rest()  # ends long before the keepalive time of the test server
        assert server.wait() == 0
    assert "graceful timeout" not in server.log


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
