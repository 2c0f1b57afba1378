"""A real server with two workers on each database: runs, threads, stops, and what is found after a restart."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterator

import pytest

from tests.support import databases, servers, sse
from tests.support.servers import Studio, wait_until

#: Asks the model, keeps what it said, and answers; or waits for ever when told so.
TALK = {
    "name": "Talk",
    "blocks": [
        {"id": "start", "type": "start"},
        {"id": "which", "type": "condition", "config": {"expression": "input.message == 'wait'"}},
        {"id": "silent", "type": "agent", "config": {"model": "scripted/stall"}},
        {"id": "echo", "type": "agent", "config": {"model": "scripted/echo"}},
    ],
    "edges": [
        {"source": "start", "target": "which"},
        {"source": "which", "source_handle": "true", "target": "silent"},
        {"source": "which", "source_handle": "false", "target": "echo"},
    ],
}


@pytest.fixture(scope="module", params=databases.KINDS)
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Studio, str]]:
    data = tmp_path_factory.mktemp("database") / "data"
    environ = {"STUDIO_WORKERS": "2"}
    if request.param == "sqlite":
        with servers.studio(data, environ) as studio:
            yield studio, studio.deploy(TALK)
        return
    with (
        databases.postgresql() as address,
        servers.studio(data, {**environ, "STUDIO_DATABASE_URL": address}) as studio,
    ):
        yield studio, studio.deploy(TALK)


def ask(studio: Studio, method: str, path: str, body: t.Any = None) -> tuple[int, t.Any]:
    headers = {"X-API-Key": studio.key, "Content-Type": "application/json"}
    status, _, answer = sse.request(studio.port, method, path, body, headers)
    return status, json.loads(answer)


def test_a_conversation_is_the_same_from_every_worker(served: tuple[Studio, str]) -> None:
    studio, workflow = served
    thread = None
    for number in range(6):  # whichever of the two workers takes each of them
        body = {"message": f"Number {number}, said äöü 🎈"} | ({"thread_id": thread} if thread else {})
        with sse.post(
            studio.port, f"/api/workflows/{workflow}/runs", body, {"X-API-Key": studio.key}
        ) as stream:
            said = [frame.json() for frame in stream if frame.comment is None]
        assert [said[0]["type"], said[-1]["type"]] == ["thread", "done"]
        assert said[-1]["data"]["status"] == "completed"
        thread = said[0]["thread_id"]
        status, run = ask(studio, "GET", f"/api/runs/{stream.headers['X-Run-Id']}")
        assert (status, run["status"], run["output"]["content"]) == (200, "completed", body["message"])
    status, found = ask(studio, "GET", f"/api/runs?threadId={thread}")
    assert (status, len(found["items"])) == (200, 6)
    assert ask(studio, "GET", f"/api/threads/{thread}")[1]["status"] == "idle"


def test_a_stop_finds_its_run_in_whichever_worker(served: tuple[Studio, str]) -> None:
    studio, workflow = served
    for _ in range(4):
        body = {"message": "wait"}
        with sse.post(
            studio.port, f"/api/workflows/{workflow}/runs", body, {"X-API-Key": studio.key}
        ) as stream:
            frames = iter(stream)
            thread = next(frames).json()["thread_id"]
            wait_until(
                lambda thread=thread: (
                    ask(studio, "GET", f"/api/threads/{thread}")[1].get("runStatus") == "running"
                ),
                "the run is in the store",
            )
            assert ask(studio, "POST", f"/api/threads/{thread}/stop")[0] == 202
            said = [frame.json() for frame in frames if frame.comment is None]
        assert [one["type"] for one in said[-3:]] == ["workflow_stopped", "flow_state", "done"]
        assert said[-1]["data"]["cause"] == "stop_requested"
    assert ask(studio, "GET", f"/api/threads/{thread}")[1]["status"] == "idle"


def test_what_an_agent_remembers_is_there_in_every_worker(served: tuple[Studio, str]) -> None:
    studio, _ = served
    agent = {"model": "scripted/memory", "memory": {"type": "sliding_window", "limit": 4}}
    document = {
        "name": "Remember",
        "blocks": [{"id": "start", "type": "start"}, {"id": "a", "type": "agent", "config": agent}],
        "edges": [{"source": "start", "target": "a"}],
    }
    workflow = studio.deploy(document)
    for number in range(6):  # whichever of the two workers takes each of them
        body = {"input": f"m{number}", "conversationId": "mine"}
        path = f"/api/workflows/{workflow}/execute"
        status, answer = ask(studio, "POST", path, json.dumps(body).encode())
        heard = ", ".join(f"m{said}" for said in range(max(0, number - 2), number + 1))
        assert (status, answer["output"]["content"]) == (200, f"So far you have said: {heard}.")
    run = ask(studio, "GET", f"/api/runs/{answer['runId']}")[1]
    status, kept = ask(studio, "GET", f"/api/threads/{run['threadId']}/memory")
    assert [item["message"] for item in kept["items"]] == [f"m{number}" for number in (5, 4, 3, 2, 1, 0)]
