"""A run that waits for people, looked at: its record and its thread, stopping it, and attaching to it."""

from __future__ import annotations

import typing as t

import gevent
import pytest

from tests.support import sse
from tests.web import asking
from tests.web.asking import open_of, paused, resume, send, until, values
from tests.web.conftest import Studio, assert_error, document


@pytest.fixture
def call(studio: Studio) -> str:
    """The id of a workflow whose agent's call needs approval."""
    return studio.deploy(asking.call())


@pytest.fixture
def draft(studio: Studio) -> str:
    """The id of a workflow whose agent's text is released by a person."""
    return studio.deploy(asking.draft())


# -- a paused run, looked at -------------------------------------------------------------------------


def test_the_record_of_a_paused_run_has_what_there_is(studio: Studio, draft: str) -> None:
    run = paused(studio, draft, {"conversationId": "c"})
    (asked,) = open_of(studio, run)
    body = studio.get(f"/api/runs/{run}").get_json()
    block = {
        "url": f"/api/runs/{run}/resume",
        "pauseId": asked["id"],
        "threadId": body["threadId"],
        "pauseIds": [asked["id"]],
    }
    assert (body["status"], body["resume"], body["humanWaitMs"]) == ("paused", block, 0)
    assert body["pausedAt"] >= body["startedAt"]
    assert "endedAt" not in body
    states = {entry["blockId"]: entry["status"] for entry in body["blocks"]}
    assert states == {"start": "executed", "agent_1": "executed", "ask": "running"}
    listed = studio.get("/api/runs?status=paused").get_json()["items"]
    assert [(item["runId"], item["resume"]) for item in listed] == [(run, block)]
    assert studio.get("/api/runs?status=running").get_json() == {"items": []}


def test_nobody_else_enters_a_thread_that_waits(studio: Studio, call: str) -> None:
    """HITL-09: on execute and on run events, and never silently."""
    first = send(studio, f"/api/workflows/{call}/runs", {"message": "hi"})
    run, thread = first.headers["X-Run-Id"], values(first)[0]["thread_id"]
    (asked,) = open_of(studio, run)
    error = assert_error(
        send(studio, f"/api/workflows/{call}/runs", {"message": "Well?", "thread_id": thread}),
        409,
        "thread_paused",
        path="pause_id",
        says=f"POST /api/runs/{run}/resume",
    )
    assert {"path": "pause_id", "message": asked["id"]} in error["details"]
    shown = studio.get(f"/api/threads/{thread}").get_json()
    assert (shown["status"], shown["runId"], shown["pauseIds"]) == ("paused", run, [asked["id"]])

    named = paused(studio, call, {"conversationId": "c"})
    assert_error(
        studio.execute(call, {"input": "Well?", "conversationId": "c"}), 409, "thread_paused", says=named
    )
    assert resume(studio, named, {"decision": "approve"}).get_json()["status"] == "completed"
    assert studio.execute(call, {"input": "Well?", "conversationId": "c"}).get_json()["status"] == "paused"


def test_a_paused_run_can_be_stopped(studio: Studio, draft: str) -> None:
    run = paused(studio, draft)
    (asked,) = open_of(studio, run)
    answer = send(studio, f"/api/runs/{run}/cancel")
    assert (answer.status_code, answer.get_json()) == (202, {"outcome": "accepted", "status": "paused"})
    body = until(studio, run, "cancelled")
    assert body["cause"] == "stop_requested"
    assert "resume" not in body
    assert_error(resume(studio, run, {"decision": "approve", "pauseId": asked["id"]}), 409, "not_paused")
    assert studio.get(f"/api/decisions/{asked['id']}").get_json()["status"] == "cancelled"


def test_a_thread_whose_run_is_paused_can_be_stopped(studio: Studio, draft: str) -> None:
    run = paused(studio, draft)
    thread = studio.get(f"/api/runs/{run}").get_json()["threadId"]
    answer = send(studio, f"/api/threads/{thread}/stop")
    assert (answer.status_code, answer.get_json()["outcome"]) == (202, "accepted")
    until(studio, run, "cancelled")
    assert studio.get(f"/api/threads/{thread}").get_json()["status"] == "idle"


def test_one_who_waits_is_told_that_the_run_goes_on_elsewhere(studio: Studio) -> None:
    """Its server shuts down; the run is durable and does not end with it."""
    workflow = studio.deploy(document("scripted/silent", settings={"durable": True}))
    waiting = gevent.spawn(studio.execute, workflow)
    services = studio.app.extensions["studio"]
    with gevent.Timeout(10):
        while not services.runs.live():
            gevent.sleep(0.01)
    (run,) = services.runs.live()
    assert run.hand_over()
    answer = waiting.get(timeout=10)
    assert answer.status_code == 202
    assert answer.get_json()["eventsUrl"] == f"/api/runs/{run.id}/events"
    assert studio.get(f"/api/runs/{run.id}").get_json()["status"] == "running"
    send(studio, f"/api/runs/{run.id}/cancel")


# -- attaching ---------------------------------------------------------------------------------------


def _attach(studio: Studio, run: str, query: str = "", **headers: str) -> t.Any:
    sent = {"X-API-Key": studio.keys["read"], **headers}
    return studio.client.get(f"/api/runs/{run}/events?{query}", headers=sent)


@pytest.mark.parametrize(
    ("protocol", "last"), [("agent-events-v1", "[DONE]"), ("agent-text", "[DONE]"), ("runs", None)]
)
def test_attaching_to_a_paused_run_ends_at_the_pause(
    studio: Studio, call: str, protocol: str, last: str | None
) -> None:
    run = paused(studio, call)
    told = values(_attach(studio, run, f"protocol={protocol}"))
    if last is None:
        assert told[-1]["data"]["status"] == "paused"
        assert told[0]["type"] == "thread"
    else:
        assert told[-1] == last
        assert told[-2]["data"]["resume"]["url"] == f"/api/runs/{run}/resume"
    past = _attach(studio, run, f"protocol={protocol}&after={run}:1000")
    assert_error(past, 400, "validation_failed", path="after")


@pytest.mark.parametrize("protocol", ["agent-events-v1", "agent-text", "runs"])
def test_attaching_afterwards_passes_over_the_pause(studio: Studio, call: str, protocol: str) -> None:
    run = paused(studio, call)
    before = _attach(studio, run, f"protocol={protocol}").get_data()
    assert resume(studio, run, {"decision": "approve"}).get_json()["status"] == "completed"
    whole = _attach(studio, run, f"protocol={protocol}").get_data()
    assert b'"status":"paused"' in before
    assert b'"status":"paused"' not in whole
    end = b'data: {"event":"final"' if protocol != "runs" else b'data: {"type":"workflow_paused"'
    assert whole.startswith(before[: before.index(end)])
    if protocol == "agent-text":
        return
    for frame in sse.parse(whole):
        if frame.id is not None:
            rest = _attach(studio, run, f"protocol={protocol}", **{"Last-Event-ID": frame.id})
            if rest.status_code == 204:
                assert whole.endswith(f"id: {frame.id}\ndata: {frame.data}\n\n".encode())
            else:
                assert whole.endswith(rest.get_data())


def test_the_stored_log_tells_what_the_live_one_did(studio: Studio, call: str) -> None:
    """Another process has only the store."""
    run = paused(studio, call)
    assert resume(studio, run, {"decision": "approve"}).get_json()["status"] == "completed"
    query = "protocol=runs&events=full"
    kept = _attach(studio, run, query).get_data()
    runs = studio.app.extensions["studio"].runs
    runs._retained._drop(runs.ended(run))
    assert runs.ended(run) is None
    assert _attach(studio, run, query).get_data() == kept


def test_with_the_pause_as_its_cursor_a_stream_waits_and_reads_on(studio: Studio, call: str) -> None:
    """A client that has everything is neither sent away (204 ends an ``EventSource``) nor told the pause again."""
    run = paused(studio, call)
    told = [frame for frame in sse.parse(_attach(studio, run).get_data()) if frame.comment is None]
    reader = gevent.spawn(lambda: _attach(studio, run, **{"Last-Event-ID": str(told[-1].id)}).get_data())
    waits = studio.app.extensions["studio.held"]
    with gevent.Timeout(10):
        while run not in waits._readers:
            gevent.sleep(0.01)
    assert not reader.ready()
    assert resume(studio, run, {"decision": "approve"}).get_json()["status"] == "completed"
    got = [frame.json() for frame in sse.parse(reader.get(timeout=10)) if frame.comment is None]
    assert got[0] == {"blockId": "agent_1", "chunk": "It is settled."}
    assert got[-1] == "[DONE]"


def test_streams_that_wait_are_told_when_their_server_goes(studio: Studio, call: str) -> None:
    run = paused(studio, call)
    told = [frame for frame in sse.parse(_attach(studio, run).get_data()) if frame.comment is None]
    reader = gevent.spawn(lambda: _attach(studio, run, **{"Last-Event-ID": str(told[-1].id)}).get_data())
    waits = studio.app.extensions["studio.held"]
    with gevent.Timeout(10):
        while run not in waits._readers:
            gevent.sleep(0.01)
    waits.close()
    assert reader.get(timeout=10) == b'retry: 1000\ndata: {"event":"detached","retryMs":1000}\n\n'
