"""The record of a run, and stopping one."""

from __future__ import annotations

import typing as t

import pytest

from tests.support import sse
from tests.support.servers import wait_until
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
