"""Graph events: which node runs, is done, waits for a person, and what the turn came to."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable

import pytest
from hypothesis import HealthCheck, given, settings
from jsonschema import Draft202012Validator

from app import events as ev
from app.clock import rfc3339
from app.encoding import dumps
from app.engine.run_log import RunLog
from app.state import RunState
from app.streams.chat_response import Turn
from app.streams.graph_event_schema import EVENTS, graph_events
from app.streams.graph_events import GraphEvents, GraphEventsOptions
from app.streams.replay import Replay
from app.streams.rights import Rights
from app.streams.topology import Topology, outline
from tests.streams.generate import USAGE, Scenario, runs
from tests.support import sse

Frame = dict[str, t.Any]
CLOSED = Draft202012Validator(graph_events(closed=True))
TURN = Turn("run_1", "thr_1", "0" * 31 + "1", 3)

BLOCKS = (
    ev.BlockInfo("start", "start", "Start"),
    ev.BlockInfo("guard", "guardrail", "Guard"),
    ev.BlockInfo("find", "retrieve", "Find"),
    ev.BlockInfo("agent_1", "agent", "Agent"),
)
EDGES = (("start", "", "guard"), ("guard", "true", "find"), ("find", "", "agent_1"))
REVIEW = {"kind": "tool", "tool": "pay", "arguments": {"to": "Ann"}, "reasons": ["It costs money."]}


def numbered(*events: ev.RunEvent) -> list[ev.Envelope]:
    """The events of a run, behind its first."""
    begin = ev.RunStarted("run_1", "wf", BLOCKS, EDGES)
    return [ev.Envelope(place, 1000 + place, event) for place, event in enumerate((begin, *events), 1)]


def projection(topology: Topology | None = None, *, payloads: bool = True) -> GraphEvents:
    return GraphEvents(GraphEventsOptions(TURN, topology, Rights(payloads=payloads)))


def read(stream: bytes) -> list[Frame]:
    """Every frame as ``{event, data}``; each is as the schema says, and ids stand on the last frame of an envelope."""
    frames = [{"event": frame.event, "data": frame.json()} for frame in sse.parse(stream)]
    for frame in frames:
        CLOSED.validate(frame)
    return frames


def told(envelopes: Iterable[ev.Envelope], topology: Topology | None = None, **more: t.Any) -> list[Frame]:
    made = projection(topology, **more)
    return read(b"".join(made.frames(envelope) for envelope in envelopes))


def kinds(frames: list[Frame]) -> list[str]:
    return [f"{f['event']} {f['data']['node']}" if "node_" in f["event"] else f["event"] for f in frames]


def ran(block: str, kind: str, output: t.Any = None, execution: int = 1) -> tuple[ev.RunEvent, ...]:
    return (
        ev.BlockStarted(block, kind, block.title(), execution),
        ev.BlockFinished(block, "executed", output or {}, duration_ms=7, execution=execution),
    )


def completed(output: t.Any, **outputs: t.Any) -> ev.RunCompleted:
    return ev.RunCompleted(output, outputs, {}, USAGE)


def test_a_turn_begins_with_the_graph_and_ends_with_the_response() -> None:
    decisions = {"passed": False, "decisions": [{"check": "length", "passed": False, "reason": "has 9"}]}
    envelopes = numbered(
        *ran("start", "start"),
        *ran("guard", "guardrail", decisions),
        ev.BlockFinished("find", "skipped"),
        ev.BlockFinished("agent_1", "skipped"),
        completed({"content": "No."}, guard=decisions),
    )
    frames = told(envelopes)
    assert kinds(frames) == [
        "graph_topology",
        "node_started start",
        "node_completed start",
        "node_started guard",
        "node_completed guard",
        "node_completed find",
        "node_completed agent_1",
        "turn_completed",
    ]
    assert frames[0]["data"] == {
        "nodes": [{"id": info.id, "type": info.type, "label": info.name} for info in BLOCKS],
        "edges": [
            {"source": "start", "target": "guard"},
            {"source": "guard", "target": "find", "label": "true", "conditional": True},
            {"source": "find", "target": "agent_1"},
        ],
        "flags": {"entry": "start", "exits": ["agent_1"]},
    }
    assert frames[1]["data"] == {"node": "start", "run_id": "run_1", "ts_ms": 1002}
    assert frames[2]["data"] == {"node": "start", "status": "executed", "duration_ms": 7}
    assert frames[5]["data"] == {"node": "find", "status": "skipped", "duration_ms": 0}
    assert frames[-1]["data"] == {
        "thread_id": "thr_1",
        "run_id": "run_1",
        "content": "No.",
        "citations": [],
        "guardrail_decisions": [{"node": "guard", "check": "length", "passed": False, "reason": "has 9"}],
        "cost": {"total": 0.25, "currency": "USD"},
        "status": "complete",
        "path": [
            {name: f["data"][name] for name in ("node", "status", "duration_ms")}
            for f in frames
            if f["event"] == "node_completed"
        ],
        "trace_id": TURN.trace_id,
        "turn_index": 3,
    }


def test_the_last_frame_of_each_event_has_its_id() -> None:
    made = projection()
    for envelope in numbered(*ran("start", "start"), completed("Hi.")):
        frames = sse.parse(made.frames(envelope))
        assert frames[-1].id == f"run_1:{envelope.seq}"
        assert [frame.id for frame in frames[:-1]] == [None] * (len(frames) - 1)
    assert made.done


def test_a_node_that_a_loop_skips_once_and_runs_once_is_not_skipped() -> None:
    envelopes = numbered(
        *ran("start", "start"),
        ev.BlockFinished("find", "skipped"),
        *ran("find", "retrieve", execution=2),
        completed("x"),
    )
    about = [f["data"] for f in told(envelopes) if f["data"].get("node") == "find"]
    assert about == [
        {"node": "find", "run_id": "run_1", "ts_ms": 1005, "iteration": 2},
        {"node": "find", "status": "executed", "duration_ms": 7, "iteration": 2},
    ]


def test_iterations_and_instances_tell_executions_of_one_node_apart() -> None:
    drawn = Topology(
        b'{"nodes":[],"edges":[],"flags":{"entry":"","exits":[]}}', {"a": "agent"}, frozenset({"a"})
    )
    events = [*ran("a[0]", "agent"), *ran("a[1]", "agent"), *ran("a[0]", "agent", execution=2)]
    frames = told(numbered(*events, completed("x")), drawn)[1:-1]
    which = [(f["data"]["node"], f["data"]["instance"], f["data"]["iteration"]) for f in frames]
    pairs = [("a", "a[0]", 1), ("a", "a[1]", 1), ("a", "a[0]", 2)]
    assert which == [pair for pair in pairs for _ in range(2)]


def test_what_a_node_runs_of_another_workflow_is_inside_of_it() -> None:
    inner = (ev.BlockInfo("x", "retrieve", "X"),)
    passages = {"citations": [{"index": 1}]}
    envelopes = numbered(
        ev.BlockStarted("agent_1", "workflow", "Agent"),
        ev.ChildStarted("agent_1", "wf_2", 1, inner, ()),
        *ran("agent_1/x", "retrieve", passages),
        ev.BlockFinished("agent_1", "executed", {}),
        completed("x", **{"agent_1/x": passages}),
    )
    frames = told(envelopes)
    assert [kind for kind in kinds(frames) if "/" in kind or kind.endswith(" x")] == []
    assert frames[-1]["data"]["citations"] == [{"index": 1}]


@pytest.mark.parametrize(
    ("end", "error"),
    [
        (
            ev.RunFailed("provider_overloaded", "Busy.", "agent_1", USAGE),
            {"code": "provider_overloaded", "message": "Busy.", "retryable": True},
        ),
        (
            ev.RunFailed("internal", "Oh.", None, USAGE),
            {"code": "internal", "message": "Oh.", "retryable": False},
        ),
        (ev.RunTimedOut(USAGE), {"code": "timed_out", "message": ev.TIMEOUT_TEXT, "retryable": True}),
        (
            ev.RunCancelled("stop_requested", USAGE),
            {"code": "cancelled", "message": ev.STOPPED_TEXT, "retryable": False},
        ),
        (
            ev.RunCancelled("server_shutdown", USAGE),
            {"code": "cancelled", "message": ev.SHUTDOWN_TEXT, "retryable": True},
        ),
    ],
)
def test_nothing_is_made_up_when_a_turn_comes_to_no_answer(end: ev.Terminal, error: Frame) -> None:
    envelopes = numbered(
        *ran("start", "start"),
        ev.BlockStarted("find", "retrieve", "Find"),
        ev.BlockStarted("agent_1", "agent", "Agent"),
        ev.BlockFinished("agent_1", "failed", {"error": "No.", "code": "x"}, "x", "No.", 5),
        # What the end of the run closes was cut off.
        ev.BlockFinished("find", "failed", None, "cancelled", "It was stopped.", 5),
        end,
    )
    frames = told(envelopes)
    assert kinds(frames)[-4:] == [
        "node_started find",
        "node_started agent_1",
        "node_completed agent_1",
        "error",
    ]
    assert frames[-2]["data"] == {"node": "agent_1", "status": "failed", "duration_ms": 5, "error": "No."}
    assert frames[-1]["data"] == error


def test_what_was_cut_off_in_a_run_that_goes_on_has_ended() -> None:
    envelopes = numbered(
        ev.BlockStarted("find", "retrieve", "Find"),
        ev.BlockFinished("find", "failed", None, "cancelled", "It was stopped.", 5),
        *ran("agent_1", "agent"),
        completed("x"),
    )
    frames = told(envelopes)
    assert kinds(frames)[1:4] == ["node_started find", "node_completed find", "node_started agent_1"]
    assert frames[2]["data"] == {
        "node": "find",
        "status": "failed",
        "duration_ms": 5,
        "error": "It was stopped.",
    }


def paused(*pauses: tuple[str, str], expires_at: int | None = None) -> list[ev.Envelope]:
    asked = [
        ev.DecisionRequested(block, pause_id, REVIEW, "call_1", expires_at) for pause_id, block in pauses
    ]
    return numbered(
        *ran("start", "start"),
        ev.BlockStarted("agent_1", "agent", "Agent"),
        *asked,
        ev.RunPaused(pauses, {}, {}, USAGE),
    )


def test_a_pause_ends_the_stream_and_says_what_is_asked() -> None:
    made = projection()
    frames = read(b"".join(made.frames(each) for each in paused(("dec_1", "agent_1"), expires_at=5000)))
    assert kinds(frames)[-2:] == ["node_started agent_1", "paused"]
    assert frames[-1]["data"] == {
        "run_id": "run_1",
        "thread_id": "thr_1",
        "pause_id": "dec_1",
        "node": "agent_1",
        "review": REVIEW,
        "expires_at": rfc3339(5000),
    }
    assert made.done
    assert made.response is not None
    body = sse.Frame(made.response.decode()).json()
    assert body["status"] == "paused_for_review"
    assert body["review"] == {
        "pause_id": "dec_1",
        "node": "agent_1",
        **REVIEW,
        "expires_at": rfc3339(5000),
    }
    assert body["content"] == ""
    assert [entry["node"] for entry in body["path"]] == ["start"]


def test_several_open_questions_are_named_oldest_first() -> None:
    (*_, last) = told(paused(("dec_1", "agent_1"), ("dec_2", "agent_1")))
    assert last["data"]["pause_id"] == "dec_1"
    assert last["data"]["others"] == [{"pause_id": "dec_2", "node": "agent_1", "review": REVIEW}]


def test_arguments_are_for_those_who_may_see_payloads() -> None:
    (*_, last) = told(paused(("dec_1", "agent_1")), payloads=False)
    assert last["data"]["review"] == {name: REVIEW[name] for name in ("kind", "tool", "reasons")}


def resumed() -> list[ev.Envelope]:
    rest = [
        ev.RunResumed(4000),
        ev.DecisionSettled("agent_1", "dec_1", "approve", 9000),
        ev.BlockFinished("agent_1", "executed", {}, duration_ms=9),
        completed("Done."),
    ]
    before = paused(("dec_1", "agent_1"))
    last = before[-1].seq
    return before + [ev.Envelope(last + n, 9000 + n, event) for n, event in enumerate(rest, 1)]


def test_a_turn_that_goes_on_draws_the_graph_again_and_adds_how_long_it_waited() -> None:
    envelopes = resumed()
    made = projection()
    for envelope in envelopes[:-4]:
        made.frames(envelope)
    frames = read(b"".join(made.frames(envelope) for envelope in envelopes[-4:]))
    assert kinds(frames) == [
        "graph_topology",
        "node_completed agent_1",
        "node_completed guard",
        "node_completed find",
        "turn_completed",
    ]
    assert made.response is not None
    stream = made.response[:-1] + b',"human_wait_ms":4000}'
    assert dumps(frames[-1]["data"]) == stream
    assert b"human_wait_ms" not in made.response


def test_nodes_end_once_over_a_pause() -> None:
    completed_nodes = [f["data"]["node"] for f in told(resumed()) if f["event"] == "node_completed"]
    assert sorted(completed_nodes) == sorted(info.id for info in BLOCKS)


def replayed(envelopes: list[ev.Envelope], shown: int) -> bytes:
    """What a reader gets who has everything up to ``shown``."""
    log, made, replay = RunLog(), projection(), Replay(0, shown)
    for envelope in envelopes:
        log.append(envelope)
    pieces = []
    while replay.cursor < log.last:
        pieces.append(replay.next(made, log))
    return b"".join(pieces)


def test_who_comes_back_reads_on_byte_for_byte_and_over_a_pause_that_is_over() -> None:
    envelopes = resumed()
    live = projection()
    frames = [live.frames(envelope) for envelope in envelopes]
    pause = next(place for place, each in enumerate(envelopes) if isinstance(each.event, ev.RunPaused))
    assert replayed(envelopes, envelopes[pause].seq) == b"".join(frames[pause + 1 :])
    without = b"".join(frame for place, frame in enumerate(frames) if place != pause)
    assert replayed(envelopes, 0) == without
    assert replayed(envelopes[: pause + 1], 0) == b"".join(frames[: pause + 1])


def test_after_a_crash_what_stands_comes_again_and_the_graph_once() -> None:
    before = paused(("dec_1", "agent_1"))[:-1]
    lost = [
        ev.Gap(before[-1].seq + 1, 1000, "worker_lost"),
        ev.RunResumed(),
        ev.BlockFinished("agent_1", "executed", {}, duration_ms=9),
        completed("Done."),
    ]
    after = [ev.Envelope(1001 + place, 9000, event) for place, event in enumerate(lost)]
    frames = read(replayed([*before, *after], before[-1].seq))
    assert kinds(frames)[:5] == [
        "graph_topology",
        "gap",
        "node_completed start",
        "node_started agent_1",
        "node_completed agent_1",
    ]
    assert frames[1]["data"] == {"from": before[-1].seq + 1, "to": 1000, "reason": "worker_lost"}
    assert [frame["event"] for frame in frames].count("graph_topology") == 1
    assert "human_wait_ms" not in frames[-1]["data"]


def test_after_a_gap_the_graph_and_what_stands_come_again() -> None:
    envelopes = resumed()
    state = RunState()
    for envelope in envelopes[:5]:
        state.apply(envelope)
    made = projection()
    gap = ev.Envelope(5, 2000, ev.Gap(1, 5, "evicted"))
    frames = read(made.gap(gap, state) + b"".join(made.frames(envelope) for envelope in envelopes[5:]))
    assert kinds(frames)[:5] == [
        "graph_topology",
        "gap",
        "node_completed start",
        "node_started agent_1",
        "paused",
    ]
    assert frames[4]["data"]["review"] == REVIEW
    assert frames[-1]["event"] == "turn_completed"


def test_the_cost_is_unknown_when_a_price_is() -> None:
    def cost(usage: Frame) -> Frame:
        (*_, last) = told(numbered(ev.RunCompleted("x", {}, {}, usage)))
        return t.cast(Frame, last["data"]["cost"])

    assert cost({"byModel": {"x/y": {}}}) == {"currency": "USD"}
    assert cost({}) == {"total": 0, "currency": "USD"}


@pytest.mark.parametrize(
    ("output", "content"),
    [
        (None, ""),
        ("Hi.", "Hi."),
        ({"content": "Hi.", "more": 1}, "Hi."),
        ({"content": 4}, '{"content":4}'),
        ([1], "[1]"),
    ],
)
def test_the_content_is_what_the_output_says(output: t.Any, content: str) -> None:
    (*_, last) = told(numbered(completed(output)))
    assert last["data"]["content"] == content


def test_citations_are_those_that_the_output_names_else_all_that_were_found() -> None:
    found = {"citations": [{"index": 1}, {"index": 2}]}

    def citations(output: t.Any) -> t.Any:
        (*_, last) = told(numbered(*ran("find", "retrieve", found), completed(output, find=found)))
        return last["data"]["citations"]

    assert citations("x") == found["citations"]
    assert citations({"content": "x", "citations": [{"index": 2}]}) == [{"index": 2}]
    assert citations({"content": "x", "citations": []}) == []


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(runs())
def test_any_run_is_told_in_pairs_and_ends_once(run: Scenario) -> None:
    (begin,) = [event for event in run.events if isinstance(event, ev.RunStarted)]
    frames = told(run.envelopes, outline(begin.blocks, begin.edges))
    names = [frame["event"] for frame in frames]
    ends = [name for name in names if name in ("turn_completed", "error", "paused")]
    assert names[0] == "graph_topology"
    assert ends == [names[-1]]
    opened: list[tuple[t.Any, ...]] = []
    done: set[str] = set()
    for frame in frames:
        data = frame["data"]
        which = (data.get("node"), data.get("instance"), data.get("iteration"))
        if frame["event"] == "node_started":
            assert which not in opened
            opened.append(which)
        elif frame["event"] == "node_completed":
            done.add(data["node"])
            if data["status"] == "skipped":
                assert names[-1] == "turn_completed"
                assert frame["data"]["node"] not in [node for node, _, _ in opened]
            else:
                opened.remove(which)
    if names[-1] == "turn_completed":
        assert opened == []
        assert done == {info.id for info in begin.blocks}


def test_every_row_of_the_table_has_a_frame() -> None:
    made = projection()
    (detached,) = read(made.detached(4, 1000))
    assert made.done
    seen = {"gap", detached["event"]}
    for envelopes in (resumed(), paused(("dec_1", "agent_1")), numbered(ev.RunTimedOut(USAGE))):
        seen |= {frame["event"] for frame in told(envelopes)}
    assert seen == {row.event for row in EVENTS}
    for row in EVENTS:
        if row.event not in ("turn_completed", "gap"):
            words = set(
                row.shown.replace("?", "").replace("[{", " ").replace("{", " ").replace(",", " ").split()
            )
            for name in row.data.__struct_fields__:
                assert any(name in word for word in words), (row.event, name)
