"""Two hundred runs of a graph of thirty blocks at once in one worker: all complete, and nothing of them is left.

That they run at once is no matter of time: no model answers before every branch of every run has asked.
"""

from __future__ import annotations

import json
import os
import typing as t
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import gevent
import gevent.event
import gevent.server
import pytest
import yaml

from app import events as ev
from app.web.worker import raise_descriptor_limit
from tests.engine.order_oracle import disorder
from tests.streams.generate import violations
from tests.support import leaks, sse
from tests.support.engine import services, start
from tests.support.servers import studio, wait_until
from tests.support.shared import ROOT

RUNS, BRANCHES = 200, 4
#: What a run executes and what it skips, of `benchmarks/graph/thirty.yaml`.
EXECUTED, SKIPPED = 31, 3
WORDS = "one two three"
INPUT = {"message": "hello", "n": 5}
pytestmark = pytest.mark.timeout(300)


class Model:
    """Answers nobody before ``expected`` have asked, then everybody. ``open``: connections."""

    def __init__(self) -> None:
        self.asked = self.open = self.expected = 0
        self._all = gevent.event.Event()
        self._server = gevent.server.StreamServer(("127.0.0.1", 0), self._serve, backlog=4096)
        self._server.start()
        self.environ = {
            "STUDIO_OPENAI_COMPATIBLE_API_BASE": f"http://127.0.0.1:{self._server.server_port}/v1",
            "STUDIO_OPENAI_COMPATIBLE_API_KEY": "sk-test",
        }

    def expect(self, calls: int) -> None:
        """Hold all answers until so many have asked."""
        self.asked, self.expected = 0, calls
        self._all.clear()

    def close(self) -> None:
        """Stop listening."""
        self._server.stop(timeout=0)

    def _serve(self, sock: t.Any, address: t.Any) -> None:
        self.open += 1
        try:
            _read_request(sock)
            self.asked += 1
            if self.asked >= self.expected:
                self._all.set()
            self._all.wait()
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
            for word in WORDS.split(" "):
                sock.sendall(_chunk({"content": word if word == "one" else f" {word}"}))
            sock.sendall(_chunk({}, "stop") + b"data: [DONE]\n\n")
        except OSError:
            pass
        finally:
            self.open -= 1
            sock.close()


def _read_request(sock: t.Any) -> None:
    read = sock.makefile("rb")
    length = 0
    while (line := read.readline().strip()) != b"":
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    read.read(length)


def _chunk(delta: dict[str, t.Any], finish: str | None = None) -> bytes:
    value = {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    return b"data: " + json.dumps(value).encode() + b"\n\n"


@contextmanager
def model() -> Iterator[Model]:
    made = Model()
    try:
        yield made
    finally:
        made.close()


def graph() -> dict[str, t.Any]:
    """The graph of the benchmark, its agents asking the model of this test."""
    document: dict[str, t.Any] = yaml.safe_load((ROOT / "benchmarks" / "graph" / "thirty.yaml").read_text())
    assert len(document["blocks"]) == 30
    for block in document["blocks"]:
        if block["type"] == "agent":
            block["config"]["model"] = "openai-compatible/held"
    return document


def check(frames: list[dict[str, t.Any]]) -> None:
    """One run as its client saw it."""
    assert (frames[0]["type"], frames[-1]["type"]) == ("thread", "done")
    assert frames[-1]["data"]["status"] == "completed"
    nodes = [frame for frame in frames if frame["type"].startswith("workflow_node_")]
    begun = [node["data"]["node_run_id"] for node in nodes if node["type"] == "workflow_node_start"]
    ends = [node["data"] for node in nodes if node["type"] == "workflow_node_end"]
    assert len(begun) == len(set(begun)) == EXECUTED
    assert Counter(begun) == Counter(end["node_run_id"] for end in ends if not end.get("skipped"))
    assert sorted(end["node_id"] for end in ends if end.get("skipped")) == ["other", "short", "small"]
    assert all(end["success"] for end in ends)
    says = [
        f["data"]["content"]
        for f in frames
        if f["type"] == "agent_message" and f["data"]["context"]["node_id"] == "write"
    ]
    assert says == [WORDS]


def test_two_hundred_clients_of_one_worker(tmp_path: Path) -> None:
    raise_descriptor_limit()
    with model() as held, studio(tmp_path / "data", held.environ) as server:
        workflow = server.deploy(graph())
        headers = {"X-API-Key": server.key}
        (worker,) = server.workers()

        def sockets() -> int:
            folder = f"/proc/{worker}/fd"
            links = [
                os.readlink(f"{folder}/{fd}")
                for fd in os.listdir(folder)
                if os.path.lexists(f"{folder}/{fd}")
            ]
            return sum(link.startswith("socket:") for link in links)

        def client() -> list[dict[str, t.Any]]:
            path = f"/api/workflows/{workflow}/runs"
            with sse.post(server.port, path, {"input": INPUT}, headers, 200) as stream:
                return [frame.json() for frame in stream.events()]

        held.expect(1)
        check(client())
        before = sockets()
        held.expect(RUNS * BRANCHES)
        clients = [gevent.spawn(client) for _ in range(RUNS)]
        gevent.joinall(clients, raise_error=True)
        for done in clients:
            check(done.get())
        assert held.asked == RUNS * (BRANCHES + 1)
        wait_until(lambda: held.open == 0, "every call of the model is closed")
        wait_until(lambda: sockets() <= before, f"the worker has its {before} sockets again")
        assert "Traceback" not in server.log.read_text()


def test_greenlets_and_sockets_are_back_where_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raise_descriptor_limit()
    with model() as held:
        for name, value in held.environ.items():
            monkeypatch.setenv(name, value)
        document = graph()
        with services(tmp_path) as made:
            held.expect(1)
            warm, _ = start(made, document, INPUT)
            assert warm.done.wait(20)
            wait_until(lambda: held.open == 0, "the first calls are closed")
            before = leaks.take()
            held.expect(RUNS * BRANCHES)
            started = [start(made, document, INPUT) for _ in range(RUNS)]
            for run, recorder in started:
                assert run.done.wait(200)
                assert isinstance(run.ending, ev.RunCompleted)
                assert run.ending.output == {"text": WORDS, "rounds": 3}
                ends = Counter(event.status for event in recorder.of(ev.BlockFinished))
                assert ends == {"executed": EXECUTED, "skipped": SKIPPED}
                assert violations(recorder.envelopes) == []
                assert disorder(document, {}, recorder.envelopes) == []
            assert len(made.runs) == 0
            wait_until(lambda: held.open == 0, "every call of the model is closed")
            del started, run, recorder, warm
            assert leaks.wait_for_none_since(before) == []
