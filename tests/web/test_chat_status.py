"""That something goes on, told to visitors of chats in silence: by the one timer of all streams, between frames."""

from __future__ import annotations

import typing as t

import pytest

from app import events as ev
from app.clock import SteppingClock
from app.engine.emitter import Emitter
from app.engine.run_log import RunLog
from app.state import RunState
from app.streams import sse
from app.streams.agent_events import AgentEvents, AgentEventsOptions
from app.streams.rights import Rights
from app.web.held import PausedRun
from app.web.subscriber import Subscriber
from app.web.sweep import StreamService

WORKING = b'data: {"event":"status","state":"working"}\n\n'


class Client:
    """A transport whose client takes everything at once, unless it is ``slow``."""

    def __init__(self, slow: bool = False) -> None:
        self.slow = slow
        self.pending = 0
        self.progressed = True
        self.got: list[bytes] = []

    def write(self, data: bytes, last: bool) -> None:
        self.got.append(data)
        self.pending += len(data) if self.slow else 0

    def abort(self) -> None:
        pass


class Run:
    """A run that says what it is told to."""

    def __init__(self) -> None:
        self.log = RunLog()
        self.emitter = Emitter(SteppingClock(), RunState(), self.log)

    def sole(self, reader: object) -> bool:
        return True

    def follow(self, reader: t.Any) -> None:
        self.emitter.attach(reader)

    def reader_gone(self, reader: t.Any) -> None:
        self.emitter.detach(reader)


def reading(
    service: StreamService, client: Client, run: t.Any, *, negotiated: bool = True, working: bool = True
) -> Subscriber:
    options = AgentEventsOptions(
        "run_1", negotiated, False, Rights(public=True), None, ("agent_1",), working=working
    )
    reader = Subscriber(AgentEvents(options), client, service)
    if isinstance(run, Run):
        run.follow(reader)
    reader.bind(run)
    return reader


def sweeps(service: StreamService, reader: Subscriber, seconds: float) -> None:
    for _ in range(round(seconds / service.interval)):
        service._visit(reader)


@pytest.mark.parametrize("keepalive_s", [15.0, 5.0, 60.0])
def test_it_is_told_every_five_seconds_of_silence(keepalive_s: float) -> None:
    service, client = StreamService(keepalive_s), Client()
    reader = reading(service, client, Run())
    sweeps(service, reader, 5)
    assert client.got == []
    sweeps(service, reader, 1)
    assert client.got == [WORKING]
    sweeps(service, reader, 18)
    assert client.got == [WORKING] * 4


def test_what_is_said_breaks_the_silence() -> None:
    service, client, run = StreamService(), Client(), Run()
    run.emitter.emit(ev.BlockStarted("agent_1", "agent", "Agent 1", 1))
    reader = reading(service, client, run)
    for _ in range(3):
        sweeps(service, reader, 5)
        run.emitter.emit(ev.TextDelta("agent_1", 0, "Hi", "final"))
        run.emitter.flush()
    assert len(client.got) == 3
    assert WORKING not in client.got
    sweeps(service, reader, 6)
    assert client.got[3:] == [WORKING]


def test_frequent_keepalives_do_not_take_its_place() -> None:
    """A short STUDIO_KEEPALIVE_S: comments come between, and it still comes every five seconds and no oftener."""
    service, client = StreamService(1.0), Client()
    reader = reading(service, client, Run())
    sweeps(service, reader, 10.5 + 2 * service.interval)
    assert client.got.count(WORKING) == 2
    assert client.got.count(sse.KEEPALIVE) == len(client.got) - 2 > 4


@pytest.mark.parametrize("more", [{"negotiated": False}, {"working": False}], ids=["no-header", "no-chat"])
def test_others_get_comments_alone(more: dict[str, bool]) -> None:
    service, client = StreamService(), Client()
    reader = reading(service, client, Run(), **more)
    sweeps(service, reader, 40)
    assert set(client.got) == {sse.KEEPALIVE}


def test_nobody_works_while_a_run_waits_for_people() -> None:
    service, client = StreamService(), Client()
    reader = reading(service, client, PausedRun("run_1", RunLog(), t.cast("t.Any", None)))
    sweeps(service, reader, 40)
    assert set(client.got) == {sse.KEEPALIVE}


def test_a_client_that_has_not_read_the_last_is_told_nothing_more() -> None:
    service, client = StreamService(), Client(slow=True)
    reader = reading(service, client, Run())
    sweeps(service, reader, 20)
    assert client.got == [WORKING]
