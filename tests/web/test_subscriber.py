"""Readers of one run, slow and fast, early and late: nothing is missed, nothing comes twice."""

from __future__ import annotations

import typing as t

import gevent
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app import events as ev
from app.clock import SteppingClock
from app.engine.emitter import Emitter
from app.engine.gate import FlowGate
from app.engine.readers import Readers
from app.engine.run_log import RunLog
from app.state import RunState
from app.streams.agent_events import AgentEvents, AgentEventsOptions
from app.streams.rights import Rights
from app.web import subscriber as rooms
from app.web.subscriber import Subscriber
from app.web.sweep import StreamService
from tests.streams.generate import Scenario, runs
from tests.streams.test_replay import frames, texts

HIGH, LOW = 150, 40
RIGHTS = Rights(True, True, True)
_examples = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


@pytest.fixture(autouse=True)
def _small_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rooms, "HIGH_WATER", HIGH)
    monkeypatch.setattr(rooms, "LOW_WATER", LOW)


class Client:
    """A transport whose client takes bytes when it is told to.

    :ivar most: most bytes that ever waited, beside what one write brought.
    """

    def __init__(self) -> None:
        self.pending = 0
        self.progressed = False
        self.reader: t.Any = None
        self.waiting = bytearray()
        self.got = bytearray()
        self.most = 0
        self.over = False
        self.cut = False

    def write(self, data: bytes, last: bool) -> None:
        assert not self.over
        self.most = max(self.most, self.pending)
        self.waiting += data
        self.pending = len(self.waiting)
        self.over = last

    def abort(self) -> None:
        self.cut = True

    def take(self) -> None:
        self.got += self.waiting
        self.waiting.clear()
        self.pending = 0
        if self.over:
            self.reader.finished()
        else:
            self.reader.relieved()


class Play:
    """A run that says what it is told to, with real parts: emitter, log, gate, readers."""

    def __init__(self, run: Scenario, kept: int = 100_000) -> None:
        self.scenario = run
        self.log = RunLog(max_count=kept)
        self.gate = FlowGate()
        self.emitter = Emitter(SteppingClock(), RunState(), self.log)
        self.readers = Readers("continue", 0, lambda: None)
        self.service = StreamService()
        self.starter: t.Any = None
        self.left = list(run.events)

    def sole(self, reader: object) -> bool:
        return reader is self.starter and self.readers.only(reader)

    def follow(self, reader: t.Any) -> None:
        self.emitter.attach(reader)

    def unfollow(self, reader: t.Any) -> None:
        self.emitter.detach(reader)

    def reader_gone(self, reader: t.Any) -> None:
        self.emitter.detach(reader)
        self.readers.remove(reader)

    def join(self, after: int | None) -> Client:
        """A reader from the start, or one that attaches."""
        options = AgentEventsOptions("run_1", True, False, RIGHTS, None, self.scenario.agents)
        client = Client()
        client.reader = Subscriber(AgentEvents(options), client, self.service, after)
        if after is None:
            self.starter = client.reader
            self.emitter.attach(client.reader)
        self.readers.add(client.reader)
        if len(self.readers) > 1:
            self.gate.open()
        client.reader.bind(self)
        return client

    def say(self, count: int) -> None:
        for event in self.left[:count]:
            self.emitter.emit(event)
        del self.left[:count]
        self.emitter.flush()

    def finish(self, clients: list[Client]) -> None:
        """Say the rest; everybody reads to the end."""
        self.say(len(self.left))
        while not all(client.reader.closed for client in clients):
            for client in clients:
                client.take()
            gevent.sleep(0)

    def live(self) -> list[bytes]:
        """What each envelope gives a reader who was there from the start."""
        options = AgentEventsOptions("run_1", True, False, RIGHTS, None, self.scenario.agents)
        projection = AgentEvents(options)
        return [projection.frames(envelope) for envelope in self.log.after(0, 100_000)]


def play(drawn: st.DataObject, played: Play) -> list[tuple[int, Client]]:
    """Anything in any order: the run speaks, readers come, take bytes, or let the hub turn."""
    clients = [(0, played.join(None))]
    for step in drawn.draw(st.lists(st.sampled_from("ssssjtth"), max_size=30)):
        if step == "s":
            played.say(drawn.draw(st.integers(1, 9)))
        elif step == "j":
            # Who has all of a run that is over is told so, and gets no stream.
            after = drawn.draw(st.integers(0, played.log.last - (not played.left)))
            clients.append((after, played.join(after)))
        elif step == "t":
            drawn.draw(st.sampled_from(clients))[1].take()
        else:
            gevent.sleep(0)
    played.finish([client for _, client in clients])
    return clients


@_examples
@given(runs(), st.data())
def test_every_reader_gets_all_of_it_once(run: Scenario, drawn: st.DataObject) -> None:
    played = Play(run)
    clients = play(drawn, played)
    said = played.live()
    for after, client in clients:
        assert bytes(client.got) == b"".join(said[after:])
        assert client.reader.closed
        assert not client.cut
    assert len(played.service) == 0
    assert not played.gate.closed


@_examples
@given(runs(), st.data(), st.integers(1, 40))
def test_whoever_is_evicted_ends_up_with_what_stands(run: Scenario, drawn: st.DataObject, kept: int) -> None:
    played = Play(run, kept)
    clients = play(drawn, played)
    whole = Play(run)
    first = whole.join(None)
    whole.finish([first])
    expected = texts(frames(bytes(first.got)))
    for after, client in clients:
        told = frames(bytes(client.got))
        assert told[-1][1] == "[DONE]"
        ids = [int(str(id).partition(":")[2]) for id, _ in told if id is not None]
        assert ids == sorted(set(ids))
        assert ids[0] > after
        if after == 0 or any(isinstance(v, dict) and v.get("event") == "gap" for _, v in told):
            assert texts(told) == expected


@_examples
@given(runs(), st.data())
def test_what_waits_for_a_reader_is_bounded(run: Scenario, drawn: st.DataObject) -> None:
    """Whoever may not slow the run gets no write while too much waits."""
    played = Play(run)
    clients = [played.join(None), played.join(0)]
    while played.left:
        played.say(drawn.draw(st.integers(1, 5)))
        gevent.sleep(0)
        assert not played.gate.closed
    for client in clients:
        assert client.most <= HIGH
    played.finish(clients)


def test_the_starter_alone_slows_the_run_and_no_longer_with_company() -> None:
    run = _long()
    played = Play(run)
    first = played.join(None)
    played.say(40)
    assert played.gate.closed
    second = played.join(0)
    assert not played.gate.closed
    for _ in range(3):
        played.say(40)
        assert not played.gate.closed
    second.reader.lost()
    first.take()
    gevent.sleep(0)
    assert played.gate.closed  # it is behind, and alone again
    played.gate.open()
    played.finish([first])
    assert bytes(first.got) == b"".join(played.live())


def test_a_projection_that_fails_in_the_log_cuts_its_reader_only() -> None:
    played = Play(_long())
    played.say(10)

    class Failing:
        done = False

        def frames(self, envelope: t.Any) -> bytes:
            raise RuntimeError("a projection with a fault")

    client = Client()
    client.reader = Subscriber(t.cast("t.Any", Failing()), client, played.service, 0)
    played.readers.add(client.reader)
    client.reader.bind(played)
    other = played.join(0)
    gevent.sleep(0)
    assert client.cut
    assert client.reader.closed
    played.finish([other])
    assert bytes(other.got) == b"".join(played.live())


def _long() -> Scenario:
    events: list[ev.RunEvent] = [
        ev.RunStarted("run_1", "wf_1", [ev.BlockInfo("agent_1", "agent", "Agent 1")], []),
        ev.BlockStarted("agent_1", "agent", "Agent 1"),
        *(ev.TextDelta("agent_1", 0, f"{n} ", True) for n in range(200)),
        ev.TurnEnded("agent_1", 0, "final"),
        ev.BlockFinished("agent_1", "executed", {"content": "x"}),
        ev.RunCompleted(None, {}, {}, {}),
    ]
    made = [ev.Envelope(seq, seq, event) for seq, event in enumerate(events, 1)]
    return Scenario(made, ("agent_1",), frozenset())
