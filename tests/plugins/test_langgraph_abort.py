"""A graph that is cancelled ends at once, wherever its nodes stand, and leaves nothing behind."""

from __future__ import annotations

import socket
import time
import typing as t
from collections.abc import Callable, Iterator
from pathlib import Path

import gevent
import pytest
from gevent.event import Event

pytest.importorskip("langgraph", reason="needs the extra langgraph, which make test installs")

from langgraph.graph import START, StateGraph
from langgraph.types import RetryPolicy

from app import events as ev
from app.engine import scope
from tests.support import graphs_of_langgraph as graphs
from tests.support.langgraph_runs import Served, Told, outline, serve
from tests.support.servers import wait_until

pytestmark = pytest.mark.leak_check


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    with serve(tmp_path) as make:
        yield make


class Place:
    """Where a node stands: ``reached`` is set there."""

    def __init__(self) -> None:
        self.reached = Event()
        self._ends: list[socket.socket] = []

    def sleep(self) -> None:
        """In a sleep."""
        self.reached.set()
        time.sleep(1000)

    def read(self) -> None:
        """Reading from a server that says nothing."""
        ours, theirs = socket.socketpair()
        self._ends.append(theirs)
        with ours:
            self.reached.set()
            ours.recv(1)

    def close(self) -> None:
        """What the test itself holds."""
        for each in self._ends:
            each.close()


def _node(place: Place, how: str) -> t.Any:
    def blocked(state: t.Any) -> dict[str, t.Any]:
        getattr(place, how)()
        return {}

    return graphs.nodes(blocked)


def _model(place: Place, how: str) -> t.Any:
    chat = graphs.Chat(scripts=[graphs.words("one two three")])

    def hold() -> None:
        if len(chat.calls) and place.reached.is_set():
            return
        getattr(place, how)()

    chat.hold = hold
    return graphs.answering(chat)


def _tool(place: Place, how: str) -> t.Any:
    from langchain_core.tools import tool

    @tool
    def slow() -> str:
        """Take for ever."""
        getattr(place, how)()
        return ""

    return graphs.with_tools(graphs.Chat(scripts=[graphs.calls(("c1", "slow", "{}"))]), [slow])


def _nested(place: Place, how: str) -> t.Any:
    inner = _node(place, how)

    def around(state: t.Any) -> dict[str, t.Any]:
        return dict(inner.invoke(state))

    return graphs.nodes(around)


def _beside(place: Place, how: str) -> t.Any:
    def quick(state: t.Any) -> dict[str, t.Any]:
        return {}

    def blocked(state: t.Any) -> dict[str, t.Any]:
        getattr(place, how)()
        return {}

    return graphs.nodes(quick, graphs.sleeping, blocked, together=True)


def _branch(place: Place, how: str) -> t.Any:
    graph = StateGraph(graphs.State)

    def way(state: t.Any) -> str:
        getattr(place, how)()
        return "last"

    graph.add_node("first", lambda state: {})
    graph.add_node("last", lambda state: {})
    graph.add_edge(START, "first")
    graph.add_conditional_edges("first", way, ["last"])
    return graph.compile()


def _sent(place: Place, how: str) -> t.Any:
    return graphs.fanned(lambda given: getattr(place, how)() or {}, many=20)


def _few_at_once(place: Place, how: str) -> t.Any:
    from plugins.langgraph_app import GraphApp

    return GraphApp(_sent(place, how), config={"max_concurrency": 2})


def _retrying(place: Place, how: str) -> t.Any:
    graph = StateGraph(graphs.State)

    def shaky(state: t.Any) -> dict[str, t.Any]:
        place.reached.set()
        raise ConnectionError("no")

    graph.add_node("shaky", shaky, retry_policy=RetryPolicy(initial_interval=1000, max_attempts=9))
    graph.add_edge(START, "shaky")
    return graph.compile()


GRAPHS = [_node, _model, _tool, _nested, _beside, _branch, _sent, _few_at_once, _retrying]


@pytest.mark.parametrize("how", ["sleep", "read"])
def test_a_stop_ends_it_wherever_it_stands(
    served: Callable[..., Served], how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What does not end by itself is waited for, and fails below.
    monkeypatch.setattr(scope, "CLEANUP_S", 15.0)
    for make in GRAPHS:
        place = Place()
        told = served(make(place, how)).start("?")
        assert place.reached.wait(10), outline(told)
        gevent.sleep(0.01)  # it stands there now
        told.run.cancel("stop_requested")
        assert told.run.done.wait(10), f"{make.__name__}: usually it takes less than 10 ms"
        place.close()
        _ended_in_order(told)
        assert {event.status for event in told.of(ev.ToolFinished)} <= {"cancelled"}
        assert told.run.scope.abandoned == 0


def _ended_in_order(told: Told) -> None:
    assert outline(told)[-1] == "RunCancelled stop_requested"
    started = [event.block for event in told.of(ev.BlockStarted)]
    finished = [event.block for event in told.of(ev.BlockFinished)]
    assert sorted(started) == sorted(finished)
    calls = [event.id for event in told.of(ev.ToolStarted)]
    assert [event.id for event in told.of(ev.ToolFinished)] == calls


def test_a_timeout_ends_it_as_well(served: Callable[..., Served]) -> None:
    told = served(graphs.nodes(graphs.sleeping)).start("?")
    wait_until(lambda: "BlockStarted sleeping" in outline(told), "it sleeps")
    told.run.scope.deadline(0.01, "execution_timeout")
    assert told.run.done.wait(10)
    assert outline(told)[-2:] == ["BlockFinished sleeping failed", "RunTimedOut"]


def test_a_node_that_will_not_end_keeps_no_run_from_ending(
    served: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scope, "CLEANUP_S", 0.05)
    reached, let_go = Event(), Event()

    def stubborn(state: t.Any) -> dict[str, t.Any]:
        while not let_go.is_set():
            try:
                reached.set()
                let_go.wait()
            except BaseException:
                pass
        return {}

    told = served(graphs.nodes(stubborn)).start("?")
    assert reached.wait(10)
    told.run.cancel("stop_requested")
    assert told.run.done.wait(10)
    before = len(told.recorder.envelopes)
    let_go.set()
    gevent.sleep(0.05)
    assert len(told.recorder.envelopes) == before  # what it comes to is told to nobody
    _ended_in_order(told)


def test_nothing_starts_after_a_stop(served: Callable[..., Served]) -> None:
    """A node that swallows the interruption is stopped where it begins something else."""
    reached, called = Event(), []
    chat = graphs.Chat(scripts=[graphs.words("no")])

    def swallowing(state: t.Any) -> dict[str, t.Any]:
        try:
            reached.set()
            time.sleep(1000)
        except BaseException:
            called.append("asked")
            chat.invoke("one more thing")
        return {}

    told = served(graphs.nodes(swallowing)).start("?")
    assert reached.wait(10)
    told.run.cancel("stop_requested")
    assert told.run.done.wait(10)
    assert called == ["asked"]
    assert chat.calls == []


def test_a_stop_at_every_switch(served: Callable[..., Served]) -> None:
    """Cancelled after 0, 3, 6, … turns of the hub, until one ends before: one end, in order, nothing left."""
    for turns in range(0, 300, 3):
        told = served(graphs.with_tools(_talker())).start("?")
        for _ in range(turns):
            gevent.sleep(0)
        told.run.cancel("stop_requested")
        assert told.run.done.wait(10), turns
        terminals = [e for e in told.recorder.envelopes if isinstance(e.event, ev.Terminal)]
        assert len(terminals) == 1
        if isinstance(terminals[0].event, ev.RunCompleted):
            break
        _ended_in_order(told)
    else:
        pytest.fail("no run ended before it was cancelled")
    assert turns > 9, "it has to be cancelled in between, too"


def _talker() -> graphs.Chat:
    return graphs.Chat(
        scripts=[
            [*graphs.words("a b c"), *graphs.calls(("c1", "add", '{"a": 1, "b": 2}'))],
            graphs.words("d e f"),
        ],
        hold=lambda: gevent.sleep(0),
    )
