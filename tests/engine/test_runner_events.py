"""Whatever a runner reports of a node, in whatever order: the stream's rules hold, and what stands is the content."""

from __future__ import annotations

import types
import typing as t
from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from app import events as ev
from app.clock import SteppingClock
from app.engine.emitter import Emitter
from app.engine.node_runs import NodeExecution
from app.engine.run_log import RunLog
from app.state import RunState
from app.streams.agent_events import AgentEvents, AgentEventsOptions
from app.streams.rights import Rights
from app.workflows.runner_graph import compile_runner
from plugins.spec import RunnerEdge, RunnerGraph, RunnerNode, RunnerSettings
from tests.support import sse

MESSAGES, CALLS = st.sampled_from("abc"), st.sampled_from(["c1", "c2"])
REPORTS = st.one_of(
    st.tuples(st.just("text"), MESSAGES, st.sampled_from(["", "x", "yy "])),
    st.tuples(st.just("thinking"), MESSAGES, st.sampled_from(["", "hm"]), st.booleans()),
    st.tuples(st.just("ended"), MESSAGES, st.booleans()),
    st.tuples(st.just("tool_started"), CALLS, st.just("tool"), st.just({})),
    st.tuples(st.just("tool_finished"), CALLS, st.sampled_from(["success", "error"]), st.just("done")),
    st.tuples(st.just("usage"), st.just("m"), st.just({"input": 1})),
)
ENDS = st.sampled_from(["finished", "failed", "again"])


class Runner:
    """Two nodes that lead to each other."""

    id = "test:two"
    title = "Two"
    settings = RunnerSettings()

    def topology(self) -> RunnerGraph:
        nodes = [RunnerNode("one", "One", ends=True, answers=True), RunnerNode("two", "Two", repeats=True)]
        return RunnerGraph(nodes, [RunnerEdge("one", "two")], ["one"])

    def run(self, context: t.Any) -> Mapping[str, t.Any]:
        raise AssertionError


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.lists(REPORTS, max_size=12), ENDS), min_size=1, max_size=3))
def test_the_rules_hold(story: list[tuple[list[tuple[t.Any, ...]], str]]) -> None:
    workflow = compile_runner(Runner())
    clock, state, log = SteppingClock(), RunState(), RunLog()
    emitter = Emitter(clock, state, log)
    run: t.Any = types.SimpleNamespace(
        emitter=emitter, state=state, services=types.SimpleNamespace(clock=clock)
    )
    emitter.emit(ev.RunStarted("run_1", "test:two", workflow.infos(), []))
    for reports, end in story:
        node = NodeExecution(run, workflow.blocks["one"], "one")
        node.begin()
        for name, *arguments in reports:
            getattr(node, name)(*arguments)
            if end == "again":  # its process is gone, and another one runs it from its beginning
                node = NodeExecution(run, workflow.blocks["one"], "one")
                node.begin()
        if end == "failed":
            node.failed("node_failed", "It failed.")
        else:
            node.finished({"of": "state"})
        assert not node.open
        node.text("late", "nobody hears it")
    emitter.emit(ev.RunCompleted({}, state.outputs(), state.tool_calls(), {}))
    _content_is_what_stands(log, state)


def _content_is_what_stands(log: RunLog, state: RunState) -> None:
    options = AgentEventsOptions("run_1", True, False, Rights(True, True), answer_blocks=("one",))
    projection = AgentEvents(options)
    frames = sse.parse(b"".join(projection.frames(envelope) for envelope in log))
    block = state.blocks["one"]
    if block.status == "executed":
        assert sse.standing(frames[:-1]).get("one", "") == (block.output or {}).get("content", "")
    calls = [call for call in block.calls.values()]
    assert all(call.status is not None for call in calls)
