"""TERMINAL: exactly one end, last, whatever happens and wherever one asks."""

from __future__ import annotations

import gc
import json
import threading
import typing as t
from dataclasses import replace

import gevent
import gevent.pool
import pytest
import yaml

from app import events as ev
from tests.field.rig import ALL, Engine, Live, Server, Watched, until
from tests.field.wires import Speaker
from tests.support import sse
from tests.support.engine import agent, start
from tests.support.servers import NEGOTIATE
from tests.support.vendor import Call, Vendor


def test_terminal_01_five_hundred_short_runs_of_every_outcome(served: Server) -> None:
    """20 at a time: each stream's last event is its one terminal, then the body is over."""
    kinds = {
        "completed": served.agent("scripted/plain"),
        "failed": served.agent("scripted/broken"),
        "cancelled": served.agent("scripted/silent"),
        "timed_out": served.agent("scripted/silent", settings={"timeout_s": 1}),
        "tool": served.agent("scripted/failing-tool", tools=["boom"]),
    }
    wanted = ["completed"] * 250 + ["failed"] * 100 + ["cancelled"] * 60 + ["timed_out"] * 10 + ["tool"] * 80
    pool = gevent.pool.Pool(20)

    def one(kind: str) -> tuple[str, dict[str, t.Any]]:
        watched = served.watch(kinds[kind])
        if kind == "cancelled":
            served.stop(watched.run_id)
        return watched.run_id, watched.end()

    for kind, (run_id, end) in zip(wanted, pool.imap(one, wanted), strict=True):
        if kind in ("completed", "tool"):
            assert (end["event"], end["data"]["runId"], end["data"]["status"]) == (
                "final",
                run_id,
                "completed",
            )
        else:
            code = {"failed": "provider_overloaded"}.get(kind, kind)
            assert (end["event"], end["code"]) == ("error", code)


def refused(served: Server, path: str, body: t.Any) -> tuple[int, dict[str, t.Any]]:
    stream = sse.post(served.studio.port, path, body, {"X-API-Key": served.studio.key, **NEGOTIATE})
    assert stream.headers["Content-Type"] == "application/json"
    answer = json.loads(stream.body())
    stream.close()
    return stream.status, answer["error"]


def test_terminal_03_what_does_not_exist_is_refused_before_the_stream(served: Server) -> None:
    """An unknown and an undeployed workflow are a 4xx; a conversation is the caller's own name for it."""
    status, error = refused(served, "/api/workflows/nope/execute", ALL)
    assert (status, error["code"]) == (404, "not_found")
    served.store.workflows.save(agent("scripted/plain"), "field", workflow_id="field-undeployed")
    status, error = refused(served, "/api/workflows/field-undeployed/execute", ALL)
    assert (status, error["code"]) == (409, "not_deployed")
    watched = served.watch(served.agent("scripted/plain"), conversationId="long gone")
    assert watched.end()["event"] == "final"


@pytest.mark.parametrize(
    "wrong",
    [
        {"stream": "yes"},
        {"timeoutSeconds": 0},
        {"timeoutSeconds": "5"},
        {"selectedOutputs": "agent_1.content"},
        {"selectedOutputs": ["nobody.content"]},
        {"includeThinking": 1},
        {"conversationId": 7},
        {"version": 0},
        {"unknown": True},
        [],
    ],
)
def test_terminal_04_a_wrong_parameter_is_refused_before_the_stream(served: Server, wrong: t.Any) -> None:
    """400 and JSON, never an event stream."""
    workflow = served.agent("scripted/plain")
    body = {"stream": True, **wrong} if isinstance(wrong, dict) else wrong
    status, error = refused(served, f"/api/workflows/{workflow}/execute", body)
    assert status == 400
    assert error["code"] in ("validation_failed", "invalid_json")


RAISED = [
    RuntimeError,
    SystemExit,
    KeyboardInterrupt,
    gevent.GreenletExit,
    MemoryError,
    RecursionError,
    StopIteration,
]


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("error", RAISED)
def test_terminal_05_a_tool_raises(engine: Engine, error: type[BaseException], count: int) -> None:
    """An ordinary exception is the tool's result; a process-ending one fails the run; one terminal in each."""

    def fail(arguments: t.Any, context: t.Any) -> None:
        raise error("of the tool")

    def plan(call: Call) -> None:
        for n in range(count):
            engine.speaker.tool(call, n, f"c{n}", "fail", "{}")
        engine.speaker.finish(call, "tool_calls")

    live = engine.start(engine.tool("fail", fail))
    plan(live.call())
    if issubclass(error, Exception):
        engine.answer()(live.call())
    live.end()
    assert live.ends == [("fail", "error")] * count
    expected = ev.RunCompleted if issubclass(error, Exception) else ev.RunFailed
    assert isinstance(live.terminal, expected)
    assert live.row["status"] != "running"
    assert not live.run.scope.greenlets


@pytest.mark.parametrize("runs", ["greenlet", "thread"])
def test_terminal_05_a_tool_times_out(engine: Engine, runs: str) -> None:
    """The call ends in error, the model is told, the run goes on; a late result is dropped."""
    late = threading.Event()
    started = []

    def never(arguments: t.Any, context: t.Any) -> str:
        started.append(1)
        if runs == "greenlet":
            with context.waits.wait():
                late.wait()
        else:
            while not late.is_set():
                pass
        return "late"

    def plan(call: Call) -> None:
        engine.speaker.tool(call, 0, "c", "never", "{}")
        engine.speaker.finish(call, "tool_calls")

    live = engine.start(engine.tool("never", never, runs=runs))
    plan(live.call())
    call = live.call()
    late.set()
    ((_, told),) = engine.speaker.results(call.body)
    assert "did not answer" in told
    engine.answer()(call)
    live.end()
    assert started == [1]
    assert live.ends == [("never", "error")]
    assert live.output["content"] == "done"


@pytest.mark.parametrize("blocks", [1, 2])
def test_terminal_05_the_background_task_is_killed(engine: Engine, blocks: int) -> None:
    """Whoever kills the run's greenlets from outside still leaves one terminal and a closed record."""
    document = agent(engine.speaker.model)
    if blocks == 2:
        document["blocks"].append(
            {"id": "agent_2", "type": "agent", "config": {"model": engine.speaker.model}}
        )
        document["edges"].append({"source": "start", "target": "agent_2"})
    live = Live(engine, *start(engine.services, document))
    calls = [live.call() for _ in range(blocks)]
    victims = list(live.run.scope.greenlets) or [_greenlet_of(live)]
    victims[0].kill(block=False)
    live.end()
    assert isinstance(live.terminal, ev.RunFailed)
    assert live.row["status"] == "failed"
    for call in calls:
        assert call.left.wait(20)


def _greenlet_of(live: t.Any) -> t.Any:
    (found,) = [
        thing
        for thing in gc.get_objects()
        if type(thing) is gevent.Greenlet
        and getattr(thing._run, "__self__", None) is live.run
        and not thing.dead
    ]
    return found


def test_terminal_08_the_end_of_a_round_is_not_the_end(
    served: Server, vendor: Vendor, speaker: Speaker
) -> None:
    """A client that stops at the first terminal sees the whole answer."""
    watched = served.watch(served.agent(speaker.model, tools=["boom"]))
    call = vendor.next_call()
    speaker.text(call, "Preamble.")
    speaker.tool(call, 0, "c", "boom", "{}")
    speaker.finish(call, "tool_calls")
    call = vendor.next_call()
    speaker.text(call, "The whole answer.")
    speaker.finish(call)
    first = watched.until(lambda v: v.get("event") in ("final", "error"))
    assert first["data"]["output"]["content"] == watched.text == "The whole answer."
    markers = {v["event"] for v in watched.values if "event" in v} - {"final"}
    assert markers == {"tool", "chunk_reset"}
    watched.end()


def test_terminal_10_every_entry_point_says_the_same(
    served: Server, vendor: Vendor, speaker: Speaker
) -> None:
    """Waiting, settled, live, the builder's whole run and that to a block, and the command line on a file, on the store
    and over HTTP.
    """
    document = agent(speaker.model, tools=["boom"])
    workflow = served.deploy(document)
    path = served.studio.data / "entry.yaml"
    path.write_text(yaml.safe_dump(document))
    url = {"STUDIO_URL": f"http://127.0.0.1:{served.studio.port}", "STUDIO_API_KEY": served.studio.key}
    seen: dict[str, t.Any] = {}

    def waiting() -> None:
        seen["waiting"] = served.call("POST", f"/api/workflows/{workflow}/execute", body={})[1]

    def settled() -> None:
        with served.studio.execute(workflow, {"stream": True}) as stream:
            seen["settled"] = [f.json() for f in stream.events()]

    def live() -> None:
        seen["live"] = watched = served.watch(workflow)
        watched.end()

    def builder(name: str, body: dict[str, t.Any]) -> None:
        path, key = f"/api/workflows/{workflow}/draft/run", {"X-API-Key": served.studio.key}
        with sse.post(served.studio.port, path, {"input": "hi", **body}, key) as stream:
            *seen[name], last = list(stream.events())
            assert last.data == "[DONE]"

    def command(name: str, target: str, environ: dict[str, str]) -> None:
        one = replace(served.studio, environ={**served.studio.environ, **environ})
        seen[name] = one.run_cli("run", target, "--input", "hi", "--thinking", "--tools", "--json")

    entries = [
        (waiting,),
        (settled,),
        (live,),
        (builder, "builder", {}),
        (builder, "builder to a block", {"stopAfter": "agent_1"}),
        (command, "file", str(path), {}),
        (command, "store", workflow, {}),
        (command, "http", workflow, url),
    ]
    for entry in entries:
        task = gevent.spawn(*entry)
        for last in (False, True):
            until(lambda task=task: task.ready() or not vendor.calls.empty(), f"{entry} asks the model")
            assert not task.ready(), seen
            call = vendor.next_call()
            speaker.think(call, "hm")
            speaker.text(call, "It is 42." if last else "Let me see.")
            if not last:
                speaker.tool(call, 0, "c", "boom", "{}")
            speaker.finish(call, "stop" if last else "tool_calls")
        task.get(timeout=60)
    assert seen["waiting"]["output"]["content"] == "It is 42."
    assert [v["chunk"] for v in seen["settled"] if "chunk" in v] == ["It is 42."]
    assert seen["settled"][-2]["data"]["output"]["content"] == "It is 42."
    check_live(seen["live"])
    check_built(seen["builder"], seen["builder to a block"])
    for name in ("file", "store", "http"):
        done = seen[name]
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        assert told["status"] == "completed"
        assert told["output"]["content"] == "It is 42."


def check_built(*streams: list[sse.Frame]) -> None:
    """The same kinds in the same order as live, and the stream of the block closed before its end."""
    for frames in streams:
        _check_built([frame.json() for frame in frames])


def _check_built(told: list[dict[str, t.Any]]) -> None:
    said = [v for v in told if v["type"].startswith("stream:")]
    kinds = [v["type"].removeprefix("stream:") + v["data"].get("phase", "") for v in said]
    first = ["thinking", "chunk", "toolstart", "chunk_reset", "toolend"]
    assert kinds == [*first, "thinking", "chunk", "done"]
    assert [v["type"] for v in told[-3:]] == ["stream:done", "block:completed", "execution:completed"]
    assert told[-1]["data"]["output"]["content"] == "It is 42."


def check_live(watched: Watched) -> None:
    """Thinking before the answer in each turn, and the kinds of contract 3.3 in its order."""
    kinds = ["chunk" if "chunk" in v else v["event"] + str(v.get("phase", "")) for v in watched.values[:-1]]
    first = ["thinking", "chunk", "toolstart", "chunk_reset", "toolend"]
    assert kinds == [*first, "thinking", "chunk", "final"]
    assert watched.text == "It is 42."


def test_terminal_12_a_run_that_is_over_at_once_loses_nothing(served: Server) -> None:
    """500 runs of a few milliseconds: every stream has every delta."""
    workflow = served.agent("scripted/plain")
    pool = gevent.pool.Pool(20)

    def one(_: int) -> Watched:
        watched = served.watch(workflow)
        watched.end()
        return watched

    for watched in pool.imap_unordered(one, range(500)):
        assert [v["chunk"] for v in watched.values if isinstance(v, dict) and "chunk" in v] == [
            "Hello ",
            "there.",
        ]
