"""The record of a run, and stopping one."""

from __future__ import annotations

import typing as t

import pytest

from tests.support import sse
from tests.support.servers import wait_until
from tests.web.asking import draft
from tests.web.conftest import TOOL, Studio, assert_error, document


def test_the_record_tells_what_happened(studio: Studio) -> None:
    workflow = studio.deploy(document("scripted/tooling", tools=[TOOL]))
    run = studio.execute(workflow, {"input": "hi", "conversationId": "c-1"}).get_json()["runId"]
    record = studio.get(f"/api/runs/{run}").get_json()
    assert record["runId"] == run
    assert record["workflowId"] == workflow
    assert record["version"] == 1
    assert record["conversationId"] == "c-1"
    assert record["status"] == "completed"
    assert record["input"] == {"message": "hi"}
    assert record["output"]["content"] == "It is settled."
    assert record["partialText"] == {}
    assert record["queuedMs"] == 0
    assert record["humanWaitMs"] == 0
    assert record["activeMs"] >= 0
    assert record["endedAt"].endswith("Z")
    assert record["toolCalls"]["agent_1"]["count"] == 1
    assert [block["blockId"] for block in record["blocks"]] == ["start", "agent_1"]
    assert all(block["status"] == "executed" for block in record["blocks"])
    assert "key" not in str(sorted(record)).lower()


def test_nothing_absent_is_null(studio: Studio) -> None:
    run = studio.execute(studio.deploy(document("scripted/plain"))).get_json()["runId"]
    record = studio.get(f"/api/runs/{run}").get_json()
    assert [name for name, value in record.items() if value is None] == []
    for block in record["blocks"]:
        assert [name for name, value in block.items() if value is None] == []


def test_segments_never_hold_thinking_or_payloads(studio: Studio) -> None:
    workflow = studio.deploy(document("scripted/tooling", tools=[TOOL]))
    run = studio.execute(workflow).get_json()["runId"]
    record = studio.get(f"/api/runs/{run}", key="admin").get_json()
    segments = record["output"]["providerTiming"]["timeSegments"]
    assert segments
    for segment in segments:
        assert set(segment) <= {"type", "name", "startTime", "endTime", "duration", "toolCallId"}


def start_silent(studio: Studio, headers: dict[str, str] | None = None) -> tuple[t.Any, str]:
    """An open stream of a model that says nothing, and its run."""
    workflow = studio.deploy(document("scripted/silent"))
    answer = studio.execute(workflow, {"stream": True}, headers=headers)
    return answer, answer.headers["X-Run-Id"]


@pytest.mark.parametrize("key", ["run", "admin"])
def test_a_running_run_is_shown_and_stopped(studio: Studio, key: str) -> None:
    answer, run = start_silent(studio, {"X-Studio-Stream-Protocol": "agent-events-v1"})
    assert studio.get(f"/api/runs/{run}", key=key).get_json()["status"] == "running"
    stopped = studio.client.post(f"/api/runs/{run}/cancel", headers={"X-API-Key": studio.keys[key]})
    assert stopped.status_code == 202
    assert stopped.get_json() == {"outcome": "accepted", "status": "running"}
    frames = [frame.json() for frame in sse.parse(answer.get_data()) if frame.comment is None]
    assert [frame.get("code") for frame in frames[:-1]] == ["cancelled"]
    record = wait_until(
        lambda: (row := studio.get(f"/api/runs/{run}").get_json())["status"] != "running" and row, "the end"
    )
    assert (record["status"], record["cause"]) == ("cancelled", "stop_requested")
    again = studio.client.post(f"/api/runs/{run}/cancel", headers={"X-API-Key": studio.keys[key]})
    assert again.status_code == 202
    assert again.get_json() == {"outcome": "already_finished", "status": "cancelled"}


def test_cancel_takes_no_body(studio: Studio) -> None:
    answer = studio.client.post(
        "/api/runs/x/cancel", json={"why": 1}, headers={"X-API-Key": studio.keys["run"]}
    )
    assert_error(answer, 400, "validation_failed", path="why")


# -- a stop that meets a pause --------------------------------------------------------------------


def asking_run(studio: Studio) -> dict[str, t.Any]:
    """The answer to one who waited, of a run that asks."""
    body: dict[str, t.Any] = studio.execute(studio.deploy(draft()), {"input": "hi"}).get_json()
    return body


def cancelled(studio: Studio, run: str) -> dict[str, t.Any]:
    """The record of a run, once it was stopped. Nothing in this application looks for such runs by the clock."""

    def record() -> dict[str, t.Any]:
        return t.cast("dict[str, t.Any]", studio.get(f"/api/runs/{run}").get_json())

    wait_until(lambda: record()["status"] == "cancelled", "the run is stopped")
    return record()


def test_a_stop_finds_the_run_that_paused_while_it_was_asked_for(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = asking_run(studio)["runId"]
    runs = studio.app.extensions["studio"].runs
    stop, found = runs.stop, iter([False])  # another process had it for a moment
    monkeypatch.setattr(runs, "stop", lambda run_id: next(found, None) is None and stop(run_id))
    answer = studio.client.post(f"/api/runs/{run}/cancel", headers={"X-API-Key": studio.keys["run"]})
    assert (answer.status_code, answer.get_json()["outcome"]) == (202, "accepted")
    assert cancelled(studio, run)["cause"] == "stop_requested"


def test_a_run_that_pauses_finds_the_wish_to_stop_it(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = studio.app.extensions["studio"].runs
    pause = runs._carrier.pause

    def late(run: t.Any) -> None:
        assert studio.store.runs.request_stop(run.id)
        pause(run)

    monkeypatch.setattr(runs._carrier, "pause", late)
    body = asking_run(studio)
    assert body["status"] == "paused"
    assert cancelled(studio, body["runId"])["cause"] == "stop_requested"


def test_a_run_that_should_stop_does_nothing_more_whoever_takes_it_up(studio: Studio) -> None:
    run = asking_run(studio)["runId"]
    assert studio.store.runs.request_stop(run)
    sent = {"X-API-Key": studio.keys["run"]}
    answer = studio.client.post(f"/api/runs/{run}/resume", json={"decision": "approve"}, headers=sent)
    assert answer.get_json()["error"]["code"] == "cancelled"
    assert [
        block["blockId"] for block in cancelled(studio, run)["blocks"] if block["status"] == "executed"
    ] == [
        "start",
        "agent_1",
    ]
