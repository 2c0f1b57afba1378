"""STALL and LOAD: silence, idle limits, and work that may not hold up the others."""

from __future__ import annotations

import os
import typing as t
from collections.abc import Iterator
from pathlib import Path

import gevent
import pytest

from app import events as ev
from tests.field.rig import Engine, Server, environ, held, opened, until
from tests.field.wires import Speaker
from tests.support import leaks
from tests.support.engine import agent, services
from tests.support.servers import studio
from tests.support.vendor import Vendor


@pytest.fixture(scope="module")
def impatient(_vendor: Vendor, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with short limits: keepalives at 0.1 s, idle after 2 s."""
    more = {"STUDIO_KEEPALIVE_S": "0.1", "STUDIO_IDLE_S": "2"}
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
        live = engine.start(idle_s=0.2)
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
