"""STALL and LOAD: silence, idle limits, and work that may not hold up the others."""

from __future__ import annotations

import json
import os
import typing as t
from collections.abc import Iterator
from pathlib import Path

import gevent
import pytest

from app import events as ev
from tests.field.rig import Engine, Server, environ, held, opened, until
from tests.field.wires import WIRES, Speaker
from tests.support import leaks, sse
from tests.support.engine import agent, services
from tests.support.servers import NEGOTIATE, studio
from tests.support.vendor import Vendor


@pytest.fixture(scope="module")
def impatient(_vendor: Vendor, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with short limits: keepalives at 0.1 s, idle after 2 s, one call of Ollama at a time."""
    more = {"STUDIO_KEEPALIVE_S": "0.1", "STUDIO_IDLE_S": "2", "STUDIO_OLLAMA_MAX_CONCURRENCY": "1"}
    with (
        studio(tmp_path_factory.mktemp("impatient"), environ(_vendor, **more)) as made,
        opened(made) as server,
    ):
        assert made.key
        yield server


def test_stall_01_keepalives_in_every_phase(
    impatient: Server, vendor: Vendor, desk: Vendor, speaker: Speaker
) -> None:
    """While the model is awaited, before its first token, in a tool, and between tokens."""
    watched = impatient.watch(impatient.agent(speaker.model, tools=held(desk, "work"), idle_s=60))
    assert watched.stream.headers["X-Accel-Buffering"] == "no"
    assert "no-cache" in watched.stream.headers["Cache-Control"]
    call = vendor.next_call()

    def silence() -> None:
        for _ in range(3):
            watched.comment()

    silence()
    speaker.tool(call, 0, "c", "work", "{}")
    assert watched.next()["phase"] == "start"
    silence()
    speaker.finish(call, "tool_calls")
    held_call = desk.next_call()
    silence()
    held_call.answer(200, b'"ok"')
    assert watched.until(lambda v: v.get("phase") == "end")["status"] == "success"
    call = vendor.next_call()
    speaker.text(call, "half ")
    assert watched.until(lambda v: "chunk" in v)["chunk"] == "half "
    silence()
    speaker.text(call, "and half")
    speaker.finish(call)
    assert watched.end()["event"] == "final"
    assert watched.text == "half and half"
    assert set(watched.comments) == {"keepalive"}


def test_stall_01_keepalives_while_a_call_waits_for_its_turn(impatient: Server, vendor: Vendor) -> None:
    speaker = WIRES["ollama"]()
    workflow = impatient.agent(speaker.model, idle_s=60)
    first, second = impatient.watch(workflow), impatient.watch(workflow)
    call = vendor.next_call()
    for _ in range(3):
        first.comment()
        second.comment()
    assert vendor.calls.empty()  # one of them is not asked yet
    for each in (call, None):
        speaker.finish(each or vendor.next_call())
    assert {first.end()["event"], second.end()["event"]} == {"final"}


#: How each surface is asked for a run of one workflow, with which header.
SURFACES = {
    "agent events": ("/api/workflows/{id}/execute", {"stream": True, "input": "hi"}, NEGOTIATE),
    "run events": ("/api/workflows/{id}/runs", {"message": "hi"}, {}),
    "graph": (
        "/chat",
        {"workflow": "{id}", "messages": [{"role": "user", "content": "hi"}]},
        {"Accept": "text/event-stream"},
    ),
}


def surface(server: Server, name: str, workflow: str) -> sse.EventStream:
    path, body, headers = SURFACES[name]
    filled = json.loads(json.dumps(body).replace("{id}", workflow))
    key = {"X-API-Key": server.studio.key}
    return sse.post(server.studio.port, path.format(id=workflow), filled, {**key, **headers})


def silence(frames: Iterator[sse.Frame]) -> list[sse.Frame]:
    """Read on until three comments come one after another; what was told before."""
    told: list[sse.Frame] = []
    comments = 0
    while comments < 3:
        frame = next(frames)
        comments = comments + 1 if frame.comment == "keepalive" else 0
        told += [frame] if frame.comment is None else []
    return told


def decided(server: Server, run_id: str, stream: bool = False) -> sse.EventStream:
    """Approve what a run waits for."""
    headers = {"X-API-Key": server.studio.key, **({"Accept": "text/event-stream"} if stream else {})}
    return sse.post(server.studio.port, f"/api/runs/{run_id}/resume", {"decision": "approve"}, headers)


@pytest.mark.parametrize("name", SURFACES)
def test_stall_01_keepalives_while_a_person_is_waited_for(
    impatient: Server, vendor: Vendor, name: str
) -> None:
    """A branch waits for a person, the other one for a silent model: on every surface, and so does who attaches to the
    paused run, and whoever reads on when it has been answered and its model is silent again.
    """
    speaker = WIRES["chat"]()
    document = agent(speaker.model, idle_s=60)
    document["blocks"] += [
        {"id": "asked", "type": "approval", "config": {"prompt": "Go on?"}},
        {"id": "after", "type": "agent", "config": {"model": speaker.model, "prompt": "x", "idle_s": 60}},
    ]
    document["edges"] += [
        {"source": "start", "target": "asked"},
        {"source": "asked", "source_handle": "approved", "target": "after"},
    ]
    with surface(impatient, name, impatient.deploy(document)) as stream:
        assert stream.status == 200, stream.body()
        run_id = stream.headers["X-Run-Id"]
        frames = iter(stream)
        call = vendor.next_call()
        until(lambda: impatient.store.decisions.open_of_run(run_id), "the person is asked")
        told = silence(frames)
        speaker.text(call, "Meanwhile.")
        speaker.finish(call)
        told += [frame for frame in frames if frame.comment is None]
    last = [frame.id for frame in told if frame.id is not None][-1]
    path = f"/api/runs/{run_id}/events"
    with sse.get(
        impatient.studio.port, path, {"X-API-Key": impatient.studio.key, "Last-Event-ID": last}
    ) as held:
        assert held.status == 200, held.body()
        assert silence(iter(held)) == []
    with decided(impatient, run_id, stream=True) as resumed:
        assert resumed.status == 200, resumed.body()
        call = vendor.next_call()
        frames = iter(resumed)
        silence(frames)
        speaker.text(call, "Done.")
        speaker.finish(call)
        assert [frame for frame in frames if frame.comment is None]
    assert impatient.ended(run_id)["status"] == "completed"


@pytest.mark.parametrize("last", [True, False])
def test_stall_03_each_delta_arrives_before_the_next_is_sent(
    served: Server, vendor: Vendor, speaker: Speaker, last: bool
) -> None:
    """Also when the answering block is not the last one."""
    document = agent(speaker.model)
    if not last:
        document["blocks"].append(
            {"id": "out", "type": "response", "config": {"body": "{{ blocks.agent_1.content }}"}}
        )
        document["edges"].append({"source": "agent_1", "target": "out"})
    watched = served.watch(served.deploy(document))
    call = vendor.next_call()
    for n in range(10):
        speaker.text(call, f"{n} ")
        assert watched.next()["chunk"] == f"{n} "
    speaker.finish(call)
    watched.end()


def test_stall_04_a_silent_vendor_is_given_up(impatient: Server, vendor: Vendor, speaker: Speaker) -> None:
    """Pings are no progress: upstream closed, ``provider_idle``, the partial text kept, nothing left."""
    impatient.watch(impatient.agent("scripted/echo")).end()
    before = impatient.descriptors()
    watched = impatient.watch(impatient.agent(speaker.model))
    call = vendor.next_call()
    speaker.text(call, "one ")
    speaker.text(call, "two ")

    def ping() -> None:
        while True:
            if call.content_type == "text/event-stream":
                call.send_bytes(b": ping\n\n")
            if speaker.name == "anthropic_messages":
                call.send_bytes(b'event: ping\ndata: {"type": "ping"}\n\n')
            gevent.sleep(0.1)

    pinging = gevent.spawn(ping)
    try:
        end = watched.end()
    finally:
        pinging.kill()
    assert end["code"] == "provider_idle"
    assert call.left.wait(20)
    record = impatient.record(watched.run_id)
    assert (record["status"], record["cause"]) == ("failed", "provider_idle")
    assert record["partialText"] == {"agent_1": "one two "}
    until(lambda: impatient.descriptors() <= before, "descriptors are back")


def test_stall_04_nothing_leaks(
    speaker: Speaker, vendor: Vendor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same in this process: greenlets and sockets are back at the baseline."""
    for name, value in environ(vendor).items():
        monkeypatch.setenv(name, value)
    with services(tmp_path) as made:
        engine = Engine(made, vendor, speaker)
        engine.run(engine.answer())
        until(lambda: vendor.open == 0, "the first call is closed")
        before = leaks.take()
        live = engine.start(idle_s=0.5, retries=0)
        call = live.call()
        speaker.text(call, "some")
        live.end()
        assert live.terminal.code == "provider_idle"
        until(lambda: vendor.open == 0, "the silent call is closed")
        live.calls.clear()
        del call
        assert leaks.wait_for_none_since(before) == []


def test_stall_06_a_slow_but_living_stream_is_not_idle(
    impatient: Server, vendor: Vendor, speaker: Speaker
) -> None:
    """In all it takes longer than the idle limit; a chunk comes often enough."""
    watched = impatient.watch(impatient.agent(speaker.model))
    call = vendor.next_call()
    for n in range(15):
        gevent.sleep(0.2)
        speaker.text(call, f"{n} ")
    speaker.finish(call)
    assert watched.end()["event"] == "final"


def test_stall_06_the_overall_cap_says_that_it_was_it(
    impatient: Server, vendor: Vendor, speaker: Speaker
) -> None:
    """``timed_out``, not idle."""
    watched = impatient.watch(impatient.agent(speaker.model), timeoutSeconds=1)
    call = vendor.next_call()
    speaker.text(call, "some")
    end = watched.end()
    assert (end["code"], end["error"]) == ("timed_out", ev.TIMEOUT_TEXT)
    assert call.left.wait(20)
    record = impatient.record(watched.run_id)
    assert (record["status"], record["cause"]) == ("timed_out", "execution_timeout")


# -- work that may not hold up the others -------------------------------------------------------


@pytest.mark.parametrize("tool", ["fifo", "spin"])
def test_stall_07_and_load_07_a_thread_that_blocks_or_computes(
    served: Server, vendor: Vendor, speaker: Speaker, tool: str, tmp_path: Path
) -> None:
    """While a plugin's tool waits in C, or computes, another stream runs from its start to its end, live."""
    path = tmp_path / "release"
    if tool == "fifo":
        os.mkfifo(path)
    busy = served.watch(served.agent(speaker.model, tools=[tool]))
    call = vendor.next_call()
    speaker.tool(call, 0, "c", tool, f'{{"path":"{path}"}}')
    speaker.finish(call, "tool_calls")
    busy.until(lambda v: v.get("phase") == "start")
    worker = served.worker
    other = served.watch(served.agent(speaker.model))
    call = vendor.next_call()
    for n in range(20):
        speaker.text(call, f"{n} ")
        assert other.next()["chunk"] == f"{n} "
    speaker.finish(call)
    assert other.end()["event"] == "final"
    assert busy.of("tool")[-1]["phase"] == "start"
    release(path)
    call = vendor.next_call()
    speaker.text(call, "released")
    speaker.finish(call)
    assert busy.end()["event"] == "final"
    assert served.worker == worker


def release(path: Path) -> None:
    """Let the tool that waits for ``path`` go on."""
    with open(path, "w") as pipe:
        pipe.write("released")


def test_load_07_stop_reaches_a_run_whose_tool_blocks(served: Server, vendor: Vendor, tmp_path: Path) -> None:
    """The run ends at once; the thread's late result is dropped."""
    path = tmp_path / "release"
    os.mkfifo(path)
    watched = served.watch(served.agent("openai-compatible/field", tools=["fifo"]))
    call = vendor.next_call()
    function: dict[str, t.Any] = {"name": "fifo", "arguments": f'{{"path":"{path}"}}'}
    call.send({"tool_calls": [{"index": 0, "id": "c", "function": function}]})
    call.finish("tool_calls")
    watched.until(lambda v: v.get("phase") == "start")
    served.stop(watched.run_id)
    assert watched.end()["code"] == "cancelled"
    assert served.ended(watched.run_id)["status"] == "cancelled"
    release(path)
    served.watch(served.agent("scripted/plain")).end()
