"""CANCEL: Stop and disconnect reach the work, and the status is closed."""

from __future__ import annotations

import socket
import sqlite3
import struct
import typing as t
from contextlib import closing, suppress

import gevent
import pytest

from app import events as ev
from app.events import STOPPED_TEXT
from tests.field.rig import ALL, Engine, Server, begin, held, posted, until
from tests.field.stages import Following
from tests.field.wires import Speaker, sse
from tests.support.engine import agent
from tests.support.graphs import graph
from tests.support.servers import NEGOTIATE
from tests.support.vendor import Vendor


def test_cancel_01_stop_during_the_answer(served: Server, vendor: Vendor, speaker: Speaker) -> None:
    """The upstream is closed, the terminal says cancelled, what earlier calls used is recorded."""
    watched = served.watch(served.agent(speaker.model, tools=["boom"]))
    call = vendor.next_call()
    speaker.tool(call, 0, "c", "boom", "{}")
    speaker.finish(call, "tool_calls", (11, 7))
    call = vendor.next_call()
    for piece in ("one ", "two ", "three "):
        speaker.text(call, piece)
        watched.until(lambda v, piece=piece: v.get("chunk") == piece)
    served.stop(watched.run_id)
    assert call.left.wait(20)
    end = watched.end()
    assert (end["event"], end["code"], end["error"]) == ("error", "cancelled", STOPPED_TEXT)
    record = served.record(watched.run_id)
    assert (record["status"], record["cause"]) == ("cancelled", "stop_requested")
    assert record["partialText"] == {"agent_1": "one two three "}
    assert "output" not in record
    stated, stopped = record["modelCalls"]
    assert (stated["tokens"]["input"], stated["tokens"]["output"], stated["estimated"]) == (11, 7, False)
    assert (stopped["tokens"]["output"] > 0, stopped["estimated"]) == (True, True)
    assert record["usage"]["tokens"]["output"] == 7 + stopped["tokens"]["output"]


def test_cancel_01_usage_stated_before_the_stop_is_recorded(served: Server, vendor: Vendor) -> None:
    """What the stopped call had said of its usage by then counts, as the last word on it."""
    watched = served.watch(served.agent("openai-compatible/field"))
    call = vendor.next_call()
    for said in (1, 5):
        usage = {"prompt_tokens": 10, "completion_tokens": said}
        call.send_bytes(sse({"choices": [{"index": 0, "delta": {"content": "word "}}], "usage": usage}))
        watched.until(lambda v: v.get("chunk") == "word ")
    served.stop(watched.run_id)
    watched.end()
    tokens = served.record(watched.run_id)["usage"]["tokens"]
    assert (tokens["input"], tokens["output"]) == (10, 5)


@pytest.mark.parametrize("how", ["reset", "leave"])
def test_cancel_06_two_hundred_clients_leave_while_the_model_is_silent(
    served: Server, vendor: Vendor, how: str
) -> None:
    """Descriptors, runs and upstream connections are back where they were."""
    workflow = served.agent("openai-compatible/field")
    served.watch(served.agent("scripted/plain")).end()
    until(lambda: vendor.open == 0, "nothing is open")
    before = served.descriptors()
    clients = [begin(served, workflow) for _ in range(200)]
    calls = [vendor.next_call() for _ in clients]
    runs = [run_id for _, run_id in clients]
    for sock, _ in clients:
        if how == "reset":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()
    for call in calls:
        assert call.left.wait(20)
    until(lambda: served.descriptors() <= before, f"descriptors are back to {before}")
    for run_id in runs:
        record = served.ended(run_id)
        assert (record["status"], record["cause"]) == ("cancelled", "client_disconnected")


PHASES = ["before the model answers", "in the answer", "in a tool", "in the second block"]


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("reader", ["stream", "waiting", "stop twice"])
def test_cancel_07_stop_in_each_phase(
    served: Server, vendor: Vendor, desk: Vendor, speaker: Speaker, phase: str, reader: str
) -> None:
    """Status cancelled with an end, in the record and in the blocks; the tool is settled cancelled."""
    document = agent(speaker.model, tools=held(desk, "work"))
    document["blocks"].append({"id": "agent_2", "type": "agent", "config": {"model": speaker.model}})
    document["edges"].append({"source": "agent_1", "target": "agent_2"})
    workflow = served.deploy(document)
    task = gevent.spawn(_whole, served, workflow, reader != "waiting")
    call = vendor.next_call()
    (run_id,) = until(lambda: _running(served, workflow), "the run is stored")
    if phase == "in the answer":
        speaker.text(call, "some")
    elif phase == "in a tool":
        speaker.tool(call, 0, "c", "work", "{}")
        speaker.finish(call, "tool_calls")
        call = desk.next_call()
    elif phase == "in the second block":
        speaker.text(call, "first")
        speaker.finish(call)
        call = vendor.next_call()
    served.stop(run_id)
    if reader == "stop twice":
        assert served.call("POST", f"/api/runs/{run_id}/cancel", body={})[0] == 202
    assert call.left.wait(20)
    answer = task.get(timeout=20)
    assert STOPPED_TEXT in answer
    assert '"success":true' not in answer
    record = served.ended(run_id)
    assert (record["status"], record["cause"]) == ("cancelled", "stop_requested")
    statuses = [entry["status"] for entry in record["toolCalls"]["agent_1"]["list"]]
    assert statuses == (["cancelled"] if phase == "in a tool" else [])
    status, body = served.call("POST", f"/api/runs/{run_id}/cancel", body={})
    assert (status, body) == (202, {"outcome": "already_finished", "status": "cancelled"})


def _whole(served: Server, workflow: str, stream: bool) -> str:
    with served.studio.execute(workflow, ALL if stream else {}, NEGOTIATE) as answer:
        return answer.body().decode()


def _running(served: Server, workflow: str) -> list[str]:
    with closing(sqlite3.connect(served.studio.data / "studio.db")) as connection:
        rows = connection.execute("select id from runs where workflow_id = ?", (workflow,))
        return [row[0] for row in rows]


def test_cancel_08_leaving_at_the_first_tool_starts_no_other(
    served: Server, vendor: Vendor, desk: Vendor, speaker: Speaker
) -> None:
    """The client goes when the first call is announced: none of the three runs."""
    watched = served.watch(served.agent(speaker.model, tools=held(desk, "one", "two", "three")))
    call = vendor.next_call()
    speaker.tool(call, 0, "c0", "one", "{}")
    watched.until(lambda v: v.get("phase") == "start")
    watched.stream.close()
    assert call.left.wait(20)
    record = served.ended(watched.run_id)
    assert record["cause"] == "client_disconnected"
    assert [entry["status"] for entry in record["toolCalls"]["agent_1"]["list"]] == ["cancelled"]
    assert desk.calls.empty()


@pytest.mark.parametrize("at", [ev.ToolStarted, ev.TurnEnded])
def test_cancel_08_a_plan_that_is_already_here_does_not_start(engine: Engine, at: type) -> None:
    """The whole plan came in one piece; the run is cancelled at the first event of it: no tool runs."""
    live = engine.start(engine.tool("work"))

    class Leaver:
        def deliver(self, envelope: ev.Envelope) -> None:
            if isinstance(envelope.event, at):
                live.run.cancel("client_disconnected")

        def flush(self) -> None:
            pass

    live.run.attach(Leaver())
    call = live.call()
    pieces: list[bytes] = []
    call.send_bytes, send = pieces.append, call.send_bytes  # type: ignore[method-assign]
    call.end_body, end = lambda: None, call.end_body  # type: ignore[method-assign]
    for n in range(3):
        engine.speaker.tool(call, n, f"c{n}", "work", "{}")
    engine.speaker.finish(call, "tool_calls")
    send(b"".join(pieces))
    with suppress(OSError):  # its reader may have left with the plan
        end()
    live.end()
    assert engine.ran == []
    assert {status for _, status in live.ends} == {"cancelled"}
    assert isinstance(live.terminal, ev.RunCancelled)


def test_cancel_08_a_later_tool_of_a_batch_does_not_start(engine: Engine) -> None:
    """Cancelled by the first tool of three: the others never start."""
    holder: list[t.Any] = []

    def work(arguments: t.Any, context: t.Any) -> None:
        holder[0].run.cancel("client_disconnected")

    live = engine.start(engine.tool("work", work))
    holder.append(live)
    call = live.call()
    for n in range(3):
        engine.speaker.tool(call, n, f"c{n}", "work", f'{{"n":{n}}}')
    engine.speaker.finish(call, "tool_calls")
    live.end()
    assert engine.ran == [("work", {"n": 0})]
    assert isinstance(live.terminal, ev.RunCancelled)


def test_cancel_10_policy_continue(served: Server, vendor: Vendor, speaker: Speaker) -> None:
    """The client leaves, the run goes on, the full answer is stored."""
    watched = served.watch(served.agent(speaker.model, settings={"on_disconnect": "continue"}))
    call = vendor.next_call()
    speaker.text(call, "half ")
    watched.until(lambda v: v.get("chunk") == "half ")
    watched.stream.close()
    served.watch(served.agent("scripted/plain")).end()
    speaker.text(call, "and half")
    speaker.finish(call)
    record = served.ended(watched.run_id)
    assert (record["status"], record["output"]["content"]) == ("completed", "half and half")


@pytest.mark.parametrize("reader", ["stream", "waiting"])
def test_cancel_10_policy_cancel(served: Server, vendor: Vendor, speaker: Speaker, reader: str) -> None:
    """The last reader leaves, streaming or waiting: the run is cancelled and says why."""
    workflow = served.agent(speaker.model)
    sock = posted(served, workflow, ALL if reader == "stream" else {})
    call = vendor.next_call()
    (run_id,) = until(lambda: _running(served, workflow), "the run is stored")
    sock.close()
    assert call.left.wait(20)
    record = served.ended(run_id)
    assert (record["status"], record["cause"]) == ("cancelled", "client_disconnected")


def test_cancel_10_leaving_within_the_grace_time(served: Server, vendor: Vendor, speaker: Speaker) -> None:
    """The run is not cancelled while the grace time lasts, and is when it is over."""
    patient = served.agent(speaker.model, settings={"disconnect_grace_s": 60})
    watched = served.watch(patient)
    call = vendor.next_call()
    watched.stream.close()
    served.watch(served.agent("scripted/plain")).end()
    assert not call.left.is_set()
    speaker.text(call, "still here")
    speaker.finish(call)
    assert served.ended(watched.run_id)["output"]["content"] == "still here"
    watched = served.watch(served.agent(speaker.model, settings={"disconnect_grace_s": 0.2}))
    call = vendor.next_call()
    watched.stream.close()
    assert call.left.wait(20)
    assert served.ended(watched.run_id)["cause"] == "client_disconnected"


def in_child(served: Server, name: str, config: dict[str, t.Any], **settings: t.Any) -> str:
    """An agent in a child workflow, with one more block behind the child."""
    inner = graph([("inner", "agent", config)], "start > inner")
    served.store.workflows.save(inner, name, workflow_id=name)
    served.store.workflows.deploy(name)
    outer = graph(
        [("sub", "workflow", {"workflow": name}), ("z", "set", {"values": {"x": 1}})],
        "start > sub",
        "sub > z",
    )
    return served.deploy({**outer, "settings": settings})


def test_cancel_08_leaving_at_the_first_tool_of_a_child(served: Server, vendor: Vendor, desk: Vendor) -> None:
    """Run events: the reader goes at the first of three tools inside of a child: the others never start."""
    config = {"model": "openai-compatible/field", "tools": held(desk, "one", "two", "three")}
    reader = Following(served, in_child(served, "cancel-tools", config), message="x")
    call = vendor.next_call()
    call.send({"tool_calls": [{"index": 0, "id": "c0", "function": {"name": "one", "arguments": "{}"}}]})
    reader.until("workflow_node_start", node_id="sub/inner")
    reader.stream.close()
    assert call.left.wait(20)
    record = served.ended(reader.run_id)
    assert (record["status"], record["cause"]) == ("cancelled", "client_disconnected")
    assert desk.calls.empty()
    assert "z" not in {block["blockId"] for block in record["blocks"]}


def test_cancel_10_policy_continue_with_a_child_and_a_tool(
    served: Server, vendor: Vendor, desk: Vendor
) -> None:
    """The reader leaves while a child's tool runs; all of it goes on to its end."""
    config = {"model": "openai-compatible/field", "tools": held(desk, "one")}
    workflow = in_child(served, "cancel-continue", config, on_disconnect="continue")
    reader = Following(served, workflow, message="x")
    call = vendor.next_call()
    call.send({"tool_calls": [{"index": 0, "id": "c0", "function": {"name": "one", "arguments": "{}"}}]})
    call.finish("tool_calls")
    tool = desk.next_call()
    reader.stream.close()
    served.watch(served.agent("scripted/plain")).end()
    assert not tool.left.is_set()
    tool.answer(200, b'"fine"')
    call = vendor.next_call()
    assert call.body["messages"][-1]["content"] == "fine"
    call.text("done")
    call.finish()
    record = served.ended(reader.run_id)
    assert (record["status"], record["output"]) == ("completed", {"x": 1})
