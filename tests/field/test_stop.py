"""Stop at every kind of block and phase, over HTTP: nothing starts after it, and the thread goes on."""

from __future__ import annotations

import os
import typing as t
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import gevent
import pytest

from tests.field.rig import Server, until
from tests.field.stages import AGENT, CASES, SET, Case, Following, Stage, deployed, reply
from tests.support.graphs import graph
from tests.support.vendor import Vendor

#: What tells that something begins; after a stop none of them may come.
STARTS = {
    "workflow_node_start",
    "tool_use",
    "tool_executing",
    "workflow_loop",
    "sequential_start",
    "debate_start",
    "debate_round",
    "vote_cast",
    "vote_result",
    "agent_message",
    "chat_chunk",
}


@contextmanager
def answering(vendor: Vendor, desk: Vendor, pipe: Path, says: str) -> Iterator[None]:
    """Upstreams that answer whatever comes."""

    def model() -> None:
        while True:
            reply(vendor.calls.get(), says)

    def tools() -> None:
        while True:
            desk.calls.get().answer(200, b'"fine"')

    def write() -> None:
        while True:
            release(pipe)
            gevent.sleep(0.01)

    tasks = [gevent.spawn(job) for job in (model, tools, write)]
    try:
        yield
    finally:
        gevent.killall(tasks)


def release(pipe: Path) -> None:
    """Let whoever reads the pipe go on."""
    try:
        os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
    except OSError:
        pass  # nobody does


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Path]:
    made = tmp_path / "pipe"
    os.mkfifo(made)
    yield made
    release(made)


@pytest.mark.parametrize("call", ["thread", "run"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_stop(served: Server, vendor: Vendor, desk: Vendor, pipe: Path, case: Case, call: str) -> None:
    workflow = deployed(served, case, desk, pipe)
    run = Following(served, workflow, message="hi")
    stage = Stage(vendor, desk, run, pipe)
    case.reach(stage)
    path = f"/api/threads/{run.thread}/stop" if call == "thread" else f"/api/runs/{run.run_id}/cancel"
    assert served.call("POST", path, body={}) == (202, {"outcome": "accepted", "status": "running"})
    run.rest()
    release(pipe)
    for upstream in stage.taken:
        assert upstream.left.wait(20), "its connection is closed"
    assert vendor.calls.empty(), "no model was asked after the stop"
    assert desk.calls.empty(), "no request was made after the stop"
    check_told(case, run)
    check_stored(case, served, run)
    goes_on(case, served, vendor, desk, pipe, run, workflow)


def check_told(case: Case, run: Following) -> None:
    """What the reader of a stopped run was told: what was open has ended, nothing began, where it would go on."""
    kinds = [event["type"] for event in run.seen]
    assert kinds[-3:] == ["workflow_stopped", "flow_state", "done"]
    # The first block that ends without success is the first that the stop cut off.
    cut = next(n for n, event in enumerate(run.seen) if event["data"].get("success") is False)
    assert not STARTS & set(kinds[cut:])
    begun = {event["data"]["node_id"] for event in run.seen if event["type"] == "workflow_node_start"}
    if not case.name.startswith("loop"):  # there it may have run before
        assert not begun & set(case.following)
    stopped, _, done = run.seen[-3:]
    following = list(case.following)
    expected: dict[str, t.Any] = {"node_id": following[0]} if following else {}
    if len(following) > 1:
        expected["node_ids"] = following
    assert stopped["data"] == expected
    assert (done["data"]["status"], done["data"]["cause"]) == ("cancelled", "stop_requested")
    for start, end, member in (
        ("workflow_node_start", "workflow_node_end", "node_run_id"),
        ("tool_executing", "tool_result", "tool_call_id"),
    ):
        begun = [event["data"][member] for event in run.seen if event["type"] == start]
        over = [event["data"][member] for event in run.seen if event["type"] == end]
        assert set(begun) <= set(over)
        assert len(set(over)) == len(over)
    results = [event["data"]["status"] for event in run.seen if event["type"] == "tool_result"]
    assert sorted(results) == sorted(case.tools)
    if case.name == "vote-secret":
        assert "vote_cast" not in kinds


def check_stored(case: Case, served: Server, run: Following) -> None:
    """The record says the same, everything in it has an end, and the list agrees."""
    record = served.ended(run.run_id)
    assert (record["status"], record["cause"]) == ("cancelled", "stop_requested")
    assert all("endedAt" in block for block in record["blocks"] if "startedAt" in block)
    if not case.name.startswith("loop"):
        assert not {block["blockId"] for block in record["blocks"]} & set(case.following)
    statuses = [call["status"] for calls in record["toolCalls"].values() for call in calls["list"]]
    assert sorted(statuses) == sorted(case.tools)
    (item,) = served.call("GET", f"/api/runs?threadId={run.thread}")[1]["items"]
    assert (item["status"], item["endedAt"]) == ("cancelled", record["endedAt"])


def goes_on(
    case: Case, served: Server, vendor: Vendor, desk: Vendor, pipe: Path, run: Following, workflow: str
) -> None:
    """The thread is free, and its next message runs to the end."""
    assert served.call("GET", f"/api/threads/{run.thread}")[1]["status"] == "idle"
    with answering(vendor, desk, pipe, case.says):
        again = Following(served, workflow, message="again", thread_id=run.thread)
        told = again.rest()
    assert again.thread == run.thread
    assert told[-1]["data"]["status"] == "completed", told[-3:]


def test_a_stopped_agent_that_keeps_the_thread_keeps_it(
    served: Server, vendor: Vendor, desk: Vendor, pipe: Path
) -> None:
    """Pinned, stopped in the middle of its second answer, and entered again."""
    blocks = [
        ("first", "agent", {**AGENT, "prompt": "first"}),
        ("kept", "agent", {**AGENT, "prompt": "kept", "capture": True}),
        ("z", "set", SET),
    ]
    workflow = served.deploy(graph(blocks, "start > first", "first > kept", "kept > z"))
    with answering(vendor, desk, pipe, "yes"):
        run = Following(served, workflow, message="one")
        assert run.rest()[-2]["data"]["pinned_node"] == "kept"
    second = Following(served, workflow, message="two", thread_id=run.thread)
    vendor.next_call().text("so")
    second.until("workflow_node_start", node_id="kept")
    served.stop(second.run_id)
    assert [event["data"] for event in second.rest()[-3:-1]] == [
        {"node_id": "z"},
        {"pinned_node": "kept", "pinned_agent": "kept"},
    ]
    with answering(vendor, desk, pipe, "yes"):
        third = Following(served, workflow, message="three", thread_id=run.thread)
        told = third.rest()
    started = [event["data"]["node_id"] for event in told if event["type"] == "workflow_node_start"]
    assert started == ["kept", "z"]
    assert told[-1]["data"]["status"] == "completed"


def test_a_reader_that_leaves_stops_whatever_runs(
    served: Server, vendor: Vendor, desk: Vendor, pipe: Path
) -> None:
    """Policy ``cancel``: in each kind of block, composites and children included."""
    names = ("vote-secret", "debate-mid-round", "parallel-both", "grandchild", "child-tool", "http", "tool")
    for case in (case for case in CASES if case.name in names):
        run = Following(served, deployed(served, case, desk, pipe), message="hi")
        stage = Stage(vendor, desk, run, pipe)
        case.reach(stage)
        run.stream.close()
        for upstream in stage.taken:
            assert upstream.left.wait(20), f"{case.name}: its connection is closed"
        record = served.ended(run.run_id)
        assert (record["status"], record["cause"]) == ("cancelled", "client_disconnected"), case.name
        assert vendor.calls.empty(), case.name
        assert desk.calls.empty(), case.name
        statuses = [call["status"] for calls in record["toolCalls"].values() for call in calls["list"]]
        assert statuses == list(case.tools), case.name
        until(
            lambda thread=run.thread: served.call("GET", f"/api/threads/{thread}")[1]["status"] == "idle",
            f"{case.name}: its thread is free",
        )
