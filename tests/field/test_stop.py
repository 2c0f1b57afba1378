"""Stop at every kind of block and phase, over HTTP: nothing starts after it, and the thread goes on.

Law of this room: what would have run next stands in the table, by hand; how far a run has come is proved by what
reached the vendor or the reader, never by time.
"""

from __future__ import annotations

import json
import os
import typing as t
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import gevent
import pytest

from tests.field.rig import Server, held, until
from tests.support import sse
from tests.support.graphs import graph
from tests.support.vendor import Call, Vendor

MODEL = "openai-compatible/field"
AGENT = {"model": MODEL, "retries": 0}
SET = {"values": {"x": 1}}
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
Blocks = Sequence[tuple[str, str, dict[str, t.Any]]]


class Following:
    """A reader of run events."""

    def __init__(self, served: Server, workflow: str, **body: t.Any) -> None:
        path = f"/api/workflows/{workflow}/runs"
        self.stream = sse.post(served.studio.port, path, body, {"X-API-Key": served.studio.key})
        assert self.stream.status == 200, self.stream.body()
        self.run_id = self.stream.headers["X-Run-Id"]
        self.seen: list[dict[str, t.Any]] = []
        self._frames = (frame.json() for frame in self.stream.events())
        assert self.next()["type"] == "thread"
        self.thread = self.seen[0]["thread_id"]

    def next(self) -> dict[str, t.Any]:
        """The next event."""
        self.seen.append(next(self._frames))
        return self.seen[-1]

    def until(self, kind: str, **data: t.Any) -> dict[str, t.Any]:
        """Read to an event of that type with these members."""
        while True:
            event = self.next()
            if event["type"] == kind and data.items() <= event["data"].items():
                return event

    def rest(self) -> list[dict[str, t.Any]]:
        """Everything up to the end."""
        before = len(self.seen)
        self.seen.extend(self._frames)
        self.stream.close()
        return self.seen[before:]


@dataclass
class Stage:
    """Where one run is brought to the phase it is stopped in.

    :ivar taken: requests that upstreams hold when the stop comes.
    """

    vendor: Vendor
    desk: Vendor
    run: Following
    pipe: Path
    taken: list[Call] = field(default_factory=list)

    def ask(self, count: int = 1) -> Call:
        """The next requests to the model; the last of them."""
        for _ in range(count):
            self.taken.append(self.vendor.next_call())
        return self.taken[-1]

    def knock(self) -> Call:
        """The next request to the desk."""
        self.taken.append(self.desk.next_call())
        return self.taken[-1]

    def answer(self, text: str = "yes") -> None:
        """Answer the next request to the model in full."""
        reply(self.vendor.next_call(), text)

    def plan(self, *tools: str, **arguments: t.Any) -> None:
        """Answer the next request to the model with calls of these tools."""
        call = self.vendor.next_call()
        given = json.dumps(arguments)
        calls = [
            {"index": n, "id": f"c{n}", "function": {"name": name, "arguments": given}}
            for n, name in enumerate(tools)
        ]
        call.send({"tool_calls": calls})
        call.finish("tool_calls")


def reply(call: Call, text: str) -> None:
    """A whole answer of a model."""
    call.text(text)
    call.finish()


@dataclass(frozen=True)
class Case:
    """One block in one phase.

    :ivar reach: brings the run there. :ivar following: what would have run next, in document order.
    :ivar tools: statuses of the calls that were announced. :ivar says: what models answer when the thread goes on.
    """

    name: str
    blocks: Blocks
    edges: Sequence[str]
    reach: Callable[[Stage], object]
    following: Sequence[str] = ("z",)
    tools: Sequence[str] = ()
    says: str = "yes"


def alone(
    name: str, kind: str, config: dict[str, t.Any], reach: Callable[[Stage], object], **more: t.Any
) -> Case:
    """One block with a ``set`` behind it."""
    return Case(name, [("it", kind, config), ("z", "set", SET)], ["start > it", "it > z"], reach, **more)


def in_text(stage: Stage) -> None:
    stage.ask().text("some")
    stage.run.until("chat_chunk", content="some")


def in_thinking(stage: Stage) -> None:
    stage.ask().send({"reasoning_content": "hm"})
    stage.run.until("llm_thinking", state="started")


def in_tools(stage: Stage) -> None:
    stage.plan("one", "two")
    for _ in range(2):
        stage.run.until("tool_executing")
        stage.knock()


def in_one_tool_of_two(stage: Stage) -> None:
    """The first one has answered."""
    stage.plan("one", "two")
    calls = sorted((stage.desk.next_call(), stage.desk.next_call()), key=lambda call: call.path)
    calls[0].answer(200, b'"fine"')
    stage.taken.append(calls[1])
    stage.run.until("tool_result", status="success")


def between_turns(stage: Stage) -> None:
    stage.plan("one")
    stage.desk.next_call().answer(200, b'"fine"')
    stage.run.until("tool_result")
    stage.ask()


def in_back_off(stage: Stage) -> None:
    call = stage.ask()
    call.answer(503, b"{}", retry_after="50")
    assert call.left.wait(20)


def in_thread_tool(stage: Stage) -> None:
    stage.plan("fifo", path=str(stage.pipe))
    stage.run.until("tool_executing")


def in_second(stage: Stage) -> None:
    stage.answer()
    stage.ask()


def in_second_round(stage: Stage) -> None:
    stage.answer("one")
    stage.answer("two")
    stage.run.until("debate_round", round=2)
    stage.ask()


def one_voter_done(stage: Stage) -> None:
    """Of three that are asked at once."""
    calls = [stage.vendor.next_call() for _ in range(3)]
    reply(calls[1], "yes")
    assert calls[1].left.wait(20)
    stage.taken += [calls[0], calls[2]]


def one_branch_done(stage: Stage) -> None:
    calls = {call.body["messages"][-1]["content"]: call for call in (stage.ask(), stage.ask())}
    stage.taken.remove(calls["one"])
    reply(calls["one"], "yes")
    stage.run.until("workflow_node_end", node_id="x")


def pair(*names: str) -> list[dict[str, t.Any]]:
    return [{**AGENT, "name": name, "prompt": "go"} for name in names]


def branches(reach: Callable[[Stage], object], following: Sequence[str], name: str) -> Case:
    one, two = ({**AGENT, "prompt": prompt} for prompt in ("one", "two"))
    return Case(
        name,
        [
            ("p", "parallel", {"branches": ["one", "two"]}),
            ("y", "set", SET),
            ("a", "agent", one),
            ("x", "set", SET),
            ("b", "agent", two),
            ("z", "set", SET),
        ],
        ["start > p", "p -branch:one> a", "a > x", "p -branch:two> b", "b > y", "p -exit> z"],
        reach,
        following,
    )


def looped(name: str, *edges: str, following: Sequence[str], reach: Callable[[Stage], object]) -> Case:
    return Case(
        name,
        [
            ("l", "loop", {"kind": "for", "times": 2}),
            ("a", "agent", AGENT),
            ("b", "set", SET),
            ("z", "set", SET),
        ],
        ["start > l", "l -loop> " + edges[0].split(" ")[0], *edges, "l -exit> z"],
        reach,
        following,
    )


VOTE = {"voters": pair("A", "B", "C"), "options": ["yes", "no"]}
DEBATE = {"participants": pair("A", "B"), "rounds": 2}
TOOLED = {**AGENT, "tools": ["one", "two"]}
ASK_MODEL = {"checks": [{"kind": "model", "model": MODEL, "instruction": "Is it fine?"}], "input": "x"}
BY_MODEL = {
    "mode": "model",
    "model": MODEL,
    "routes": [{"name": "r1", "description": "one"}, {"name": "r2", "description": "two"}],
}

CASES = [
    alone("agent-model-wait", "agent", AGENT, lambda stage: stage.ask()),
    alone("agent-mid-text", "agent", AGENT, in_text),
    alone("agent-thinking", "agent", AGENT, in_thinking),
    alone("agent-tools", "agent", TOOLED, in_tools, tools=["cancelled", "cancelled"]),
    alone("agent-one-tool-done", "agent", TOOLED, in_one_tool_of_two, tools=["success", "cancelled"]),
    alone("agent-between-turns", "agent", TOOLED, between_turns, tools=["success"]),
    alone("agent-thread-tool", "agent", {**AGENT, "tools": ["fifo"]}, in_thread_tool, tools=["cancelled"]),
    alone("agent-back-off", "agent", {**AGENT, "retries": 3}, in_back_off),
    Case("agent-last", [("it", "agent", AGENT)], ["start > it"], lambda stage: stage.ask(), ()),
    Case(
        "agent-before-response",
        [("it", "agent", AGENT), ("r", "response", {"body": "{{ blocks.it.content }}"})],
        ["start > it", "it > r"],
        lambda stage: stage.ask(),
        ["r"],
    ),
    Case(
        "agent-with-error-edge",
        [("it", "agent", AGENT), ("bad", "set", SET), ("good", "set", SET)],
        ["start > it", "it -error> bad", "it > good"],
        lambda stage: stage.ask(),
        ["good"],
    ),
    Case(
        "router-by-model",
        [("it", "router", BY_MODEL), ("y", "set", SET), ("x", "set", SET)],
        ["start > it", "it -route:r1> x", "it -route:r2> y"],
        lambda stage: stage.ask(),
        ["y", "x"],
        says='{"route": "r1", "reason": "because"}',
    ),
    looped("loop-in-body", "a > b", "b > l", following=["b"], reach=lambda stage: stage.ask()),
    looped("loop-second-iteration", "a > b", "b > l", following=["b"], reach=in_second),
    looped("loop-at-end-of-body", "b > a", "a > l", following=["l"], reach=lambda stage: stage.ask()),
    branches(lambda stage: stage.ask(2), ["y", "x"], "parallel-both"),
    branches(one_branch_done, ["y"], "parallel-one-done"),
    Case(
        "parallel-items",
        [("p", "parallel", {"items": [1, 2]}), ("a", "agent", AGENT), ("b", "set", SET), ("z", "set", SET)],
        ["start > p", "p -loop> a", "a > b", "b > p", "p -exit> z"],
        lambda stage: stage.ask(2),
        ["b[0]", "b[1]"],
    ),
    Case(
        "join",
        [("a", "agent", AGENT), ("b", "agent", AGENT), ("z", "set", SET)],
        ["start > a", "start > b", "a > z", "b > z"],
        lambda stage: stage.ask(2),
    ),
    alone("sequential-first", "sequential", {"agents": pair("A", "B")}, lambda stage: stage.ask()),
    alone("sequential-second", "sequential", {"agents": pair("A", "B")}, in_second),
    alone("debate-mid-round", "debate", DEBATE, in_second),
    alone("debate-second-round", "debate", DEBATE, in_second_round),
    alone("vote-open", "vote", VOTE, in_second),
    alone("vote-secret", "vote", {**VOTE, "secret": True}, one_voter_done),
    Case(
        "guardrail-model-check",
        [("it", "guardrail", ASK_MODEL), ("z", "set", SET), ("no", "set", SET)],
        ["start > it", "it -false> no", "it -true> z"],
        lambda stage: stage.ask(),
        ["z", "no"],
        says='{"reason": "fine", "passed": true}',
    ),
    alone("tool", "tool", {"tool": "one"}, lambda stage: stage.knock(), tools=["cancelled"]),
    alone(
        "tool-thread",
        "tool",
        {"tool": "fifo", "arguments": {"path": "PIPE"}},
        lambda stage: stage.run.until("tool_executing"),
        tools=["cancelled"],
    ),
    alone("http", "http", {"method": "GET", "url": "DESK/silent"}, lambda stage: stage.knock()),
    alone("child", "workflow", {"workflow": "stop-child"}, lambda stage: stage.ask(), following=["it/b"]),
    alone("child-at-its-end", "workflow", {"workflow": "stop-last"}, lambda stage: stage.ask()),
    alone(
        "grandchild",
        "workflow",
        {"workflow": "stop-parent"},
        lambda stage: stage.ask(),
        following=["it/sub/b"],
    ),
    alone(
        "child-tool",
        "workflow",
        {"workflow": "stop-tools"},
        in_tools,
        tools=["cancelled", "cancelled"],
    ),
]
CHILDREN = {
    "stop-child": graph([("a", "agent", AGENT), ("b", "set", SET)], "start > a", "a > b"),
    "stop-last": graph([("a", "agent", AGENT)], "start > a"),
    "stop-parent": graph([("sub", "workflow", {"workflow": "stop-child"})], "start > sub"),
    "stop-tools": graph([("a", "agent", TOOLED)], "start > a"),
}


def placed(value: t.Any, desk: Vendor, pipe: Path) -> t.Any:
    """A document with the desk's tools and address, and the pipe, put in."""
    if isinstance(value, dict):
        return {key: placed(item, desk, pipe) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [placed(item, desk, pipe) for item in value]
    if value in ("one", "two"):
        (tool,) = held(desk, value)
        return tool
    return value.replace("DESK", desk.base).replace("PIPE", str(pipe)) if isinstance(value, str) else value


def deployed(served: Server, case: Case, desk: Vendor, pipe: Path) -> str:
    """The case's workflow, and the children there are."""
    for name, child in CHILDREN.items():
        served.store.workflows.save(placed(child, desk, pipe), name, workflow_id=name)
        served.store.workflows.deploy(name)
    document = graph(case.blocks, *case.edges)
    for block in document["blocks"]:
        if block["type"] != "parallel" and block["config" if "config" in block else "id"] != AGENT:
            block["config"] = _but_prompts(block.get("config", {}), desk, pipe)
    return served.deploy(document)


def _but_prompts(config: dict[str, t.Any], desk: Vendor, pipe: Path) -> dict[str, t.Any]:
    kept = {key: config[key] for key in ("prompt", "routes", "name") if key in config}
    return {**t.cast("dict[str, t.Any]", placed(config, desk, pipe)), **kept}


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
