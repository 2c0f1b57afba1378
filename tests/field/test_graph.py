"""CANCEL, STALL: the graph surface on a real server is left, is stopped, and waits for a model that is silent."""

from __future__ import annotations

import json
import socket
import typing as t

import pytest

from app.events import STOPPED_TEXT
from tests.field.rig import Server
from tests.support import sse
from tests.support.vendor import Vendor

MODEL = "openai-compatible/field"
STREAM = {"Accept": "text/event-stream"}


def body(workflow: str) -> dict[str, t.Any]:
    return {"messages": [{"role": "user", "content": "Hi"}], "workflow": workflow}


def posted(served: Server, workflow: str, **headers: str) -> socket.socket:
    """A connection on which a turn was asked for; nothing of the answer is read."""
    sent = json.dumps(body(workflow)).encode()
    lines = [
        "POST /chat HTTP/1.1",
        "Host: studio",
        f"X-API-Key: {served.studio.key}",
        "Content-Type: application/json",
        f"Content-Length: {len(sent)}",
        *(f"{name}: {value}" for name, value in headers.items()),
        "",
        "",
    ]
    sock = socket.create_connection(("127.0.0.1", served.studio.port))
    sock.sendall("\r\n".join(lines).encode() + sent)
    return sock


def running(served: Server, workflow: str) -> str:
    """The one run of a workflow."""
    _, found = served.call("GET", f"/api/runs?workflowId={workflow}")
    (item,) = found["items"]
    return str(item["runId"])


@pytest.mark.parametrize("form", ["stream", "json"])
def test_leaving_closes_the_vendors_connection(served: Server, vendor: Vendor, form: str) -> None:
    workflow = served.agent(MODEL)
    sock = posted(served, workflow, **(STREAM if form == "stream" else {}))
    call = vendor.next_call()
    run_id = running(served, workflow)
    sock.close()
    assert call.left.wait(20)
    record = served.ended(run_id)
    assert (record["status"], record["cause"]) == ("cancelled", "client_disconnected")


@pytest.mark.parametrize("form", ["stream", "json"])
def test_a_turn_that_goes_on_without_its_client_is_told_to_who_comes_back(
    served: Server, vendor: Vendor, form: str
) -> None:
    workflow = served.agent(MODEL, settings={"on_disconnect": "continue"})
    sock = posted(served, workflow, **(STREAM if form == "stream" else {}))
    call = vendor.next_call()
    run_id = running(served, workflow)
    sock.close()
    with sse.get(
        served.studio.port, f"/api/runs/{run_id}/events?protocol=graph", {"X-API-Key": served.studio.key}
    ) as stream:
        assert stream.status == 200
        call.text("All the same.")
        call.finish()
        frames = [frame for frame in stream if frame.comment is None]
    assert frames[0].event == "graph_topology"
    assert frames[-1].event == "turn_completed"
    assert frames[-1].json()["content"] == "All the same."


def test_a_stop_ends_the_stream_with_an_error_and_the_waiting_caller_with_a_409(
    served: Server, vendor: Vendor
) -> None:
    workflow = served.agent(MODEL)
    stream = sse.post(served.studio.port, "/chat", body(workflow), {**STREAM, "X-API-Key": served.studio.key})
    call = vendor.next_call()
    served.stop(stream.headers["X-Run-Id"])
    assert call.left.wait(20)
    with stream:
        frames = [frame for frame in stream if frame.comment is None]
    assert frames[-1].event == "error"
    assert frames[-1].json() == {"code": "cancelled", "message": STOPPED_TEXT, "retryable": False}
    assert [f.json()["node"] for f in frames if f.event == "node_completed"] == ["start"]
    waiting = served.agent(MODEL)
    sock = posted(served, waiting)
    call = vendor.next_call()
    run_id = running(served, waiting)
    served.stop(run_id)
    assert call.left.wait(20)
    with sock:
        answer = b""
        while b'"run_id"' not in answer:
            piece = sock.recv(65536)
            assert piece, answer
            answer += piece
    assert answer.startswith(b"HTTP/1.1 409 ")
    assert b'"code":"cancelled"' in answer
    assert f'"run_id":"{run_id}"'.encode() in answer


def test_a_turn_and_its_nodes_come_while_the_model_is_silent(served: Server, vendor: Vendor) -> None:
    workflow = served.agent(MODEL)
    stream = sse.post(served.studio.port, "/chat", body(workflow), {**STREAM, "X-API-Key": served.studio.key})
    call = vendor.next_call()
    with stream:
        frames = iter(stream)
        seen = [next(frames) for _ in range(4)]
        assert [frame.event for frame in seen] == [
            "graph_topology",
            "node_started",
            "node_completed",
            "node_started",
        ]
        assert seen[-1].json()["node"] == "agent_1"
        call.text("Now.")
        call.finish()
        rest = [frame for frame in frames if frame.comment is None]
    assert [frame.event for frame in rest] == ["node_completed", "turn_completed"]
