"""LOAD: large values, many runs at once."""

from __future__ import annotations

import json
import sqlite3
import typing as t
from collections.abc import Iterator
from contextlib import closing

import gevent
import pytest
import yaml

from app.streams.run_event_data import OUTPUT_LIMIT
from tests.field.rig import ALL, Server, opened
from tests.field.stages import Following
from tests.field.wires import Chat
from tests.support import sse
from tests.support.engine import agent
from tests.support.servers import NEGOTIATE, studio
from tests.support.vendor import Call, Vendor

MIB = 1024 * 1024


def huge(call: Call, size: int) -> None:
    """Ask for a line of so many bytes."""
    Chat().tool(call, 0, "c", "huge", json.dumps({"bytes": size}))
    Chat().finish(call, "tool_calls")


def test_load_03_a_tool_that_returns_megabytes(served: Server, vendor: Vendor) -> None:
    """Live: 64 KiB of it with its size. In the record: a reference and its beginning. Whole, for those who may read."""
    workflow = served.agent("openai-compatible/field", tools=["huge"])
    size = 9 * MIB
    reader = Following(served, workflow, message="hi")
    huge(vendor.next_call(), size)
    result = reader.until("tool_result")
    data = result["data"]
    assert (data["truncated"], data["size"]) == (True, size + 2)  # as JSON, in its quotes
    assert data["output"] == "é" * (OUTPUT_LIMIT // 2)
    assert result["output"] == data["output"]
    call = vendor.next_call()
    assert call.body["messages"][-1]["content"] == "é" * (size // 2), "the model gets it whole"
    call.text("done")
    call.finish()
    assert reader.rest()[-1]["data"]["status"] == "completed"
    status, _, body = sse.request(
        served.studio.port, "GET", f"/api/runs/{reader.run_id}", headers={"X-API-Key": served.studio.key}
    )
    assert status == 200
    assert len(body) < 64 * 1024
    record = json.loads(body)
    shown = record["toolCalls"]["agent_1"]["list"][0]["result"]
    assert (shown["kind"], shown["size"], shown["preview"]) == ("text", size + 2, "é" * 500)
    assert served.call("GET", shown["url"]) == (200, "é" * (size // 2))
    in_output = record["output"]["toolCalls"]["list"][0]["result"]
    assert served.call("GET", in_output["url"]) == (200, "é" * (size // 2))
    _, stranger = served.store.keys.create("stranger", frozenset({"run"}))
    assert served.call("GET", shown["url"], stranger)[0] == 404
    assert served.call("GET", shown["url"], None)[0] == 401
    assert served.call("GET", f"/api/runs/{reader.run_id}/values/nonsense")[0] == 404


@pytest.mark.parametrize("size", [8 * MIB - 2, 8 * MIB])
def test_load_03_in_the_answer_of_execute(served: Server, vendor: Vendor, size: int) -> None:
    """Up to 8 MiB a value is handed over whole, beyond it by reference; waiting and streaming alike."""
    workflow = served.agent("openai-compatible/field", tools=["huge"])
    for stream in (False, True):
        task = gevent.spawn(_answer, served, workflow, stream)
        huge(vendor.next_call(), size)
        call = vendor.next_call()
        call.text("done")
        call.finish()
        answer = task.get(timeout=30)
        calls = answer["toolCalls"]["agent_1"] if stream else answer["output"]["toolCalls"]
        result = calls["list"][0]["result"]
        if size + 2 <= 8 * MIB:
            assert result == "é" * (size // 2)
        else:
            assert (result["kind"], result["size"]) == ("text", size + 2)
            assert served.call("GET", result["url"]) == (200, "é" * (size // 2))


def _answer(served: Server, workflow: str, stream: bool) -> dict[str, t.Any]:
    body = {**ALL, "selectedOutputs": []} if stream else {}
    with served.studio.execute(workflow, body, NEGOTIATE) as answer:
        if not stream:
            return t.cast("dict[str, t.Any]", json.loads(answer.body()))
        frames = [frame.json() for frame in answer.events()]
        (final,) = [frame for frame in frames if isinstance(frame, dict) and frame.get("event") == "final"]
        return t.cast("dict[str, t.Any]", final["data"])


# -- many at once, in four workers -------------------------------------------------------------------

RUNS = 20
CHATTY = {"turns": [{"steps": [{"text": "word " * 60, "chunk": "words", "delay_ms": 1}]}]}


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A Studio of four workers over one SQLite file."""
    folder = tmp_path_factory.mktemp("four")
    scripts = folder / "scripts"
    scripts.mkdir()
    (scripts / "chatty.yaml").write_text(yaml.safe_dump(CHATTY))
    environ = {"STUDIO_WORKERS": "4", "STUDIO_SCRIPTS_DIR": str(scripts)}
    with studio(folder / "data", environ) as made, opened(made) as server:
        assert made.key
        yield server


def test_load_05_twenty_runs_in_four_workers_over_sqlite(four: Server) -> None:
    """Nobody hears of a lock; every history is whole, and says what the reader was told."""
    document = agent("scripted/chatty")
    document["blocks"].insert(1, {"id": "r", "type": "loop", "config": {"kind": "for", "times": 3}})
    document["edges"] = [
        {"source": "start", "target": "r"},
        {"source": "r", "source_handle": "loop", "target": "agent_1"},
        {"source": "agent_1", "target": "r"},
    ]
    workflow = four.deploy(document)
    tasks = [gevent.spawn(_told, four, workflow, n) for n in range(RUNS)]
    owners = set()
    for run_id, seqs, final in [task.get(timeout=60) for task in tasks]:
        assert len(seqs) >= 50
        assert seqs == sorted(set(seqs))
        assert (final["status"], final["runId"]) == ("completed", run_id)
        record = four.ended(run_id)
        assert record["status"] == "completed"
        assert [block["blockId"] for block in record["blocks"]] == ["start", "r", "agent_1"]
        assert record["output"]["iterations"] == 3
        assert [result["content"] for result in record["output"]["results"]] == ["word " * 60] * 3
        assert record["usage"] == _with_times(final["usage"], record["usage"])
        row = four.store.runs.get(run_id)
        assert row is not None
        owners.add(row["owner_id"])
    assert len(owners) > 1, "several workers took part"
    assert "locked" not in four.studio.log.read_text()
    with closing(sqlite3.connect(four.studio.data / "studio.db")) as connection:
        assert connection.execute("select count(*) from run_usage").fetchone()[0] >= RUNS * 3


def _told(server: Server, workflow: str, n: int) -> tuple[str, list[int], dict[str, t.Any]]:
    """One reader on a connection of its own: the run, the numbers of the events it was told, and the last of them."""
    body = {"input": f"run {n}", **ALL, "selectedOutputs": ["agent_1.content"]}
    with server.studio.execute(workflow, body, NEGOTIATE, 60) as stream:
        assert stream.status == 200, stream.body()
        run_id = stream.headers["X-Run-Id"]
        frames = list(stream.events())
    final = frames[-2].json()
    assert final["event"] == "final", final
    seqs = [int(frame.id.rpartition(":")[2]) for frame in frames if frame.id is not None]
    return run_id, seqs, final["data"]


def _with_times(told: dict[str, t.Any], stored: dict[str, t.Any]) -> dict[str, t.Any]:
    """What was told, with the times of the record, which is written a moment later."""
    times = {name: value for name, value in stored.items() if name.endswith("Ms")}
    return {**told, **times}


def test_load_05_nothing_is_written_in_a_transaction_that_waits_for_a_model(
    served: Server, vendor: Vendor
) -> None:
    """While a model is silent, anybody else may take the file for themselves and write."""
    workflow = served.agent("openai-compatible/field", tools=["huge"])
    reader = Following(served, workflow, message="hi")
    call = vendor.next_call()
    with closing(sqlite3.connect(served.studio.data / "studio.db", timeout=20)) as connection:
        connection.isolation_level = None
        connection.execute("begin immediate")  # waits for whoever writes; raises when that does not end
        connection.execute("rollback")
    call.text("done")
    call.finish()
    assert reader.rest()[-1]["data"]["status"] == "completed"


# -- CANCEL-03: stops that land in another process ----------------------------------------------------


def test_cancel_03_stops_from_whichever_worker(four: Server) -> None:
    """Twenty runs in four workers, each stopped over a fresh connection: no 404, all cancelled."""
    workflow = four.deploy(agent("scripted/stall"))
    runs = [Following(four, workflow, message="x") for _ in range(RUNS)]
    for place, run in enumerate(runs):
        path = f"/api/threads/{run.thread}/stop" if place % 2 else f"/api/runs/{run.run_id}/cancel"
        assert four.call("POST", path, body={}) == (202, {"outcome": "accepted", "status": "running"})
    for run in runs:
        told = run.rest()
        assert [event["type"] for event in told][-3:] == ["workflow_stopped", "flow_state", "done"]
        assert told[-1]["data"]["cause"] == "stop_requested"
        assert four.ended(run.run_id)["status"] == "cancelled"
    rows = [four.store.runs.get(run.run_id) for run in runs]
    assert len({row["owner_id"] for row in rows if row is not None}) > 1, "several workers carried them"


def test_cancel_04_a_stop_while_the_store_is_locked_is_applied_or_refused(four: Server) -> None:
    """The channel between workers is the store. Locked, a stop is refused visibly or applied once it is free."""
    workflow = four.deploy(agent("scripted/stall"))
    runs = [Following(four, workflow, message="x") for _ in range(4)]
    with closing(sqlite3.connect(four.studio.data / "studio.db", timeout=20)) as connection:
        connection.isolation_level = None
        connection.execute("begin immediate")
        tasks = [gevent.spawn(four.call, "POST", f"/api/runs/{run.run_id}/cancel", "", {}) for run in runs]
        gevent.joinall(tasks, timeout=2)
        connection.execute("rollback")
    for task, run in zip(tasks, runs, strict=True):
        status, body = task.get(timeout=30)
        if status != 202:
            assert status == 503, body
            assert four.call("POST", f"/api/runs/{run.run_id}/cancel", body={})[0] == 202
        assert run.rest()[-1]["data"]["cause"] == "stop_requested"
