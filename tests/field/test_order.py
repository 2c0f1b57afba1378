"""ORDER: nothing twice, nothing missing, nothing in the wrong order."""

from __future__ import annotations

import itertools
import random
import typing as t
from collections import Counter

import gevent
import gevent.event
import pytest

from app import events as ev
from app.streams.agent_events import AgentEventsOptions
from app.streams.rights import Rights
from tests.field.rig import ALL, Engine, Server, Watched, until
from tests.field.stages import Following
from tests.field.wires import sse
from tests.streams.reader import read
from tests.support.engine import start
from tests.support.graphs import graph
from tests.support.servers import NEGOTIATE
from tests.support.vendor import Call, Vendor

MODEL = "openai-compatible/field"


@pytest.mark.parametrize("seed", range(5))
def test_order_01_two_models_at_once(chat: Engine, seed: int) -> None:
    """Their pieces interleave at random: each names its block, by block both are whole; whole to older clients too."""
    blocks = [(name, "agent", {"model": MODEL, "prompt": name}) for name in ("a", "b")]
    run, recorder = start(chat.services, graph(blocks, "start > a", "start > b"))
    calls = {
        call.body["messages"][-1]["content"]: call for call in (chat.vendor.next_call() for _ in range(2))
    }
    pieces = {name: [f"{name}{n} " for n in range(1, 21)] for name in calls}
    left = {name: list(some) for name, some in pieces.items()}
    chance = random.Random(seed)
    ended = []
    while left:
        name = chance.choice(sorted(left))
        if left[name]:
            calls[name].text(left[name].pop(0))
            gevent.sleep(0)
        else:
            calls[name].finish()
            ended.append(name)
            until(lambda: len(recorder.of(ev.AnswerSettled)) == len(ended), f"{name} has ended")
            del left[name]
    assert run.done.wait(20)
    whole = {name: "".join(some) for name, some in pieces.items()}
    options = AgentEventsOptions("run_1", True, False, Rights(), None, ("a", "b"))
    live = read(options, recorder.envelopes)
    assert live.standing == whole
    texts = [frame for frame in live.frames if "chunk" in frame]
    assert {frame["blockId"] for frame in texts} == {"a", "b"}
    changes = sum(one["blockId"] != two["blockId"] for one, two in itertools.pairwise(texts))
    assert changes > 1, "they were told as they came"
    options = AgentEventsOptions("run_1", False, False, Rights(), None, ("a", "b"))
    chunks = [frame for frame in read(options, recorder.envelopes).frames if "chunk" in frame]
    assert [frame["blockId"] for frame in chunks] == ended
    assert [frame["chunk"].removeprefix("\n\n") for frame in chunks] == [whole[name] for name in ended]


def test_order_01_as_run_events(served: Server, vendor: Vendor) -> None:
    """Where two speak, each speaks once and whole, under its name, in order of their ends."""
    blocks = [(name, "agent", {"model": MODEL, "prompt": name}) for name in ("a", "b")]
    reader = Following(served, served.deploy(graph(blocks, "start > a", "start > b")), message="x")
    calls = {call.body["messages"][-1]["content"]: call for call in (vendor.next_call() for _ in range(2))}
    for name in ("a", "b", "b", "a"):
        calls[name].text(f"{name} ")
    for name in ("b", "a"):
        calls[name].finish()
        reader.until("workflow_node_end", node_id=name)
    reader.rest()
    said = [event["data"] for event in reader.seen if event["type"] in ("agent_message", "chat_chunk")]
    assert [(data["context"]["node_id"], data["content"]) for data in said] == [("b", "b b "), ("a", "a a ")]


def test_order_03_parallel_tools_that_end_in_reverse(engine: Engine) -> None:
    """Starts 1, 2, 3 and ends 3, 2, 1; the model gets the results in call order."""
    gates = [gevent.event.Event() for _ in range(3)]

    def work(arguments: dict[str, int], context: object) -> str:
        n = arguments["n"]
        with context.waits.wait():  # type: ignore[attr-defined]
            gates[n].wait()
        return f"result {n}"

    def plan(call: Call) -> None:
        for n in range(3):
            engine.speaker.tool(call, n, f"c{n}", "work", f'{{"n":{n}}}')
        engine.speaker.finish(call, "tool_calls")

    live = engine.start(engine.tool("work", work))
    plan(live.call())
    live.until(ev.ToolStarted, 3)
    for count, n in enumerate((2, 1, 0), 1):
        gates[n].set()
        live.until(ev.ToolFinished, count)
    engine.answer()(live.call())
    live.end()
    assert [e.id for e in live.recorder.of(ev.ToolStarted)] == ["c0", "c1", "c2"]
    assert [e.id for e in live.recorder.of(ev.ToolFinished)] == ["c2", "c1", "c0"]
    assert engine.speaker.results(live.calls[1].body) == [(f"c{n}", f"result {n}") for n in range(3)]
    assert all(status == "success" for _, status in live.ends)


def aggregate(call: Call, *pieces: str) -> None:
    for piece in pieces:
        call.text(piece)
    last = {
        "index": 0,
        "delta": {},
        "message": {"role": "assistant", "content": "AB"},
        "finish_reason": "stop",
    }
    call.send_bytes(sse({"choices": [last]}))
    call.send_bytes(sse("[DONE]"))
    call.end_body()


def test_order_04_an_aggregate_after_the_deltas_is_not_said_again(chat: Engine) -> None:
    """Live text and stored text are "AB"."""

    def look(call: Call) -> None:
        chat.speaker.tool(call, 0, "c", "look", "{}")
        chat.speaker.finish(call, "tool_calls")

    live = chat.run(look, lambda call: aggregate(call, "A", "B"), tools=[chat.tool("look")])
    assert live.text == live.output["content"] == "AB"


def test_order_04_an_aggregate_without_deltas_is_used_once(chat: Engine) -> None:
    """Nothing was streamed: the aggregate is the answer."""
    live = chat.run(aggregate)
    assert live.text == live.output["content"] == "AB"


def test_order_06_an_answer_in_one_piece(engine: Engine) -> None:
    """One delta, the answer once."""
    live = engine.run(engine.answer("All of it, at once."))
    assert [e.text for e in live.recorder.of(ev.TextDelta)] == ["All of it, at once."]
    assert [e.text for e in live.recorder.of(ev.AnswerSettled)] == ["All of it, at once."]
    assert live.output["content"] == "All of it, at once."


ANSWERS = {"flow-a": "I don't know.", "flow-b": "42"}


def with_children(served: Server) -> str:
    """Two child workflows, then an agent that sums up what they said."""
    for name in ANSWERS:
        child = graph([("inner", "agent", {"model": MODEL, "prompt": name})], "start > inner")
        served.store.workflows.save(child, name, workflow_id=name)
        served.store.workflows.deploy(name)
    prompt = "{{ blocks.one.content }} {{ blocks.two.content }}"
    blocks = [
        ("one", "workflow", {"workflow": "flow-a"}),
        ("two", "workflow", {"workflow": "flow-b"}),
        ("last", "agent", {"model": MODEL, "prompt": prompt}),
    ]
    return served.deploy(graph(blocks, "start > one", "one > two", "two > last"))


def say_all(vendor: Vendor) -> None:
    for said in (*ANSWERS.values(), "It is 42"):
        call = vendor.next_call()
        call.text(said)
        call.finish()
    assert call.body["messages"][-1]["content"] == "I don't know. 42"


@pytest.mark.parametrize("negotiated", [True, False])
def test_order_09_what_child_workflows_answer_is_not_the_answer(
    served: Server, vendor: Vendor, negotiated: bool
) -> None:
    """The answer is the last agent's alone."""
    workflow = with_children(served)
    body = {"input": "x", **ALL} if negotiated else {"input": "x", "stream": True}
    watched = Watched(served.studio.execute(workflow, body, NEGOTIATE if negotiated else {}))
    say_all(vendor)
    end = watched.end()
    assert watched.text == "It is 42"
    assert {v["blockId"] for v in watched.values if isinstance(v, dict) and "chunk" in v} == {"last"}
    assert end["data"]["output"]["content"] == "It is 42"


@pytest.mark.parametrize("level", ["full", "messages", "minimal"])
def test_order_09_as_run_events(served: Server, vendor: Vendor, level: str) -> None:
    """Children speak under their own path, and to nobody who wants the answer only."""
    reader = Following(served, with_children(served), message="x", events=level)
    say_all(vendor)
    reader.rest()
    said = [
        (event["data"].get("node_id") or event["data"]["context"]["node_id"], event["data"]["content"])
        for event in reader.seen
        if event["type"] in ("agent_message", "chat_chunk")
    ]
    children = [("one/inner", "I don't know."), ("two/inner", "42")]
    assert said == [*(children if level != "minimal" else []), ("last", "It is 42")]


def test_order_10_tools_of_branches_are_always_told(chat: Engine) -> None:
    """Three branches at once, each with one tool, a hundred times: three starts and ends, as often as tools ran."""
    name = chat.tool("count", lambda arguments, context: gevent.sleep(0))
    kinds: list[tuple[str, str, dict[str, t.Any]]] = [("p", "parallel", {"branches": ["a", "b", "c"]})]
    kinds += [(branch, "tool", {"tool": name}) for branch in "abc"]
    flow = graph(kinds, "start > p", *(f"p -branch:{branch}> {branch}" for branch in "abc"))
    for place in range(100):
        ran = len(chat.ran)
        run, recorder = start(chat.services, flow)
        assert run.done.wait(20)
        told = Counter(type(envelope.event) for envelope in recorder.envelopes)
        assert (told[ev.ToolStarted], told[ev.ToolExecuting], told[ev.ToolFinished]) == (3, 3, 3), place
        assert len(chat.ran) - ran == 3
        started = {event.id for event in recorder.of(ev.ToolStarted)}
        assert {event.id for event in recorder.of(ev.ToolFinished)} == started


def test_order_10_tools_of_agents_in_branches(chat: Engine) -> None:
    """The same with agents, whose calls come in whatever order the models answer."""
    name = chat.tool("count")
    agent = {"model": MODEL, "tools": [name]}
    blocks = [("p", "parallel", {"branches": ["a", "b", "c"]}), *((n, "agent", agent) for n in "abc")]
    flow = graph(blocks, "start > p", *(f"p -branch:{branch}> {branch}" for branch in "abc"))
    chance = random.Random(10)
    for _ in range(10):
        ran = len(chat.ran)
        run, recorder = start(chat.services, flow)
        calls = [chat.vendor.next_call() for _ in range(3)]
        chance.shuffle(calls)
        for call in calls:
            chat.speaker.tool(call, 0, "same-id", name, "{}")
            chat.speaker.finish(call, "tool_calls")
        for _ in range(3):
            chat.answer()(chat.vendor.next_call())
        assert run.done.wait(20)
        starts = Counter(event.block for event in recorder.of(ev.ToolStarted))
        ends = Counter((event.block, event.status) for event in recorder.of(ev.ToolFinished))
        assert starts == {"a": 1, "b": 1, "c": 1}
        assert ends == {("a", "success"): 1, ("b", "success"): 1, ("c", "success"): 1}
        assert len(chat.ran) - ran == 3
