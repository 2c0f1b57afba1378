"""A real server with two workers on each database: who changes what at once, and who sees it when."""

from __future__ import annotations

import http.client
import json
import os
import threading
import typing as t
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import gevent
import pytest

from tests.support import databases, servers, sse
from tests.support.servers import Studio, wait_until
from tests.web.conftest import document

ROUNDS = 8


class Worker:
    """A connection that stays with one worker of the server."""

    def __init__(self, studio: Studio) -> None:
        self._key = studio.key
        self._connection = http.client.HTTPConnection("127.0.0.1", studio.port, timeout=30)
        self._connection.connect()
        self.port = self._connection.sock.getsockname()[1]

    def ask(
        self, method: str, path: str, body: t.Any = None, match: str | None = None, key: str | None = None
    ) -> tuple[int, t.Any, str | None]:
        """Status, body and ETag."""
        headers = {"X-API-Key": key or self._key, "Content-Type": "application/json"}
        if match is not None:
            headers["If-Match"] = match
        self._connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = self._connection.getresponse()
        data = answer.read()
        return answer.status, json.loads(data) if data else None, answer.headers.get("ETag")

    def close(self) -> None:
        self._connection.close()


def pid_of(studio: Studio, port: int) -> int | None:
    """The worker that has taken a connection from a local port."""
    ends = {f"0100007F:{studio.port:04X}", f"0100007F:{port:04X}"}
    lines = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
    inodes = {
        f"socket:[{row[9]}]"
        for row in lines
        if {row[1], row[2]} == ends and row[1].endswith(f":{studio.port:04X}")
    }
    for pid in studio.workers():
        for name in os.listdir(f"/proc/{pid}/fd"):
            try:
                if os.readlink(f"/proc/{pid}/fd/{name}") in inodes:
                    return pid
            except OSError:
                continue
    return None


@pytest.fixture(scope="module", params=databases.KINDS)
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    data = tmp_path_factory.mktemp("versions") / "data"
    environ = {"STUDIO_WORKERS": "2", "STUDIO_HTTP_ALLOW": "127.0.0.0/8"}
    if request.param == "sqlite":
        with servers.studio(data, environ) as studio:
            assert studio.key
            yield studio
        return
    with (
        databases.postgresql() as address,
        servers.studio(data, {**environ, "STUDIO_DATABASE_URL": address}) as studio,
    ):
        assert studio.key
        yield studio


@pytest.fixture
def both(served: Studio) -> Iterator[tuple[Worker, Worker]]:
    """A connection to each worker."""
    found: dict[int, Worker] = {}
    others: list[Worker] = []

    def connected() -> bool:
        made = Worker(served)
        assert made.ask("GET", "/api/health")[0] == 200
        pid = pid_of(served, made.port)
        assert pid is not None
        if pid in found:
            others.append(made)
        else:
            found[pid] = made
        return len(found) == 2

    wait_until(connected, "both workers took a connection")
    first, second = found.values()
    yield first, second
    for each in (*found.values(), *others):
        each.close()


def says(words: str, **more: t.Any) -> dict[str, t.Any]:
    """A workflow that always says the same."""
    return {
        "name": words,
        "blocks": [
            {"id": "start", "type": "start"},
            {"id": "end", "type": "response", "config": {"body": words}},
        ],
        "edges": [{"source": "start", "target": "end"}],
        **more,
    }


def made(worker: Worker, draft: dict[str, t.Any]) -> str:
    status, body, _ = worker.ask("POST", "/api/workflows", draft)
    assert status == 201, body
    return f"/api/workflows/{body['id']}"


def said(worker: Worker, path: str) -> t.Any:
    """What the live version says; the code of a refusal."""
    status, body, _ = worker.ask("POST", f"{path}/execute", {"input": "Hi"})
    return body["output"] if status == 200 else body["error"]["code"]


def test_what_one_worker_deploys_the_other_runs_at_once(both: tuple[Worker, Worker]) -> None:
    here, there = both
    path = made(here, says("one"))
    assert [said(worker, path) for worker in both] == ["not_deployed"] * 2
    for words in ("one", "two", "three"):
        assert here.ask("PUT", path, says(words), match="*")[0] == 200
        assert here.ask("POST", f"{path}/deploy")[1]["draftDiffers"] is False
        assert said(there, path) == words, "its cached version is dropped at once"
        here, there = there, here
    assert here.ask("POST", f"{path}/rollback")[1]["liveVersion"] == 2
    assert said(there, path) == "two"
    assert there.ask("DELETE", f"{path}/deploy")[0] == 200
    assert said(here, path) == "not_deployed"


def test_a_key_that_one_worker_revokes_is_dead_in_the_other(both: tuple[Worker, Worker]) -> None:
    here, there = both
    key = here.ask("POST", "/api/keys", {"name": "short", "scopes": ["read"]})[1]
    assert there.ask("GET", "/api/runs", key=key["key"])[0] == 200
    assert here.ask("DELETE", f"/api/keys/{key['id']}")[0] == 200
    assert there.ask("GET", "/api/runs", key=key["key"])[0] == 401


def test_of_two_writers_who_have_seen_the_same_one_is_refused(both: tuple[Worker, Worker]) -> None:
    path = made(both[0], says("zero"))
    for number in range(ROUNDS):
        tag = both[number % 2].ask("GET", path)[2]
        drafts = [says(f"{number}/{which}") for which in range(2)]
        jobs = [
            gevent.spawn(worker.ask, "PUT", path, draft, tag)
            for worker, draft in zip(both, drafts, strict=True)
        ]
        gevent.joinall(jobs, raise_error=True)
        statuses = [job.value[0] for job in jobs]
        assert sorted(statuses) == [200, 412]
        winner = statuses.index(200)
        assert both[0].ask("GET", path)[1]["document"] == drafts[winner]
        assert jobs[1 - winner].value[1]["error"]["code"] == "precondition_failed"


def test_two_deployments_at_once_are_two_versions(both: tuple[Worker, Worker]) -> None:
    path = made(both[0], says("one"))
    names = []
    for number in range(ROUNDS):
        asked = [{"name": f"{number}/{which}"} for which in range(2)]
        jobs = [
            gevent.spawn(worker.ask, "POST", f"{path}/deploy", body)
            for worker, body in zip(both, asked, strict=True)
        ]
        gevent.joinall(jobs, raise_error=True)
        assert [job.value[0] for job in jobs] == [201, 201]
        names += [(job.value[1]["version"]["version"], job.value[1]["version"]["name"]) for job in jobs]
    assert sorted(number for number, _ in names) == list(range(1, 2 * ROUNDS + 1))
    listed = both[0].ask("GET", f"{path}/versions?limit=100")[1]["items"]
    assert {(item["version"], item["name"]) for item in listed} == set(names)


def test_removing_and_deploying_at_once_leave_no_half(both: tuple[Worker, Worker]) -> None:
    for _ in range(ROUNDS):
        path = made(both[0], says("one"))
        jobs = [
            gevent.spawn(both[0].ask, "DELETE", path, None, "*"),
            gevent.spawn(both[1].ask, "POST", f"{path}/deploy"),
        ]
        gevent.joinall(jobs, raise_error=True)
        removed, deployed = (job.value[0] for job in jobs)
        assert (removed, deployed) in ((204, 404), (204, 201))
        assert both[0].ask("GET", path)[0] == 404


class Gate:
    """A server whose answers wait until the test lets them go."""

    def __init__(self) -> None:
        self.open, self.asked = threading.Event(), threading.Event()
        gate = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                gate.asked.set()
                gate.open.wait(30)
                self.send_response(200)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.open.set()
        self._server.shutdown()
        self._server.server_close()


def test_a_stream_goes_on_with_the_version_it_began_with(served: Studio, both: tuple[Worker, Worker]) -> None:
    gate = Gate()
    try:
        waits = document("scripted/echo")
        waits["blocks"] += [
            {"id": "hold", "type": "http", "config": {"method": "GET", "url": gate.url}},
            {
                "id": "agent_2",
                "type": "agent",
                "config": {"model": "scripted/echo", "prompt": "And the end."},
            },
        ]
        waits["edges"] += [{"source": "agent_1", "target": "hold"}, {"source": "hold", "target": "agent_2"}]
        here, there = both
        path = made(here, waits)
        assert here.ask("POST", f"{path}/deploy")[0] == 201
        body = {"stream": True, "input": "Hi", "selectedOutputs": ["agent_1.content", "agent_2.content"]}
        with sse.post(served.port, f"{path}/execute", body, {"X-API-Key": served.key}) as stream:
            frames = iter(stream)
            assert next(frames).json() == {"blockId": "agent_1", "chunk": "Hi"}
            assert gate.asked.wait(20)
            assert there.ask("PUT", path, says("other"), match="*")[0] == 200
            assert there.ask("POST", f"{path}/deploy")[0] == 201
            assert here.ask("POST", f"{path}/rollback")[0] == 200
            assert here.ask("DELETE", f"{path}/deploy")[0] == 200
            assert there.ask("DELETE", path, match="*")[0] == 204
            gate.open.set()
            rest = [frame.json() for frame in frames if frame.comment is None]
        assert rest[0] == {"blockId": "agent_2", "chunk": "\n\nAnd the end."}
        assert (rest[-2]["event"], rest[-1]) == ("final", "[DONE]")
        record = here.ask("GET", f"/api/runs/{stream.headers['X-Run-Id']}")[1]
        assert (record["status"], record["version"]) == ("completed", 1)
    finally:
        gate.close()


def test_a_paused_run_goes_on_with_the_version_it_began_with(both: tuple[Worker, Worker]) -> None:
    asks = says("the first version")
    asks["blocks"].append({"id": "ask", "type": "approval", "config": {"prompt": "Go on?"}})
    asks["edges"] = [
        {"source": "start", "target": "ask"},
        {"source": "ask", "source_handle": "approved", "target": "end"},
    ]
    here, there = both
    path = made(here, asks)
    assert here.ask("POST", f"{path}/deploy")[0] == 201
    run = here.ask("POST", f"{path}/execute", {"input": "Hi", "async": True})[1]["runId"]
    wait_until(lambda: here.ask("GET", f"/api/runs/{run}")[1]["status"] == "paused", "the run waits")
    assert there.ask("PUT", path, says("another version"), match="*")[0] == 200
    assert there.ask("POST", f"{path}/deploy")[0] == 201
    assert there.ask("DELETE", f"{path}/deploy")[0] == 200
    assert there.ask("DELETE", path, match="*")[0] == 204
    (decision,) = here.ask("GET", f"/api/decisions?runId={run}")[1]["items"]
    assert there.ask("POST", f"/api/decisions/{decision['id']}", {"decision": "approve"})[0] == 200
    record = wait_until(
        lambda: (found := here.ask("GET", f"/api/runs/{run}")[1])["status"] == "completed" and found,
        "the run ends",
    )
    assert (record["output"], record["version"]) == ("the first version", 1)
