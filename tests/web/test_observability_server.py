"""Spans and metrics of a real server with two workers, read as operators' programs read them."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator

import pytest

from app import config
from app.clock import trace_id_of
from app.store import Store
from tests.support import sse
from tests.support.otlp import Receiver, receiver
from tests.support.servers import Studio, wait_until
from tests.web.conftest import document

RUNS = 6


class Observed(Studio):
    """A server that is looked at.

    :ivar keys: by scope.
    """

    keys: dict[str, str]


@pytest.fixture(scope="module")
def collector() -> Iterator[Receiver]:
    with receiver() as made:
        yield made


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, collector: Receiver) -> Iterator[Observed]:
    data = tmp_path_factory.mktemp("observed")
    environ = {
        "STUDIO_WORKERS": "2",
        "STUDIO_TRACES": "otlp",
        "STUDIO_METRICS": "true",
        "STUDIO_METRICS_TOKEN": "only-for-scrapes",
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.address,
        "OTEL_EXPORTER_OTLP_HEADERS": "api-key=collector-secret",
        "OTEL_SERVICE_NAME": "our-studio",
        "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
        "OTEL_BSP_SCHEDULE_DELAY": "100",
    }
    made = Observed(data, environ)
    made.keys = prepared(made)
    try:
        yield made.start()
    finally:
        made.stop()


def prepared(made: Studio) -> dict[str, str]:
    """A store with two workflows, and a key of each scope; without the seconds that the command line takes."""
    store = Store(config.load(made.env()))
    store.migrate()
    store.open()
    try:
        for name in ("echo", "silent"):
            store.workflows.save(document(f"scripted/{name}"), name, name)
            store.workflows.deploy(name)
        return {scope: store.keys.create(scope, frozenset({scope}))[1] for scope in ("admin", "read", "run")}
    finally:
        store.close()


def run(server: Observed, message: str) -> tuple[str, str]:
    """Run the echo; the run's id and what it said."""
    status, headers, answer = sse.request(
        server.port,
        "POST",
        "/api/workflows/echo/execute",
        json.dumps({"input": message}).encode(),
        {"X-API-Key": server.keys["run"], "Content-Type": "application/json"},
    )
    assert status == 200
    return headers["X-Run-Id"], json.loads(answer)["output"]["content"]


def scrape(server: Observed, headers: dict[str, str] | None = None) -> tuple[int, str]:
    sent = {"Authorization": "Bearer only-for-scrapes"} if headers is None else headers
    status, _, body = sse.request(server.port, "GET", "/metrics", None, sent)
    return status, body.decode()


def value(text: str, name: str) -> float:
    found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
    return 0.0 if found is None else float(found[1])


ENDED = 'studio_runs_ended_total{cause="",status="completed",surface="json"}'


def test_spans_arrive_with_the_ids_that_clients_have_and_without_a_word(
    server: Observed, collector: Receiver
) -> None:
    runs = []
    for _ in range(RUNS):
        run_id, said = run(server, "Tell me of marigolds.")
        assert "marigolds" in said
        runs.append(run_id)
    wait_until(lambda: len(collector.spans()) >= 4 * RUNS, "all spans")
    spans = collector.spans()
    for run_id in runs:
        mine = [span for span in spans if span.trace == trace_id_of(run_id)]
        assert sorted(span.name for span in mine) == [
            "chat echo",
            "invoke_agent Agent 1",
            "invoke_workflow One agent",
            "start start",
        ]
        assert {span.attributes["studio.run.id"] for span in mine} == {run_id}
        parents = {span.id: span for span in mine}
        (call,) = [span for span in mine if span.name == "chat echo"]
        assert parents[parents[call.parent].parent].name == "invoke_workflow One agent"
    assert spans[0].resource["service.name"] == "our-studio"
    assert spans[0].resource["deployment.environment.name"] == "test"
    assert collector.headers["HTTP_API_KEY"] == "collector-secret"
    assert collector.headers["CONTENT_TYPE"] == "application/x-protobuf"
    assert not any(b"marigold" in body for body in collector.bodies)
    assert "collector-secret" not in server.log.read_text()


def test_metrics_are_those_of_all_workers_whoever_is_asked(server: Observed) -> None:
    assert len(server.workers()) == 2
    wait_until(lambda: value(scrape(server)[1], ENDED) == RUNS, "every run is counted")
    for _ in range(6):
        text = scrape(server)[1]
        assert value(text, ENDED) == RUNS
        assert value(text, 'studio_runs_started_total{surface="json"}') == RUNS
        assert value(text, 'studio_model_calls_total{family="scripted",model="echo",outcome="ok"}') == RUNS
    assert "marigold" not in text
    assert len(re.findall(r"^# TYPE studio_\w+ ", text, re.MULTILINE)) > 15


def test_metrics_are_for_those_who_may_read_them(server: Observed) -> None:
    given = [
        ({}, 401),
        ({"Authorization": "Bearer nobody"}, 401),
        ({"Authorization": "Basic only-for-scrapes"}, 401),
        ({"X-API-Key": "only-for-scrapes"}, 401),
        ({"X-API-Key": server.keys["run"]}, 403),
        ({"X-API-Key": server.keys["read"]}, 200),
        ({"Authorization": f"Bearer {server.keys['read']}"}, 200),
        ({"Authorization": "bearer only-for-scrapes"}, 200),
    ]
    assert [(headers, scrape(server, headers)[0]) for headers, _ in given] == given
    status, _, _ = sse.request(
        server.port, "GET", "/api/runs", None, {"Authorization": "Bearer only-for-scrapes"}
    )
    assert status == 401, "the token is for nothing else"


def test_what_a_dead_worker_had_open_is_open_no_more(server: Observed) -> None:
    body, headers = {"stream": True}, {"X-API-Key": server.keys["run"]}
    stream = sse.post(server.port, "/api/workflows/silent/execute", body, headers)
    # Each worker looks at its own once a second: a run of the tests before may still be in the last look of one.
    for gauge in ("studio_streams_open", "studio_runs_live"):
        wait_until(lambda gauge=gauge: value(scrape(server)[1], gauge) == 1, f"{gauge} is this one alone")
    folder = next((server.data / "metrics").iterdir())
    before = server.workers()
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: len(set(server.workers()) - set(before)) == 2, "two new workers")
    wait_until(
        lambda: not [pid for pid in before if list(folder.glob(f"gauge_live*_{pid}.db"))],
        "their files are gone",
    )
    wait_until(lambda: server._healthy(), "a worker answers")
    text = scrape(server)[1]
    assert value(text, "studio_streams_open") == 0
    assert value(text, "studio_runs_live") == 0
    assert value(text, ENDED) == RUNS, "what was counted stays counted"
    stream.close()


def test_a_receiver_that_hangs_holds_up_no_run_and_no_stop(server: Observed, collector: Receiver) -> None:
    """The last one: it stops the server."""
    collector.hold.set()
    for _ in range(2):
        assert run(server, "x")[1] == "x"
    assert server.stop() == 0
    assert not any((server.data / "metrics").iterdir()), "nothing is left behind"
