"""Runs that are brought to a phase and stopped there: one row for each kind of block and phase.

Law of this room: what would have run next stands in the table, by hand; how far a run has come is proved by what
reached the vendor or the reader, never by time.
"""

from __future__ import annotations

import json
import typing as t
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.field.rig import Server, held
from tests.support import sse
from tests.support.graphs import graph
from tests.support.vendor import Call, Vendor

MODEL = "openai-compatible/field"
AGENT = {"model": MODEL, "retries": 0}
SET = {"values": {"x": 1}}
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
TOOLED = {**AGENT, "tools": ["DESK:one", "DESK:two"]}
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
    alone("tool", "tool", {"tool": "DESK:one"}, lambda stage: stage.knock(), tools=["cancelled"]),
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
    """A document with ``DESK:<tool>`` and ``DESK``, the desk's tools and address, and ``PIPE`` put in."""
    if isinstance(value, dict):
        return {key: placed(item, desk, pipe) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [placed(item, desk, pipe) for item in value]
    if not isinstance(value, str):
        return value
    if value.startswith("DESK:"):
        (tool,) = held(desk, value.removeprefix("DESK:"))
        return tool
    return value.replace("DESK", desk.base).replace("PIPE", str(pipe))


def deployed(served: Server, case: Case, desk: Vendor, pipe: Path) -> str:
    """The case's workflow, and the children there are."""
    for name, child in CHILDREN.items():
        served.store.workflows.save(placed(child, desk, pipe), name, workflow_id=name)
        served.store.workflows.deploy(name)
    return served.deploy(placed(graph(case.blocks, *case.edges), desk, pipe))
