"""Runs that come to a point, lose their process there, and go on in another: one generator for each.

Law of this room: what comes before the ``yield`` brings the run there, and what follows it is proved in the next
process, with what reached upstreams counted over both.
"""

from __future__ import annotations

import http.client
import json
import typing as t
from collections.abc import Callable

import pytest

from tests.field.durable import Case, Steps, reply
from tests.field.stages import Following
from tests.field.test_reconnect import Reader, attach
from tests.support.graphs import graph

SET = {"values": {"x": 1}}


def paused_at_a_text(it: Case) -> Steps:
    """An agent's text waits for a person, and that is all there is."""
    it.begin(
        [
            ("a", "agent", it.agent("a")),
            ("ask", "approval", {"prompt": "Send it?"}),
            ("z", "set", {"values": {"text": "{{ blocks.ask.content }}"}}),
        ],
        "start > a",
        "a > ask",
        "ask -approved> z",
    )
    it.says("a", "Dear all")
    assert it.first.rest()[-2][1]["data"]["status"] == "paused"
    (asked,) = it.asks()
    before = it.status("paused")
    yield
    assert it.asks() == [asked]
    assert it.status("paused") == before
    it.follow()
    goes_on = it.answer(asked["id"], decision="edit", text="Dear both")
    record = it.end(lost=False)
    assert it.later.told == goes_on.rest()
    assert record["output"] == {"text": "Dear both"}
    assert record["humanWaitMs"] > 0
    assert record["usage"]["tokens"]["total"] == 15
    assert it.standing() == {}  # no agent's text reaches the output
    assert it.counts() == {"a": 1}


def paused_at_a_call(it: Case) -> Steps:
    """A call waits; one beside it has been made."""
    tools = [it.tool("send", approval="always"), it.tool("note")]
    run = it.begin([("a", "agent", it.agent("a", tools=tools))], "start > a")
    it.plans("a", ("send", {"to": ["x", "ü"], "n": 1}), ("note", {"n": 2}))
    it.works("note")
    it.first.rest()
    (asked,) = it.asks()
    assert asked["review"]["arguments"] == {"to": ["x", "ü"], "n": 1}
    yield
    assert it.asks() == [asked]
    it.follow()
    it.answer(asked["id"], decision="approve")
    assert it.works("send").body == asked["review"]["arguments"]
    call = it.model("a")
    assert [content for _, content in _results(call.body)] == ["fine", "fine"]
    reply(call, "Sent.")
    record = it.end(lost=False)
    assert record["runId"] == run
    assert record["output"]["content"] == it.standing()["a"] == "Sent."
    assert [c["status"] for c in record["toolCalls"]["a"]["list"]] == ["success", "success"]
    assert record["usage"]["tokens"]["total"] == 30
    assert it.counts() == {"a": 2, "send": 1, "note": 1}


def in_a_turn(it: Case) -> Steps:
    """A model is speaking; a tool has been called before."""
    it.begin(
        [
            ("a", "agent", it.agent("a", tools=[it.tool("note")])),
            ("z", "response", {"body": "{{ blocks.a.content }}"}),
        ],
        "start > a",
        "a > z",
    )
    it.plans("a", ("note", {}))
    it.works("note")
    it.model("a").text("Half of it")
    it.first.upto("Half of it")
    yield
    it.cut()
    it.follow()
    reply(it.model("a"), "All of it")
    record = it.end(lost=True)
    assert it.standing() == {"a": record["output"]} == {"a": "All of it"}
    assert record["partialText"] == {}
    assert record["usage"]["tokens"]["total"] == 30  # nothing is known of what the cut one used
    assert it.counts() == {"a": 3, "note": 1}


def in_a_turn_told_as_run_events(it: Case) -> Steps:
    """Where nothing that was sent may be taken back, half a text is not sent."""
    document = {**graph([("a", "agent", it.agent("a"))], "start > a"), "settings": {"durable": True}}
    server = it.place.server
    follows = Following(server, server.deploy(document), message="hi")
    it.model("a").text("Half of it")
    follows.until("workflow_node_start", node_id="a")
    yield
    with pytest.raises((OSError, http.client.HTTPException)):
        follows.rest()
    last = f"{follows.run_id}:{follows.seen[-1]['seq']}"
    later = Reader(attach(server, follows.run_id, "protocol=runs", last=last))
    reply(it.model("a"), "All of it")
    events = [*follows.seen, *(value for _, value in later.rest())]
    (gap,) = [e["data"] for e in events if e["type"] == "gap"]
    assert gap["reason"] == "worker_lost"
    said = [e["data"]["content"] for e in events if e["type"] in ("chat_chunk", "agent_message")]
    assert said == ["All of it"]
    numbers = [e["seq"] for e in events]
    assert numbers == sorted(numbers)
    assert [e["data"]["status"] for e in events if e["type"] == "done"] == ["completed"]
    assert events[-1]["type"] == "done"
    assert it.counts() == {"a": 2}


def in_a_tool(it: Case) -> Steps:
    """A tool that changes something is at work: whether it did cannot be known, so it does not run again."""
    tools = [it.tool("pay"), it.tool("note")]
    it.begin([("a", "agent", it.agent("a", tools=tools))], "start > a")
    it.plans("a", ("note", {}), ("pay", {"sum": 5}))
    it.works("note")
    assert it.place.desk.next(f"{it.name}-pay").body == {"sum": 5}
    yield
    it.cut()
    it.follow()
    call = it.model("a")
    noted, paid = (content for _, content in _results(call.body))
    assert noted == "fine"
    assert paid == "The outcome of this call is unknown: the server stopped while it ran."
    reply(call, "It may be paid.")
    record = it.end(lost=True)
    assert [c["status"] for c in record["toolCalls"]["a"]["list"]] == ["success", "error"]
    assert it.counts() == {"a": 2, "pay": 1, "note": 1}


def in_a_tool_that_may_be_repeated(it: Case) -> Steps:
    it.begin([("a", "agent", it.agent("a", tools=[it.tool("look", "GET"), it.tool("note")]))], "start > a")
    it.plans("a", ("look", {}), ("note", {}))
    it.works("note")
    it.place.desk.next(f"{it.name}-look")
    yield
    it.cut()
    it.follow()
    it.works("look", b'"found"')
    call = it.model("a")
    assert [content for _, content in _results(call.body)] == ["found", "fine"]
    reply(call, "Found.")
    record = it.end(lost=True)
    assert [c["status"] for c in record["toolCalls"]["a"]["list"]] == ["success", "success"]
    assert it.counts() == {"a": 2, "look": 2, "note": 1}


def in_a_tool_block(it: Case) -> Steps:
    """A tool block that changes something, and one behind it that takes its failure up."""
    it.begin(
        [
            ("t", "tool", {"tool": it.tool("first"), "arguments": {"n": 1}}),
            ("u", "tool", {"tool": it.tool("second"), "arguments": {"n": 2}}),
            ("bad", "set", {"values": {"text": "{{ blocks.u.error }}"}}),
        ],
        "start > t",
        "t > u",
        "u -error> bad",
    )
    it.works("first")
    it.place.desk.next(f"{it.name}-second")
    yield
    it.cut()
    record = it.status("completed")
    assert "is not known: the server stopped meanwhile" in record["output"]["text"]
    assert it.counts() == {"first": 1, "second": 1}
    it.follow().rest()
    assert [frame["data"]["success"] for _, frame in it.later.told if "data" in frame] == [False]


def beside_one_who_waits(it: Case) -> Steps:
    """One branch waits for a person, a model speaks in the other."""
    it.begin(
        [
            ("p", "parallel", {"branches": ["one", "two"]}),
            ("ask", "approval", {"prompt": "Well?", "draft": "yes"}),
            ("x", "tool", {"tool": it.tool("told"), "arguments": {"said": "{{ blocks.ask.content }}"}}),
            ("a", "agent", it.agent("a")),
            ("z", "response", {"body": "{{ blocks.a.content }}"}),
        ],
        "start > p",
        "p -branch:one> ask",
        "ask -approved> x",
        "p -branch:two> a",
        "p -exit> z",
    )
    it.model("a").text("Half")
    it.first.upto("Half")
    (asked,) = it.asks()
    yield
    it.cut()
    assert it.asks() == [asked]
    it.follow()
    speaking = it.model("a")
    it.answer(asked["id"], decision="edit", text="no")
    assert it.works("told").body == {"said": "no"}
    reply(speaking, "Whole")
    record = it.end(lost=True)
    assert record["output"] == "Whole"
    assert it.standing() == {"a": "Whole"}
    assert record["humanWaitMs"] == 0  # it never paused
    assert it.counts() == {"a": 2, "told": 1}


def in_a_third_iteration(it: Case) -> Steps:
    it.begin(
        [
            ("l", "loop", {"kind": "for", "times": 4}),
            ("t", "tool", {"tool": it.tool("step"), "arguments": {"n": "{{ loop.index }}"}}),
            ("a", "agent", it.agent("a")),
            ("z", "set", {"values": {"last": "{{ blocks.a.content }}"}}),
        ],
        "start > l",
        "l -loop> t",
        "t > a",
        "a > l",
        "l -exit> z",
    )
    for number in range(2):
        it.works("step")
        it.says("a", f"Round {number}")
    it.works("step")
    it.model("a").text("Round")
    yield
    it.cut()
    it.follow()
    it.says("a", "Round 2")
    it.works("step")
    it.says("a", "Round 3")
    record = it.end(lost=True)
    assert record["output"] == {"last": "Round 3"}
    steps = [call.body["n"] for call in it.place.desk.seen[f"{it.name}-step"]]
    assert steps == ["0", "1", "2", "3"] or steps == [0, 1, 2, 3]
    assert it.counts() == {"a": 5, "step": 4}
    done = {block["blockId"]: block["execution"] for block in record["blocks"]}
    assert (done["t"], done["a"], done["l"]) == (4, 4, 1)


def in_a_child(it: Case) -> Steps:
    """In a workflow that a workflow runs, after a tool of it."""
    inner = [
        ("t", "tool", {"tool": it.tool("step"), "arguments": {"n": 1}}),
        ("a", "agent", it.agent("a")),
    ]
    child = it.place.server.deploy(graph(inner, "start > t", "t > a"))
    it.begin(
        [("w", "workflow", {"workflow": child}), ("z", "set", {"values": {"got": "{{ blocks.w.content }}"}})],
        "start > w",
        "w > z",
    )
    it.works("step")
    it.model("a").text("Half")
    yield
    it.cut()
    it.follow()
    it.says("a", "Whole")
    record = it.end(lost=True)
    assert record["output"] == {"got": "Whole"}
    assert {block["blockId"] for block in record["blocks"]} >= {"w", "w/t", "w/a", "z"}
    assert it.counts() == {"a": 2, "step": 1}


def in_a_secret_vote(it: Case) -> Steps:
    """One of three has voted. All are asked again: nothing of a voter may be written down."""
    names = ("A", "B", "C")
    voters = [{**it.agent(name), "name": f"Voter {name}"} for name in names]
    vote = {"voters": voters, "options": ["yes", "no"], "secret": True, "question": "Shall we?"}
    it.begin([("v", "vote", vote), ("z", "set", SET)], "start > v", "v > z")
    calls = {name: it.model(name) for name in names}
    reply(calls["B"], "no")
    assert calls["B"].left.wait(20)
    yield
    it.cut()
    it.follow()
    for name in names:
        it.says(name, "yes" if name != "C" else "no")
    record = it.end(lost=True)
    (vote_block,) = [block for block in record["blocks"] if block["blockId"] == "v"]
    assert (vote_block["output"]["winner"], vote_block["output"]["votes"]) == ("yes", {"yes": 2, "no": 1})
    assert "Voter" not in json.dumps([record["blocks"], record["modelCalls"], record["toolCalls"]])
    assert it.counts() == {"A": 2, "B": 2, "C": 2}


CASES: tuple[Callable[[Case], Steps], ...] = (
    paused_at_a_text,
    paused_at_a_call,
    in_a_turn,
    in_a_turn_told_as_run_events,
    in_a_tool,
    in_a_tool_that_may_be_repeated,
    in_a_tool_block,
    beside_one_who_waits,
    in_a_third_iteration,
    in_a_child,
    in_a_secret_vote,
)


def _results(body: t.Any) -> list[tuple[str, str]]:
    return [(m["tool_call_id"], m["content"]) for m in body["messages"] if m["role"] == "tool"]
