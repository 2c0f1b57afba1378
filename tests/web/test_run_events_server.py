"""Run events from a real server with two workers: stopped in the middle, from whichever worker, and left."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterator

import pytest

from tests.support import servers, sse
from tests.support.servers import Studio, wait_until

#: A loop in which the first agent answers at once and the second never.
HALTS = {
    "name": "Halts",
    "blocks": [
        {"id": "start", "type": "start"},
        {"id": "rounds", "type": "loop", "config": {"kind": "for", "times": 2}},
        {"id": "quick", "type": "agent", "config": {"model": "scripted/echo", "prompt": "Quick."}},
        {"id": "never", "type": "agent", "config": {"model": "scripted/stall"}},
        {"id": "after", "type": "set", "config": {"values": {"x": 1}}},
    ],
    "edges": [
        {"source": "start", "target": "rounds"},
        {"source": "rounds", "source_handle": "loop", "target": "quick"},
        {"source": "quick", "target": "never"},
        {"source": "never", "target": "after"},
        {"source": "after", "target": "rounds"},
    ],
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Studio, str]]:
    environ = {"STUDIO_WORKERS": "2", "STUDIO_KEEPALIVE_S": "0.2"}
    with servers.studio(tmp_path_factory.mktemp("runs") / "data", environ) as studio:
        yield studio, studio.deploy(HALTS)


def begin(studio: Studio, workflow: str, **body: t.Any) -> tuple[sse.EventStream, Iterator[sse.Frame], str]:
    """An open stream, its frames, and its thread."""
    stream = sse.post(studio.port, f"/api/workflows/{workflow}/runs", body, {"X-API-Key": studio.key})
    assert stream.status == 200
    frames = iter(stream)
    first = next(frame for frame in frames if frame.comment is None).json()
    assert first["type"] == "thread"
    return stream, frames, first["thread_id"]


def ask(studio: Studio, method: str, path: str) -> tuple[int, t.Any]:
    status, _, body = sse.request(studio.port, method, path, headers={"X-API-Key": studio.key})
    return status, json.loads(body)


def events(frames: t.Iterable[sse.Frame]) -> list[dict[str, t.Any]]:
    return [frame.json() for frame in frames if frame.comment is None]


def until_never(frames: Iterator[sse.Frame]) -> None:
    """Read until the silent agent has begun."""
    for frame in frames:
        said = {} if frame.comment is not None else frame.json()
        if said.get("type") == "workflow_node_start" and said["data"]["node_id"] == "never":
            return
    raise AssertionError("the silent agent never began")


@pytest.mark.parametrize("call", ["thread", "run"])
def test_a_stop_reaches_the_run_in_whichever_worker_and_names_what_was_next(
    served: tuple[Studio, str], call: str
) -> None:
    studio, workflow = served
    for _ in range(6):  # whichever of the two workers takes the call
        stream, frames, thread = begin(studio, workflow, message="x")
        with stream:
            until_never(frames)
            run_id = stream.headers["X-Run-Id"]
            path = f"/api/threads/{thread}/stop" if call == "thread" else f"/api/runs/{run_id}/cancel"
            assert ask(studio, "POST", path) == (202, {"outcome": "accepted", "status": "running"})
            told = events(frames)
        assert [frame["type"] for frame in told][-3:] == ["workflow_stopped", "flow_state", "done"]
        assert told[-3]["data"] == {"node_id": "after"}
        assert told[-1]["data"]["status"] == "cancelled"
        started = [frame["data"]["node_id"] for frame in told if frame["type"] == "workflow_node_start"]
        assert started == []
        record = ask(studio, "GET", f"/api/runs/{run_id}")[1]
        assert (record["status"], record["cause"]) == ("cancelled", "stop_requested")


def test_a_stopped_thread_is_continued_by_whichever_worker(served: tuple[Studio, str]) -> None:
    studio, workflow = served
    stream, frames, thread = begin(studio, workflow, message="x")
    with stream:
        until_never(frames)
        for _ in range(4):
            path = f"/api/workflows/{workflow}/runs"
            busy = sse.post(studio.port, path, {"thread_id": thread}, {"X-API-Key": studio.key})
            with busy:
                assert busy.status == 409
                assert json.loads(busy.body())["error"]["code"] == "thread_busy"
        ask(studio, "POST", f"/api/threads/{thread}/stop")
        assert events(frames)[-1]["type"] == "done"
    stream, frames, again = begin(studio, workflow, message="y", thread_id=thread)
    assert again == thread
    stream.close()


def test_silence_is_filled_with_comments_between_frames(served: tuple[Studio, str]) -> None:
    studio, workflow = served
    stream, frames, _ = begin(studio, workflow, message="x", events="minimal")
    with stream:
        assert next(frame for frame in frames if frame.comment is not None).comment == "keepalive"


def test_leaving_stops_the_run_and_frees_its_thread(served: tuple[Studio, str]) -> None:
    studio, workflow = served
    stream, frames, thread = begin(studio, workflow, message="x")
    until_never(frames)
    stream.close()
    shown = wait_until(
        lambda: (found := ask(studio, "GET", f"/api/threads/{thread}")[1])["status"] == "idle" and found,
        "the thread is free",
    )
    assert shown["runStatus"] == "cancelled"
    record = ask(studio, "GET", f"/api/runs/{shown['runId']}")[1]
    assert record["cause"] == "client_disconnected"


def test_a_run_that_nobody_reads_goes_on_where_the_workflow_says_so(served: tuple[Studio, str]) -> None:
    studio, _ = served
    workflow = studio.deploy(
        {
            "name": "Goes on",
            "blocks": [
                {"id": "start", "type": "start"},
                {
                    "id": "a",
                    "type": "agent",
                    "config": {"model": "scripted/tour", "tools": ["clock", "calculator"]},
                },
            ],
            "edges": [{"source": "start", "target": "a"}],
            "settings": {"on_disconnect": "continue"},
        }
    )
    stream, _, thread = begin(studio, workflow, message="x")
    stream.close()
    shown = wait_until(
        lambda: (found := ask(studio, "GET", f"/api/threads/{thread}")[1])["status"] == "idle" and found,
        "the run has ended",
        30,
    )
    assert shown["runStatus"] == "completed"
