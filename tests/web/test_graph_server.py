"""The graph surface from a real server with two workers: silence, answers from whichever worker, restarts."""

from __future__ import annotations

import json
import os
import signal
import typing as t
from collections.abc import Iterator

import gevent
import pytest

from tests.support import servers, sse
from tests.support.servers import Studio
from tests.web.assistant import NODES

STREAM = "text/event-stream"
UNKNOWN = "What is the capital of France?"
SILENT = {
    "name": "Silent",
    "blocks": [
        {"id": "start", "type": "start"},
        {"id": "never", "type": "agent", "config": {"model": "scripted/silent"}},
    ],
    "edges": [{"source": "start", "target": "never"}],
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    environ = {"STUDIO_WORKERS": "2", "STUDIO_KEEPALIVE_S": "0.2"}
    with servers.studio(tmp_path_factory.mktemp("graph") / "data", environ) as studio:
        assert studio.key
        yield studio


def post(studio: Studio, path: str, body: dict[str, t.Any], accept: str = STREAM) -> sse.EventStream:
    return sse.post(studio.port, path, body, {"X-API-Key": studio.key, "Accept": accept})


def chat(studio: Studio, text: str, **more: t.Any) -> sse.EventStream:
    return post(studio, "/chat", {"messages": [{"role": "user", "content": text}], **more})


def resume(studio: Studio, thread: str, accept: str = STREAM, **body: t.Any) -> sse.EventStream:
    return post(studio, "/chat/resume", {"thread_id": thread, "decision": "approve", **body}, accept)


def told(stream: sse.EventStream) -> list[sse.Frame]:
    with stream:
        assert stream.status == 200, stream.body()
        return [frame for frame in stream if frame.comment is None]


def pauses(studio: Studio) -> str:
    """The thread of a turn of the assistant that waits."""
    last = told(chat(studio, UNKNOWN))[-1]
    assert last.event == "paused"
    return str(last.json()["thread_id"])


def test_a_fresh_server_answers_with_a_citation(served: Studio) -> None:
    last = told(chat(served, "How many holidays do I have?"))[-1]
    assert last.event == "turn_completed"
    assert last.json()["citations"][0]["source"] == "examples/documents/leave.md"


def test_silence_is_filled_with_comments_between_frames(served: Studio) -> None:
    workflow = served.deploy(SILENT)
    with chat(served, "Hi", workflow=workflow) as stream:
        frames = iter(stream)
        told = (
            frame for frame in frames if frame.comment is None
        )  # on a busy machine comments come before, too
        assert [next(told).event for _ in range(4)] == [
            "graph_topology",
            "node_started",
            "node_completed",
            "node_started",
        ]
        assert [next(frames).comment for _ in range(2)] == ["keepalive", "keepalive"]


def test_whichever_worker_takes_the_answer_the_turn_goes_on(served: Studio) -> None:
    for accept in (STREAM, "application/json") * 3:  # whichever of the two it is
        stream = resume(served, pauses(served), accept, decision="edit", edited_text="It is Paris.")
        if accept == STREAM:
            frames = told(stream)
            assert [frames[0].event, frames[-1].event] == ["graph_topology", "turn_completed"]
            body = frames[-1].json()
        else:
            with stream:
                assert stream.status == 200
                body = json.loads(stream.body())
        assert body["content"] == "It is Paris."


def test_a_second_answer_is_a_409_at_whichever_worker(served: Studio) -> None:
    thread = pauses(served)
    told(resume(served, thread))
    for _ in range(4):
        with resume(served, thread) as again:
            assert again.status == 409
            assert json.loads(again.body())["error"]["code"] == "already_answered"


def test_of_fifty_answers_at_once_one_counts(served: Studio) -> None:
    thread = pauses(served)

    def answer(number: int) -> tuple[int, t.Any]:
        with resume(served, thread, "application/json", decision="edit", edited_text=f"{number}") as stream:
            return stream.status, json.loads(stream.body())

    tasks = [gevent.spawn(answer, number) for number in range(50)]
    answers = [task.get(timeout=60) for task in tasks]
    won = [body for status, body in answers if status == 200]
    lost = [body["error"] for status, body in answers if status == 409]
    assert (len(won), len(lost)) == (1, 49)
    assert {error["code"] for error in lost} == {"already_answered"}
    record = json.loads(
        sse.request(served.port, "GET", f"/api/runs/{won[0]['run_id']}", headers={"X-API-Key": served.key})[2]
    )
    assert record["output"]["content"] == won[0]["content"]
    assert [block["blockId"] for block in record["blocks"]].count("guardrail_post") == 1


def test_a_pause_survives_the_end_of_its_server(served: Studio) -> None:
    threads = [pauses(served), pauses(served)]
    assert served.process is not None
    for pid in [*served.workers(), served.process.pid]:
        os.kill(pid, signal.SIGKILL)
    served.process.wait(60)
    served.start()
    for thread in threads:
        frames = told(resume(served, thread))
        assert frames[0].event == "graph_topology"
        assert [f.json()["node"] for f in frames if f.event == "node_completed"] == list(NODES[4:])
        assert frames[-1].event == "turn_completed"
        body = frames[-1].json()
        assert body["content"] == "I do not know that."
        assert [entry["node"] for entry in body["path"]][:4] == list(NODES[:4])
        assert body["human_wait_ms"] > 0
