"""A thousand runs whose readers leave at once while the model is silent: nothing of them is left."""

from __future__ import annotations

import typing as t
from pathlib import Path

import gevent
import gevent.server
import pytest

from app import events as ev
from app.web.worker import raise_descriptor_limit
from tests.support import leaks
from tests.support.engine import agent, services, start
from tests.support.servers import wait_until

RUNS = 1_000


class Silent:
    """Takes requests and never answers; counts its open connections."""

    def __init__(self) -> None:
        self.open = 0
        self.server = gevent.server.StreamServer(("127.0.0.1", 0), self._serve, backlog=4096)
        self.server.start()

    def _serve(self, sock: t.Any, address: t.Any) -> None:
        self.open += 1
        try:
            while sock.recv(65536):
                pass
        except OSError:
            pass
        finally:
            self.open -= 1


def test_greenlets_sockets_and_runs_are_back_where_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raise_descriptor_limit()
    silent = Silent()
    monkeypatch.setenv(
        "STUDIO_OPENAI_COMPATIBLE_API_BASE", f"http://127.0.0.1:{silent.server.server_port}/v1"
    )
    try:
        with services(tmp_path) as made:
            warm, _ = start(made, agent("openai-compatible/silent"))
            wait_until(lambda: silent.open == 1, "the first model call came")
            warm.cancel("stop_requested")
            assert warm.done.wait(10)
            wait_until(lambda: silent.open == 0, "the first upstream is closed")
            before = leaks.take()
            started = [start(made, agent("openai-compatible/silent")) for _ in range(RUNS)]
            wait_until(lambda: silent.open == RUNS, "every model call came")
            for run, recorder in started:
                run.reader_gone(recorder)
            wait_until(lambda: silent.open == 0, "every upstream is closed", 20)
            for run, _ in started:
                assert run.done.wait(20)
                assert isinstance(run.ending, ev.RunCancelled)
                assert run.ending.cause == "client_disconnected"
            assert len(made.runs) == 0
            del started, run, recorder
            assert leaks.wait_for_none_since(before) == []
    finally:
        silent.server.stop(timeout=0)
