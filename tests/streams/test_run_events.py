"""Run events: order, pairs, levels and rights, for whatever a run says (contract section 5)."""

from __future__ import annotations

import dataclasses
import itertools
import typing as t
from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import HealthCheck, given, settings
from jsonschema import Draft202012Validator

from app import encoding
from app import events as ev
from app.state import RunState
from app.streams import run_event_data
from app.streams.rights import Rights
from app.streams.run_event_levels import EVENTS, LEVELS, Level, shown
from app.streams.run_event_schema import DATA, run_events
from app.streams.run_events import RunEvents, RunEventsOptions
from app.streams.voices import Voices
from tests.streams.generate import ARGUMENT, RESULT, THOUGHT, USAGE, Scenario, runs
from tests.support import sse

CLOSED = Draft202012Validator(run_events(closed=True))
OPEN = Draft202012Validator(run_events())
EVERYTHING = Rights(True, True, True)
MANY = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])

Frame = dict[str, t.Any]


def options(level: Level = "full", rights: Rights = EVERYTHING, **more: t.Any) -> RunEventsOptions:
    return RunEventsOptions("run_1", "thr_1", level, rights, Voices(**more))


def project(wanted: RunEventsOptions, envelopes: Iterable[ev.Envelope]) -> bytes:
    projection = RunEvents(wanted)
    return b"".join(projection.frames(envelope) for envelope in envelopes)


def told(wanted: RunEventsOptions, envelopes: Iterable[ev.Envelope]) -> list[Frame]:
    frames = sse.parse(project(wanted, envelopes))
    assert all(frame.event is None and frame.comment is None for frame in frames)
    return [frame.json() for frame in frames]


def of(run: Scenario, level: Level = "full", rights: Rights = EVERYTHING) -> RunEventsOptions:
    """Options for a drawn run: all its agents speak, the last one answers."""
    return options(level, rights, speakers=frozenset(run.agents), answers=run.agents[-1:])


def numbered(*events: ev.RunEvent) -> list[ev.Envelope]:
    blocks = [ev.BlockInfo("start", "start", "Start"), ev.BlockInfo("agent_1", "agent", "Agent 1")]
    first = ev.RunStarted("run_1", "wf_1", blocks, [])
    return [ev.Envelope(seq, 1_700_000_000_000, event) for seq, event in enumerate((first, *events), 1)]


def data(frames: list[Frame], kind: str) -> list[Frame]:
    return [frame["data"] for frame in frames if frame["type"] == kind]


COMPLETED = ev.RunCompleted(None, {}, {}, USAGE)

# -- whatever a run says ---------------------------------------------------------------------------


@MANY
@given(runs())
def test_thread_is_first_and_done_is_last_at_every_level_in_every_ending(run: Scenario) -> None:
    for level in LEVELS:
        kinds = [frame["type"] for frame in told(of(run, level), run.envelopes)]
        assert kinds[0] == "thread"
        assert kinds[-1] == "done"
        assert (kinds.count("thread"), kinds.count("done")) == (1, 1)
        assert kinds[-2] == "flow_state" or level == "minimal"


@MANY
@given(runs())
def test_starts_have_their_ends(run: Scenario) -> None:
    frames = told(of(run), run.envelopes)
    open_nodes: set[str] = set()
    calls: dict[str, list[str]] = {}
    thinking: set[str] = set()
    for frame in frames:
        kind, said = frame["type"], frame["data"]
        if kind == "workflow_node_start":
            assert said["node_run_id"] not in open_nodes
            open_nodes.add(said["node_run_id"])
        elif kind == "workflow_node_end":
            open_nodes.remove(said["node_run_id"])
        elif kind.startswith("tool_"):
            calls.setdefault(said["tool_call_id"], []).append(kind)
        elif kind == "llm_thinking" and said["state"] == "started":
            assert said["node_id"] not in thinking
            thinking.add(said["node_id"])
        elif kind == "llm_thinking" and said["state"] == "finished":
            thinking.remove(said["node_id"])
    assert not open_nodes
    assert not thinking
    for kinds in calls.values():
        assert kinds in (["tool_use", "tool_result"], ["tool_use", "tool_executing", "tool_result"])
    finished = sum(isinstance(event, ev.ToolFinished) for event in run.events)
    assert len(data(frames, "tool_result")) == finished


@MANY
@given(runs())
def test_each_level_is_part_of_the_one_before(run: Scenario) -> None:
    streams = [told(of(run, level), run.envelopes) for level in LEVELS]
    for more, less in itertools.pairwise(streams):
        left = iter(more)
        assert all(frame in left for frame in less), "something is new, changed or elsewhere"
    for level, frames in zip(LEVELS, streams, strict=True):
        assert {frame["type"] for frame in frames} <= set(shown(level))
    messages = data(streams[-1], "agent_message")
    assert {message["context"]["node_id"] for message in messages} <= {run.agents[-1]}


@MANY
@given(runs())
def test_every_frame_is_described(run: Scenario) -> None:
    for frame in told(of(run), run.envelopes):
        CLOSED.validate(frame)
        OPEN.validate(frame)


@MANY
@given(runs())
def test_what_rights_forbid_is_not_in_a_byte_of_it_and_nothing_else_is_missing(run: Scenario) -> None:
    everything = told(of(run), run.envelopes)
    bare = Rights(False, True, False)
    stream = project(of(run, rights=bare), run.envelopes)
    for mark in (THOUGHT, ARGUMENT, RESULT):
        assert mark.encode() not in stream
    kept = [frame for frame in everything if frame["data"].get("state") != "thinking"]
    for frame in kept:
        for place in (frame, frame["data"]):
            for name in ("tool_input", "output"):
                place.pop(name, None)
    assert told(of(run, rights=bare), run.envelopes) == kept


@MANY
@given(runs())
def test_whoever_spoke_is_told_whole_and_once_for_each_execution(run: Scenario) -> None:
    frames = told(of(run), run.envelopes)
    expected = [
        (event.block, event.output["content"])
        for event in run.events
        if isinstance(event, ev.BlockFinished) and event.status == "executed" and event.output
    ]
    messages = data(frames, "agent_message")
    found = [(message["context"]["node_id"], message["content"]) for message in messages]
    assert found == [(block, content) for block, content in expected if content]
    assert not data(frames, "chat_chunk")


@MANY
@given(runs(max_blocks=1))
def test_where_one_speaks_and_nothing_is_taken_back_its_chunks_are_its_text(run: Scenario) -> None:
    taken_back = any(
        isinstance(event, ev.AnswerRetracted)
        or (isinstance(event, ev.TurnEnded) and event.kind == "intermediate")
        for event in run.events
    )
    if taken_back:
        return
    wanted = of(run)
    alone = dataclasses.replace(wanted, voices=dataclasses.replace(wanted.voices, lone="agent_1"))
    frames = told(alone, run.envelopes)
    text = "".join(chunk["content"] for chunk in data(frames, "chat_chunk"))
    assert not data(frames, "agent_message")
    ends = [e for e in run.events if isinstance(e, ev.BlockFinished) and e.status == "executed" and e.output]
    assert text == ends[0].output["content"] if ends else True  # type: ignore[index]


@MANY
@given(runs())
def test_ids_grow_and_stand_on_the_last_frame_of_an_envelope(run: Scenario) -> None:
    frames = sse.parse(project(of(run), run.envelopes))
    assert frames[-1].id == f"run_1:{run.envelopes[-1].seq}"
    for frame, following in itertools.pairwise(frames):
        seq = frame.json()["seq"]
        last = following.json()["seq"] != seq
        assert frame.id == (f"run_1:{seq}" if last else None)
        assert following.json()["seq"] >= seq


# -- the table, the schema and the events are one thing -------------------------------------------


def test_the_schema_has_every_event_of_the_table_and_no_other() -> None:
    assert [row.type for row in EVENTS] == list(DATA)
    Draft202012Validator.check_schema(run_events())
    for row in EVENTS:
        members = {name.strip().rstrip("?").partition("{")[0].partition("[")[0] for name in _split(row.data)}
        assert members == set(DATA[row.type].__struct_encode_fields__), row.type


def _split(members: str) -> list[str]:
    """At the commas outside of brackets."""
    found, depth = [""], 0
    for letter in members:
        depth += (letter in "[{") - (letter in "]}")
        if letter == "," and not depth:
            found.append("")
        else:
            found[-1] += letter
    return found


def test_levels_only_lose_events() -> None:
    full, messages, minimal = (shown(level) for level in LEVELS)
    assert set(full) == {row.type for row in EVENTS}
    assert set(minimal) < set(messages) < set(full)
    assert {kind for kind, how in minimal.items() if how == "answer"} == {"agent_message", "chat_chunk"}
    assert set(messages.values()) == {"yes"}


EVERY_EVENT = (
    ev.BlockStarted("agent_1", "agent", "Agent 1"),
    ev.LoopIteration("loop_1", 1, "loop"),
    ev.ThinkingDelta("agent_1", 0, "hm"),
    ev.TextDelta("agent_1", 0, "Good", True),
    ev.ToolStarted("agent_1", 0, "call_1", "clock", 5),
    ev.ToolExecuting("agent_1", 0, "call_1", "clock", {"zone": "UTC"}, 6),
    ev.ToolFinished("agent_1", 0, "call_1", "clock", "success", {"zone": "UTC"}, "noon", 9, 6),
    ev.BlockFinished("agent_1", "executed", {"content": "Goodbye"}),
    ev.BlockStarted("look", "retrieve", "Look"),
    ev.BlockFinished("look", "failed", None, "block_failed", "No."),
    ev.RouteChosen("way", "a", "it asks for a"),
    ev.BlockStarted("row", "sequential", "Row"),
    ev.SequenceStep("row", 0, "One", "start"),
    ev.SequenceStep("row", 0, "One", "end"),
    ev.BlockFinished("row", "executed", {"content": "In a row."}),
    ev.BlockStarted("talk", "debate", "Talk"),
    ev.DebateStarted("talk", ["Ada", "Ben"], 1),
    ev.DebateRound("talk", 1),
    ev.AgentMessage("talk", "Yes.", "Ada", 1),
    ev.AgentMessage("talk", "No.", "Ben", 1, answer=True),
    ev.DebateEnded("talk", 1),
    ev.BlockFinished("talk", "executed", {"content": "No."}),
    ev.VoteCast("vote", "yes", 0, "Ada"),
    ev.VoteCast("vote", None, 1),
    ev.VoteClosed("vote", {"yes": 1, "no": 0}, None, False, 1),
    ev.BlockStarted("out", "response", "Out"),
    ev.BlockFinished("out", "executed", {"body": {"said": 1}}),
    ev.BlockFinished("never", "skipped"),
    ev.FlowChanged("agent_1"),
    ev.BlockStarted("ask", "approval", "Ask"),
    ev.DecisionRequested("ask", "dec_1", {"kind": "answer", "draft": "No.", "reasons": ["It is short."]}),
    ev.DecisionRequested(
        "ask", "dec_2", {"kind": "tool", "tool": "pay", "arguments": {"sum": 5}}, "call_2", 9
    ),
    ev.DecisionSettled("ask", "dec_2", "reject", 8, "key_1", "Too much."),
)
SPEAKING = {
    "speakers": frozenset({"agent_1", "row", "talk", "out"}),
    "answers": ("agent_1", "talk", "out"),
    "lone": "agent_1",
}


def test_every_event_is_sent_as_described() -> None:
    ends = (
        COMPLETED,
        ev.RunFailed("provider_idle", "It fell silent.", "agent_1", {}),
        ev.RunFailed("internal", "It failed.", None, {}),
        ev.RunCancelled("stop_requested", {}, ("a", "b")),
        ev.RunPaused([("dec_1", "ask")], {}, {}, USAGE),
    )
    seen: set[str] = set()
    for end in ends:
        frames = told(options(**SPEAKING), numbered(*EVERY_EVENT, end))
        for frame in frames:
            CLOSED.validate(frame)
        seen |= {frame["type"] for frame in frames}
    gap = RunEvents(options(**SPEAKING)).gap(ev.Envelope(7, 7, ev.Gap(2, 7, "evicted")), RunState())
    seen |= {frame.json()["type"] for frame in sse.parse(gap)}
    (left,) = (frame.json() for frame in sse.parse(RunEvents(options(**SPEAKING)).detached(7, 7)))
    CLOSED.validate(left)
    seen.add(left["type"])
    assert seen == {row.type for row in EVENTS}


def test_the_frames_in_full() -> None:
    frames = told(options(**SPEAKING), numbered(*EVERY_EVENT, COMPLETED))
    assert [(frame["type"], frame["data"]) for frame in frames][:8] == [
        ("thread", {"thread_id": "thr_1"}),
        (
            "workflow_node_start",
            {
                "node_id": "agent_1",
                "node_type": "agent",
                "node_name": "Agent 1",
                "node_run_id": "agent_1:1",
            },
        ),
        ("workflow_loop", {"node_id": "loop_1", "iteration": 1, "path": "loop"}),
        ("llm_thinking", {"node_id": "agent_1", "state": "started", "chars": 0}),
        ("llm_thinking", {"node_id": "agent_1", "state": "thinking", "chars": 2, "text": "hm"}),
        ("llm_thinking", {"node_id": "agent_1", "state": "finished", "chars": 2}),
        ("chat_chunk", {"content": "Good", "node_id": "agent_1"}),
        (
            "tool_use",
            {
                "tool_call_id": "call_1",
                "node_id": "agent_1",
                "tool_name": "clock",
                "tool_input": {"zone": "UTC"},
            },
        ),
    ]
    assert data(frames, "chat_chunk")[1:] == [{"content": "bye", "node_id": "agent_1"}]
    assert data(frames, "agent_message") == [
        {"content": "In a row.", "sender": {"name": "Row"}, "context": {"node_id": "row"}},
        {"content": "Yes.", "sender": {"name": "Ada"}, "context": {"node_id": "talk"}, "round": 1},
        {"content": "No.", "sender": {"name": "Ben"}, "context": {"node_id": "talk"}, "round": 1},
        {"content": '{"said":1}', "sender": {"name": "Out"}, "context": {"node_id": "out"}},
    ]
    assert data(frames, "vote_cast") == [
        {"node_id": "vote", "vote": "yes", "voter_index": 0, "sender": {"name": "Ada"}},
        {"node_id": "vote", "abstained": True, "voter_index": 1},
    ]
    assert data(frames, "vote_result")[0]["winner"] is None
    assert data(frames, "workflow_node_end")[-1] == {
        "node_id": "never",
        "node_type": "",
        "node_name": "never",
        "node_run_id": "never:1",
        "success": True,
        "skipped": True,
        "duration_ms": 0,
    }
    assert data(frames, "flow_state") == [{"pinned_node": "agent_1", "pinned_agent": "Agent 1"}]


def test_what_older_clients_read_at_the_top_stands_there_too() -> None:
    frames = told(options(**SPEAKING), numbered(*EVERY_EVENT, COMPLETED))
    mirrored = {
        "tool_use": ("tool_name", "tool_input"),
        "tool_executing": ("tool_name",),
        "tool_result": ("tool_name", "output"),
        "agent_message": ("sender",),
        "done": ("usage",),
    }
    for frame in frames:
        assert frame["thread_id"] == "thr_1"
        for name in mirrored.get(frame["type"], ()):
            assert frame[name] == frame["data"][name]


def test_usage_is_spelled_in_snake_case_with_the_cost_as_a_number() -> None:
    (done,) = data(told(options(), numbered(COMPLETED)), "done")
    assert done == {
        "usage": {
            "tokens": {"input": 1, "output": 2, "total": 3},
            "cost": 0.25,
            "currency": "USD",
            "estimated": False,
            "duration_ms": 9,
            "active_ms": 9,
            "queued_ms": 0,
            "human_wait_ms": 0,
            "by_block": {"agent_1": {"tokens": {"input": 1, "output": 2, "total": 3}}},
            "by_model": {"scripted/x": {"tokens": {"input": 1, "output": 2, "total": 3}}},
        },
        "status": "completed",
    }
    assert run_event_data.snake_usage({"tokens": {"cacheRead": 4}})["tokens"] == {"cache_read": 4}


@pytest.mark.parametrize(
    ("end", "last"),
    [
        (COMPLETED, [("done", {"status": "completed"})]),
        (
            ev.RunFailed("provider_idle", "It fell silent.", "agent_1", {}),
            [
                (
                    "workflow_error",
                    {"error": "It fell silent.", "code": "provider_idle", "node_id": "agent_1"},
                ),
                ("done", {"status": "failed", "cause": "provider_idle"}),
            ],
        ),
        (
            ev.RunFailed("internal", "It failed.", None, {}),
            [
                ("error", {"error": "It failed.", "code": "internal"}),
                ("done", {"status": "failed", "cause": "block_failed"}),
            ],
        ),
        (
            ev.RunTimedOut({}),
            [
                ("error", {"error": ev.TIMEOUT_TEXT, "code": "timed_out"}),
                ("done", {"status": "timed_out", "cause": "execution_timeout"}),
            ],
        ),
        (
            ev.RunCancelled("server_shutdown", {}, ("next",)),
            [
                ("error", {"error": ev.SHUTDOWN_TEXT, "code": "cancelled"}),
                ("done", {"status": "cancelled", "cause": "server_shutdown"}),
            ],
        ),
        (
            ev.RunCancelled("stop_requested", {}, ("next",)),
            [
                ("workflow_stopped", {"node_id": "next"}),
                ("done", {"status": "cancelled", "cause": "stop_requested"}),
            ],
        ),
        (
            ev.RunCancelled("client_disconnected", {}, ("b", "a")),
            [
                ("workflow_stopped", {"node_id": "b", "node_ids": ["b", "a"]}),
                ("done", {"status": "cancelled", "cause": "client_disconnected"}),
            ],
        ),
        (ev.RunCancelled("stop_requested", {}), [("workflow_stopped", {}), ("done", {})]),
    ],
)
def test_the_endings(end: ev.RunEvent, last: list[tuple[str, Frame]]) -> None:
    for level in LEVELS:
        frames = told(options(level), numbered(end))
        found = [frame for frame in frames if frame["type"] not in ("thread", "flow_state")]
        assert [frame["type"] for frame in found] == [kind for kind, _ in last]
        for frame, (_, expected) in zip(found, last, strict=True):
            assert expected.items() <= frame["data"].items()


def test_nothing_follows_done() -> None:
    projection = RunEvents(options())
    for envelope in numbered(COMPLETED):
        projection.frames(envelope)
    assert projection.done
    assert projection.frames(ev.Envelope(9, 0, COMPLETED)) == b""


def test_a_large_output_is_cut_and_says_so() -> None:
    for output, start in (("Ä" * 100_000, "Ä"), ({"many": ["x" * 100_000]}, '{"many"')):
        events = (
            ev.BlockStarted("agent_1", "agent", "Agent 1"),
            ev.ToolFinished("agent_1", 0, "call_1", "clock", "success", {}, output, 9, 5),
        )
        (result,) = data(told(options(), numbered(*events)), "tool_result")
        assert result["truncated"] is True
        assert result["size"] == len(encoding.dumps(output))
        assert result["output"].startswith(start)
        assert len(result["output"].encode()) <= run_event_data.OUTPUT_LIMIT


def test_text_that_looks_like_a_format_stays_as_it_is() -> None:
    wanted = RunEventsOptions(
        "run_%b", "thr_%d", "full", EVERYTHING, Voices(frozenset({"a%"}), ("a%",), "a%")
    )
    events = (ev.BlockStarted("a%", "agent", "A"), ev.TextDelta("a%", 0, '%b "x"\n\ndata: y', True))
    (chunk,) = (frame for frame in told(wanted, numbered(*events)) if frame["type"] == "chat_chunk")
    assert chunk["data"] == {"content": '%b "x"\n\ndata: y', "node_id": "a%"}
    assert (chunk["run_id"], chunk["thread_id"]) == ("run_%b", "thr_%d")


def test_a_child_workflows_blocks_are_named() -> None:
    events = (
        ev.BlockStarted("sub[1]", "workflow", "Sub"),
        ev.ChildStarted("sub[1]", "wf_2", 1, [ev.BlockInfo("inner", "agent", "Inner")], []),
        ev.BlockStarted("sub[1]/inner", "agent", "Inner"),
        ev.BlockFinished("sub[1]/inner", "executed", {"content": "Deep."}),
        ev.BlockFinished("sub[1]/other", "skipped"),
    )
    frames = told(options(speakers=frozenset({"sub/inner"})), numbered(*events))
    assert data(frames, "agent_message") == [
        {"content": "Deep.", "sender": {"name": "Inner"}, "context": {"node_id": "sub[1]/inner"}}
    ]
    names = Counter(end["node_name"] for end in data(frames, "workflow_node_end"))
    assert names == {"Inner": 1, "sub[1]/other": 1}


RESPONDS = (
    ev.BlockStarted("agent_1", "agent", "Agent 1"),
    ev.BlockFinished("agent_1", "failed", None, "provider_overloaded", "Too busy."),
    ev.BlockStarted("reply", "response", "Reply"),
    ev.BlockFinished("reply", "executed", {"status": 200, "headers": {}, "body": {"sorry": "Too busy."}}),
)
ANSWERED = (
    ev.BlockStarted("agent_1", "agent", "Agent 1"),
    ev.BlockFinished("agent_1", "executed", {"content": "It is so."}),
    *RESPONDS[2:],
)


@pytest.mark.parametrize("level", LEVELS)
def test_a_response_speaks_for_the_run_where_nobody_gave_the_answer(level: Level) -> None:
    wanted = {"speakers": frozenset({"agent_1"}), "answers": ("agent_1",), "closing": frozenset({"reply"})}
    (said,) = data(told(options(level, **wanted), numbered(*RESPONDS)), "agent_message")
    assert (said["content"], said["context"]) == ('{"sorry":"Too busy."}', {"node_id": "reply"})
    (said,) = data(told(options(level, **wanted), numbered(*ANSWERED)), "agent_message")
    assert (said["content"], said["context"]) == ("It is so.", {"node_id": "agent_1"})


def test_a_response_is_silent_after_an_answer_that_was_told_as_it_was_written() -> None:
    wanted = {"speakers": frozenset({"agent_1"}), "answers": ("agent_1",), "lone": "agent_1"}
    written = (ANSWERED[0], ev.TextDelta("agent_1", 0, "It is so.", True), *ANSWERED[1:])
    frames = told(options("minimal", **wanted, closing=frozenset({"reply"})), numbered(*written))
    assert [frame["type"] for frame in frames] == ["thread", "chat_chunk"]


def test_a_guardrail_in_the_middle_says_what_it_let_through_and_nothing_else() -> None:
    def said(output: Frame) -> list[Frame]:
        events = (ev.BlockStarted("g", "guardrail", "Guard"), ev.BlockFinished("g", "executed", output))
        wanted = options(speakers=frozenset({"g"}), relays=frozenset({"g"}))
        return [message["content"] for message in data(told(wanted, numbered(*events)), "agent_message")]

    assert said({"passed": True, "text": "Fine."}) == ["Fine."]
    assert said({"passed": False, "text": "Not fine."}) == []
    assert said({"passed": False, "refused": True, "refusal": "No.", "content": "No."}) == ["No."]


def test_an_end_is_told_by_one_frame_before_the_flow() -> None:
    ends: list[tuple[ev.Terminal, str | None, Frame]] = [
        (ev.RunCompleted(None, {}, {}, USAGE), None, {"status": "completed"}),
        (
            ev.RunFailed("provider_overloaded", "Busy.", "a", USAGE),
            "workflow_error",
            {"status": "failed", "cause": "provider_overloaded"},
        ),
        (
            ev.RunFailed("internal", "No.", None, USAGE),
            "error",
            {"status": "failed", "cause": "block_failed"},
        ),
        (ev.RunTimedOut(USAGE), "error", {"status": "timed_out", "cause": "execution_timeout"}),
        (
            ev.RunCancelled("stop_requested", USAGE),
            "workflow_stopped",
            {"status": "cancelled", "cause": "stop_requested"},
        ),
        (
            ev.RunCancelled("server_shutdown", USAGE),
            "error",
            {"status": "cancelled", "cause": "server_shutdown"},
        ),
    ]
    for end, kind, done in ends:
        frames = told(options(), numbered(end))
        assert [frame["type"] for frame in frames[1:]] == [*([kind] if kind else []), "flow_state", "done"]
        assert {name: value for name, value in frames[-1]["data"].items() if name != "usage"} == done
