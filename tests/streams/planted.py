"""Runs in which whatever a visitor may not see carries a mark.

Law of this room: the marks go where contract section 8 says no, whatever the code under test does about it; names of
tools, texts and ids carry none.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterator, Sequence

from hypothesis import strategies as st
from msgspec.structs import replace

from app import events as ev
from tests.streams.generate import Scenario, runs

#: What no byte for a visitor may hold. The second one is every price.
MARK, PRICE = "PLANTED-", 7319.25
_MONEY = {"total": PRICE, "currency": "USD", "estimated": False}
_TOKENS = {"input": 1, "output": 2, "total": 3}

#: Where Hypothesis puts what blocks of other types say.
OTHERS = ("debate_1", "sequence_1", "vote_1", "router_1", "guard_1", "approval_1", "both_1", "wf_1", "tool_1")


def mark(what: str) -> str:
    """A mark that says what it stands for."""
    return f"{MARK}{what}"


def usage() -> dict[str, t.Any]:
    """What a run used."""
    share = {"tokens": _TOKENS, "cost": _MONEY}
    return {
        "tokens": _TOKENS,
        "cost": _MONEY,
        "durationMs": 9,
        "activeMs": 9,
        "queuedMs": 0,
        "humanWaitMs": 0,
        "byBlock": {"agent_1": share},
        "byModel": {mark("model"): share},
    }


def call(block: str) -> dict[str, t.Any]:
    """A call as an output has it."""
    return {
        "id": f"call_{block}",
        "name": "clock",
        "arguments": {"q": mark("argument")},
        "result": mark("result"),
        "status": "success",
        "startTime": "2026-01-01T00:00:00.000Z",
        "endTime": "2026-01-01T00:00:00.001Z",
        "duration": 1,
    }


def agent_output(block: str, **more: t.Any) -> dict[str, t.Any]:
    """What an agent outputs (contract section 2)."""
    segment = {"startTime": "a", "endTime": "b", "duration": 1, "thinking": mark("thought")}
    return {
        "content": "An answer.",
        "model": mark("model"),
        "finishReason": "stop",
        "tokens": _TOKENS,
        "toolCalls": {"list": [call(block)], "count": 1},
        "providerTiming": {
            "duration": 3,
            "timeSegments": [
                {"type": "model", "name": mark("model"), **segment},
                {"type": "tool", "name": "clock", "toolCallId": "c", "result": mark("result"), **segment},
            ],
        },
        "cost": {"input": PRICE, "output": PRICE, "total": PRICE, "currency": "USD"},
        **more,
    }


def _totals(block: str) -> dict[str, t.Any]:
    agent = agent_output(block)
    return {key: agent[key] for key in ("tokens", "toolCalls", "cost")}


def _said(block: str) -> list[ev.RunEvent]:
    """What blocks of each kind say between their start and their end."""
    names = [mark("name"), mark("name")]
    told: dict[str, list[ev.RunEvent]] = {
        "debate_1": [
            ev.DebateStarted(block, names, 1),
            ev.DebateRound(block, 1),
            ev.AgentMessage(block, "I say so.", names[0], 1),
            ev.AgentMessage(block, "An answer.", names[1], 1, True),
            ev.DebateEnded(block, 1, True),
        ],
        "sequence_1": [
            ev.SequenceStep(block, 0, names[0], "start"),
            ev.ToolStarted(block, 0, "call_sequence_1", "clock", 5),
            ev.TurnEnded(block, 0, "intermediate", "tool_turn"),
            ev.ToolExecuting(block, 0, "call_sequence_1", "clock", {"q": mark("argument")}, 5),
            ev.ToolFinished(
                block, 0, "call_sequence_1", "clock", "success", {"q": mark("argument")}, mark("result"), 9, 5
            ),
            ev.SequenceStep(block, 0, names[0], "end"),
        ],
        "vote_1": [
            ev.VoteCast(block, "tea", 0, names[0]),
            ev.VoteCast(block, None, 1, names[1]),
            ev.VoteClosed(block, {"tea": 1, "cake": 0}, "tea", True, 1),
        ],
        "router_1": [ev.RouteChosen(block, "refund", mark("reason"))],
        "approval_1": [
            ev.DecisionRequested(
                block, "pause_1", {"kind": "answer", "draft": "Dear you", "show": {"x": mark("result")}}
            ),
            ev.DecisionSettled(block, "pause_1", "approve", 5, mark("key"), mark("reason")),
        ],
        "tool_1": [
            ev.DecisionRequested(
                block,
                "pause_2",
                {
                    "kind": "tool",
                    "tool": "clock",
                    "arguments": {"q": mark("argument")},
                    "reasons": [mark("why")],
                },
                "call_tool_1",
            ),
            ev.DecisionSettled(block, "pause_2", "approve", 5, mark("key")),
        ],
        "wf_1": [
            ev.ChildStarted(block, mark("workflow"), 7, [ev.BlockInfo("inner", "agent", mark("name"))], []),
            ev.BlockStarted("wf_1/inner", "agent", mark("name")),
            ev.UsageReported("wf_1/inner", mark("model"), _TOKENS, PRICE),
            ev.ModelCallFailed("wf_1/inner", mark("model"), "provider_idle", 1),
            ev.BlockFinished(
                "wf_1/inner", "failed", {"error": mark("error"), "code": "x"}, "x", mark("error")
            ),
        ],
    }
    return told.get(block, [])


def _output(block: str) -> dict[str, t.Any]:
    speaker = {"index": 0, "name": mark("name")}
    found: dict[str, dict[str, t.Any]] = {
        "debate_1": {
            "content": "An answer.",
            "statements": [{"round": 1, **speaker, "content": "I say so."}],
            "transcript": f"{mark('name')} (round 1): I say so.",
            **_totals(block),
        },
        "sequence_1": {
            "content": "An answer.",
            "answers": [{"content": "x", "model": mark("model"), "finishReason": "stop", **speaker}],
            **_totals(block),
        },
        "vote_1": {"content": "tea", "ballots": [{**speaker, "vote": "tea"}], **_totals(block)},
        "router_1": {"route": "refund", "reason": mark("reason"), **_totals(block)},
        "guard_1": {
            "passed": True,
            "decisions": [
                {"check": mark("check"), "passed": True, "reason": mark("reason")},
                {"check": mark("check"), "skipped": True},
            ],
            "text": "fine",
        },
        "approval_1": {"decision": "approve", "asked": True, "by": mark("key"), "reason": mark("reason")},
        "both_1": {
            "branches": {"a": {"x": agent_output(block)}, "b": None},
            "errors": {"b": {"error": mark("error"), "code": "provider_idle"}},
        },
        "wf_1": agent_output(block),
        "tool_1": {"status": "success"},
    }
    return found[block]


_TYPES = {
    "debate_1": "debate",
    "sequence_1": "sequential",
    "vote_1": "vote",
    "router_1": "router",
    "guard_1": "guardrail",
    "approval_1": "approval",
    "both_1": "parallel",
    "wf_1": "workflow",
    "tool_1": "tool",
}


def everything() -> list[ev.RunEvent]:
    """One event of each kind that can carry a mark, of blocks of all types."""
    outputs = {block: _output(block) for block in OTHERS} | {"agent_1": agent_output("agent_1")}
    calls = {"agent_1": [call("agent_1"), {**call("agent_1"), "status": None}]}
    one = [
        ev.StreamFailed("agent_1", mark("error")),
        ev.BlockFinished("agent_1", "executed", agent_output("agent_1")),
        ev.RunPaused([("pause_1", "approval_1")], outputs, calls, usage()),
        ev.RunCompleted(outputs, outputs, calls, usage(), False, mark("error")),
        ev.RunFailed("x", mark("error"), "agent_1", usage()),
        ev.RunFailed(mark("code"), mark("error"), "agent_1", usage()),
        ev.RunCancelled("stop_requested", usage()),
        ev.RunTimedOut(usage()),
        ev.RunStarted("run_1", mark("workflow"), [ev.BlockInfo("agent_1", "agent", mark("name"))], []),
    ]
    return [*one, *(event for block in OTHERS for event in _script(block))]


def _script(block: str) -> Iterator[ev.RunEvent]:
    yield ev.BlockStarted(block, _TYPES[block], mark("name"))
    yield from _said(block)
    yield ev.BlockFinished(block, "executed", _output(block))


@st.composite
def planted(draw: st.DrawFn) -> Scenario:
    """A drawn run, beside which blocks of all other types run, with marks planted in all of it."""
    run = draw(runs())
    chosen = draw(st.lists(st.sampled_from(OTHERS), unique=True))
    infos = [ev.BlockInfo(block, _TYPES[block], mark("name")) for block in chosen]
    first, *middle, terminal = (_marked(event) for event in run.events)
    assert isinstance(first, ev.RunStarted)
    first = replace(first, workflow_id=mark("workflow"), blocks=[*first.blocks, *infos])
    for block in chosen:
        middle = _merged(draw, middle, list(_script(block)))
    outputs = {block: _output(block) for block in chosen}
    if isinstance(terminal, ev.RunCompleted):
        own = {**terminal.outputs, **outputs}
        output = draw(st.sampled_from([terminal.output, own, *outputs.values()]))
        calls = {**terminal.tool_calls, **{block: [call(block)] for block in chosen}}
        terminal = replace(terminal, output=output, outputs=own, tool_calls=calls)
    events = [first, *middle, terminal]
    envelopes = [ev.Envelope(seq, 1_700_000_000_000 + seq, event) for seq, event in enumerate(events, 1)]
    return Scenario(envelopes, run.agents, run.structured, run.contents)


def _merged(draw: st.DrawFn, some: Sequence[ev.RunEvent], others: Sequence[ev.RunEvent]) -> list[ev.RunEvent]:
    """Both, each in its order."""
    places = sorted(draw(st.lists(st.integers(0, len(some)), min_size=len(others), max_size=len(others))))
    found: list[ev.RunEvent] = []
    at = 0
    for place, event in zip(places, others, strict=True):
        found += some[at:place]
        found.append(event)
        at = place
    return [*found, *some[at:]]


def _marked(event: ev.RunEvent) -> ev.RunEvent:
    """An event of a drawn run with marks where it says what visitors may not know."""
    how = _MARKED.get(type(event))
    return event if how is None else replace(event, **how(event))


def _ended(event: ev.BlockFinished) -> dict[str, t.Any]:
    if event.status == "failed":
        return {"output": {"error": mark("error"), "code": "cancelled"}, "message": mark("error")}
    return {"output": agent_output(event.block, content=(event.output or {}).get("content"))}


def _completed(event: ev.RunCompleted) -> dict[str, t.Any]:
    outputs = {block: agent_output(block) for block in event.tool_calls}
    return {
        "output": next(iter(outputs.values()), None),
        "outputs": outputs,
        "tool_calls": {block: [call(block)] for block in outputs},
        "usage": usage(),
        "error": None if event.success else mark("error"),
    }


_MARKED: dict[type[ev.RunEvent], t.Callable[[t.Any], dict[str, t.Any]]] = {
    ev.RunStarted: lambda event: {"blocks": [replace(info, name=mark("name")) for info in event.blocks]},
    ev.BlockStarted: lambda event: {"name": mark("name")},
    ev.BlockFinished: _ended,
    ev.ToolExecuting: lambda event: {"arguments": {"q": mark("argument")}},
    ev.ToolFinished: lambda event: {"arguments": {"q": mark("argument")}, "result": mark("result")},
    ev.StreamFailed: lambda event: {"message": mark("error")},
    ev.RunFailed: lambda event: {"message": mark("error"), "usage": usage()},
    ev.RunCancelled: lambda event: {"usage": usage()},
    ev.RunTimedOut: lambda event: {"usage": usage()},
    ev.RunCompleted: _completed,
}
