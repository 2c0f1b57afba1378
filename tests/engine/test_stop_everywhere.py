"""A stop at every event of a run of every kind of block, and time running out in each: nothing begins after it."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator, Mapping
from pathlib import Path

import gevent
import gevent.event
import pytest
import yaml

from app import events as ev
from app.engine.services import Services
from tests.engine.flows import document, finished, save, start_saved
from tests.streams.generate import violations
from tests.support.engine import Awake, Recorder, services, start
from tests.support.graphs import When, script
from tests.support.servers import wait_until
from tests.support.vendor import Vendor
from tests.support.vendor import vendor as one_vendor

pytestmark = pytest.mark.leak_check

CALLS = {
    "turns": [
        {
            "steps": [
                {"thinking": "hm"},
                {"text": "I look."},
                {"tool_call": {"name": "clock", "arguments": {}}},
            ]
        },
        {"steps": [{"text": "yes"}]},
    ]
}
SCRIPTS: Mapping[str, t.Any] = {
    "calls": CALLS,
    "yes": "yes",
    "routes": '{"route": "on", "reason": "why not"}',
    "judges": '{"reason": "fine", "passed": true}',
}
YES = {"model": "scripted/yes"}
CALLER = {"model": "scripted/calls", "tools": ["clock"]}
SET = {"values": {"x": 1}}
SILENT = {"model": "scripted/silent"}
JUDGE = {"kind": "model", "model": "scripted/judges", "instruction": "Fine?"}
ROUTES = {"mode": "model", "model": "scripted/routes", "routes": [{"name": "on", "description": "on"}]}

#: Every kind of block that needs no network, each behind the other.
ALL = document(
    [
        ("agent", "agent", CALLER),
        ("way", "router", ROUTES),
        ("enough", "condition", {"expression": "true"}),
        ("rounds", "loop", {"kind": "for", "times": 2}),
        ("each", "set", SET),
        ("inside", "agent", CALLER),
        ("both", "parallel", {"branches": ["one", "two"]}),
        ("one", "agent", CALLER),
        ("two", "tool", {"tool": "clock", "retries": 1}),
        ("many", "parallel", {"items": [1, 2]}),
        ("item", "set", SET),
        ("line", "sequential", {"agents": [CALLER, YES]}),
        ("talk", "debate", {"participants": [YES, CALLER], "rounds": 2}),
        ("open", "vote", {"voters": [YES, CALLER], "options": ["yes", "no"]}),
        ("secret", "vote", {"voters": [YES, CALLER], "options": ["yes", "no"], "secret": True}),
        ("guard", "guardrail", {"checks": [JUDGE], "input": "x"}),
        ("sub", "workflow", {"workflow": "child"}),
        ("last", "response", {"body": "{{ blocks.agent.content }}"}),
    ],
    "start > agent",
    "agent > way",
    "way -route:on> enough",
    "enough -true> rounds",
    "rounds -loop> each",
    "each > inside",
    "inside > rounds",
    "rounds -exit> both",
    "both -branch:one> one",
    "both -branch:two> two",
    "both -exit> many",
    "many -loop> item",
    "item > many",
    "many -exit> line",
    "line > talk",
    "talk > open",
    "open > secret",
    "secret > guard",
    "guard -true> sub",
    "sub > last",
)
GRANDCHILD = document([("deep", "agent", CALLER), ("end", "set", SET)], "start > deep", "deep > end")
CHILD = document(
    [("before", "set", SET), ("inner", "workflow", {"workflow": "grandchild"}), ("after", "set", SET)],
    "start > before",
    "before > inner",
    "inner > after",
)
#: What tells that something begins. What a model said in one piece, and what a secret vote tells, is told as one.
BEGIN = (
    ev.BlockStarted,
    ev.ChildStarted,
    ev.ToolExecuting,
    ev.DebateStarted,
    ev.DebateRound,
)


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Services]:
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    for name, says in SCRIPTS.items():
        (scripts / f"{name}.yaml").write_text(yaml.safe_dump(script(says)))
    with services(tmp_path / "data", {"STUDIO_SCRIPTS_DIR": str(scripts)}) as opened:
        save(opened, grandchild=GRANDCHILD, child=CHILD, all=ALL)
        yield opened


class At:
    """Stops a run at its n-th event."""

    def __init__(self, place: int) -> None:
        self.place = place
        self.run: t.Any = None

    def deliver(self, envelope: ev.Envelope) -> None:
        """See ``app.engine.emitter.Subscriber``."""
        if envelope.seq == self.place:
            assert self.run.cancel("stop_requested")

    def flush(self) -> None:
        """Nothing to send."""


def stopped_at(made: Services, place: int) -> tuple[t.Any, Recorder]:
    """A run of everything, stopped at its n-th event."""
    run, recorder = start_saved(made, "all")
    stop = At(place)
    stop.run = run
    run.attach(stop)
    assert run.done.wait(20)
    return run, recorder


def test_a_stop_at_every_event(made: Services) -> None:
    _, whole = stopped_at(made, 0)
    assert isinstance(whole.envelopes[-1].event, ev.RunCompleted), whole.envelopes[-1].event
    began = {
        envelope.event.block for envelope in whole.envelopes if isinstance(envelope.event, ev.BlockStarted)
    }
    assert {block["id"] for block in ALL["blocks"]} - {"item"} | {"item[0]", "item[1]"} <= began
    named: set[str] = set()
    for place in range(1, len(whole.envelopes)):
        run, recorder = stopped_at(made, place)
        event = recorder.envelopes[place - 1].event
        if isinstance(event, ev.AnswerRetracted):  # one step with the start behind it
            continue
        end = recorder.envelopes[-1].event
        assert isinstance(end, ev.RunCancelled), f"an accepted stop at {event}"
        assert end.cause == "stop_requested"
        later = [envelope.event for envelope in recorder.envelopes[place:]]
        assert [each for each in later if isinstance(each, BEGIN)] == [], f"after {event}"
        steps = [each for each in later if isinstance(each, ev.SequenceStep) and each.phase == "start"]
        rounds = [each for each in later if isinstance(each, ev.LoopIteration) and each.path == "loop"]
        assert (steps, rounds) == ([], []), f"after {event}"
        assert violations(recorder.envelopes) == []
        row = made.store.runs.get(run.id)
        assert row is not None
        assert (row["status"], row["cause"]) == ("cancelled", "stop_requested")
        assert all(
            block["ended_at"] is not None for block in row["blocks"] if block["started_at"] is not None
        )
        named.update(end.following)
    # Every block would have run next at some point, but those that the block around them starts in the same step.
    inner = {"sub/start", "sub/before", "sub/inner", "sub/after"}
    deep = {"sub/inner/start", "sub/inner/deep", "sub/inner/end"}
    plain = {block["id"] for block in ALL["blocks"]} - {"item", "one"} | {"item[1]"}
    assert plain | inner | deep <= named


@pytest.mark.parametrize(
    ("at_once", "behind", "going", "following"),
    [
        (1, False, {"a[0]"}, ("a[1]",)),  # the next item takes its place
        (1, True, {"a[0]"}, ("b[0]",)),  # it has more to do
        (2, False, {"a[0]", "a[1]"}, ("a[2]",)),  # of three only one is left
        (2, True, {"a[0]", "a[1]"}, ("b[0]", "b[1]")),
        (3, False, {"a[0]", "a[1]", "a[2]"}, ("z",)),
    ],
)
def test_what_waits_for_its_turn_in_a_parallel_block(
    made: Services, at_once: int, behind: bool, going: set[str], following: tuple[str, ...]
) -> None:
    last = ["a > b", "b > p"] if behind else ["a > p"]
    more = [("b", "set", SET)] if behind else []
    flow = document(
        [
            ("p", "parallel", {"items": [1, 2, 3], "max_concurrency": at_once}),
            ("a", "agent", SILENT),
            *more,
            ("z", "set", SET),
        ],
        "start > p",
        "p -loop> a",
        *last,
        "p -exit> z",
    )
    run, recorder = start(made, flow)
    wait_until(lambda: going <= {state.block for state in run.state.open_blocks()}, "they run")
    run.cancel("stop_requested")
    assert run.done.wait(20)
    assert recorder.envelopes[-1].event.following == following


def test_a_stop_before_the_first_block(made: Services) -> None:
    run, recorder = start_saved(made, "all")
    assert run.cancel("stop_requested"), "nothing of it has run"
    assert run.done.wait(20)
    assert [type(envelope.event) for envelope in recorder.envelopes] == [ev.RunStarted, ev.RunCancelled]
    assert recorder.envelopes[-1].event.following == ("start",)


def test_a_loop_that_waits_for_nothing_lets_others_run_and_is_stopped(made: Services) -> None:
    endless = document(
        [("again", "loop", {"kind": "for", "times": 10_000, "max_iterations": 10_000}), ("x", "set", SET)],
        "start > again",
        "again -loop> x",
        "x > again",
    )
    run, recorder = start(made, endless)
    wait_until(lambda: gevent.sleep(0) or recorder.of(ev.LoopIteration), "it has begun")
    assert run.cancel("stop_requested")
    assert run.done.wait(20)
    assert isinstance(recorder.envelopes[-1].event, ev.RunCancelled)
    assert len(recorder.of(ev.LoopIteration)) < 10_000


# -- phases that need an upstream, a clock or a slot -----------------------------------------------


@pytest.fixture
def vendor() -> Iterator[Vendor]:
    with one_vendor() as opened:
        yield opened
        assert opened.calls.empty(), "nobody was asked after the stop"


def test_a_stop_in_line_for_a_slot(tmp_path: Path, vendor: Vendor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STUDIO_OPENAI_COMPATIBLE_API_BASE", vendor.base)
    monkeypatch.setenv("STUDIO_OPENAI_COMPATIBLE_MAX_CONCURRENCY", "1")
    model = {"model": "openai-compatible/x"}
    flow = document([("a", "agent", model), ("z", "set", SET)], "start > a", "a > z")
    with services(tmp_path) as made:
        first, _ = start(made, flow)
        call = vendor.next_call()
        second, recorder = start(made, flow)
        queue = made.limits.line("openai-compatible", 1)
        wait_until(lambda: len(queue) == 1, "the second call waits")
        second.cancel("stop_requested")
        assert second.done.wait(20)
        assert recorder.envelopes[-1].event.following == ("z",)
        assert len(queue) == 0
        call.text("done")
        call.finish()
        assert first.done.wait(20)
        assert first.status == "completed"


def test_a_stop_while_a_call_is_put_off(
    tmp_path: Path, vendor: Vendor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STUDIO_OPENAI_COMPATIBLE_API_BASE", vendor.base)
    clock = Awake()
    clock.hold = gevent.event.Event()
    flow = document(
        [("a", "agent", {"model": "openai-compatible/x", "retries": 3}), ("z", "set", SET)],
        "start > a",
        "a > z",
    )
    with services(tmp_path, clock=clock) as made:
        run, recorder = start(made, flow)
        vendor.next_call().answer(503)
        wait_until(lambda: clock.slept, "it waits to ask again")
        run.cancel("stop_requested")
        assert run.done.wait(20)
        assert recorder.envelopes[-1].event.following == ("z",)


# -- time runs out ---------------------------------------------------------------------------------

#: A block whose time runs out while an agent inside of it is silent, with what runs inside of it.
TIMED: dict[str, tuple[list[tuple[str, str, dict[str, t.Any]]], list[str]]] = {
    "agent": ([("it", "agent", SILENT)], []),
    "router": ([("it", "router", {**ROUTES, "model": "scripted/silent"})], []),
    "loop": (
        [("it", "loop", {"kind": "for", "times": 2}), ("a", "agent", SILENT)],
        ["it -loop> a", "a > it"],
    ),
    "parallel": (
        [("it", "parallel", {"branches": ["x"]}), ("a", "agent", SILENT)],
        ["it -branch:x> a"],
    ),
    "items": (
        [("it", "parallel", {"items": [1, 2]}), ("a", "agent", SILENT)],
        ["it -loop> a", "a > it"],
    ),
    "sequential": ([("it", "sequential", {"agents": [YES, SILENT]})], []),
    "debate": ([("it", "debate", {"participants": [YES, SILENT], "rounds": 2})], []),
    "open vote": ([("it", "vote", {"voters": [YES, SILENT], "options": ["yes", "no"]})], []),
    "secret vote": (
        [("it", "vote", {"voters": [YES, SILENT], "options": ["yes", "no"], "secret": True})],
        [],
    ),
    "guardrail": (
        [("it", "guardrail", {"checks": [{**JUDGE, "model": "scripted/silent"}], "input": "x"})],
        [],
    ),
    "child": ([("it", "workflow", {"workflow": "waits"})], []),
}


@pytest.mark.parametrize("name", TIMED)
def test_the_time_of_a_block_runs_out(made: Services, name: str) -> None:
    """The block fails, its error edge goes on, nothing of it does."""
    save(made, waits=document([("a", "agent", SILENT)], "start > a"))
    blocks, edges = TIMED[name]
    exit_ = {"loop": "it -exit> never", "parallel": "it -exit> never", "items": "it -exit> never"}
    plain = {"router": "it -route:on> never", "guardrail": "it -true> never"} | exit_
    flow = document(
        [*blocks, ("late", "set", {"values": {"why": "{{ blocks.it.code }}"}}), ("never", "set", SET)],
        "start > it",
        *edges,
        "it -error> late",
        plain.get(name, "it > never"),
    )
    placed = next(block for block in flow["blocks"] if block["id"] == "it")
    placed["config"] = {**placed["config"], "timeout_s": 0.1}
    save(made, timed=flow)
    run, recorder = start_saved(made, "timed")
    assert run.done.wait(20)
    assert recorder.envelopes[-1].event.output == {"why": "block_timeout"}
    over = {block: status for block, status, _ in finished(recorder)}
    assert (over["it"], over["late"], over["never"]) == ("failed", "executed", "skipped")
    place = next(
        n
        for n, envelope in enumerate(recorder.envelopes)
        if isinstance(envelope.event, ev.BlockFinished) and envelope.event.block == "it"
    )
    begun = [e.event.block for e in recorder.envelopes[place:] if isinstance(e.event, ev.BlockStarted)]
    assert begun == ["late"]
    assert recorder.of(ev.VoteClosed) == []
    assert violations(recorder.envelopes) == []


@pytest.mark.parametrize("name", TIMED)
def test_the_time_of_a_run_runs_out(made: Services, name: str) -> None:
    save(made, waits=document([("a", "agent", SILENT)], "start > a"))
    blocks, edges = TIMED[name]
    wants = {"router": ["it -route:on> z"], "guardrail": ["it -true> z"]}.get(name, [])
    more = [("z", "set", SET)] if wants else []
    save(made, timed=document([*blocks, *more], "start > it", *edges, *wants))
    run, recorder = start_saved(made, "timed", timeout_s=0.1)
    assert run.done.wait(20)
    assert isinstance(recorder.envelopes[-1].event, ev.RunTimedOut)
    assert violations(recorder.envelopes) == []
    row = made.store.runs.get(run.id)
    assert row is not None
    assert (row["status"], row["cause"]) == ("timed_out", "execution_timeout")
    assert all(block["status"] != "running" for block in row["blocks"])


@pytest.mark.parametrize("name", TIMED)
def test_the_last_reader_leaves(made: Services, name: str) -> None:
    """Policy ``cancel``: what the reader was following ends, children and all."""
    save(made, waits=document([("a", "agent", SILENT)], "start > a"))
    blocks, edges = TIMED[name]
    wants = {"router": ["it -route:on> z"], "guardrail": ["it -true> z"]}.get(name, [])
    more = [("z", "set", SET)] if wants else []
    save(made, left=document([*blocks, *more], "start > it", *edges, *wants))
    run, recorder = start_saved(made, "left")
    inner = When(lambda event: isinstance(event, ev.BlockStarted) and event.block == "it", lambda: None)
    run.attach(inner)
    run.reader_gone(inner)
    assert run.status == "running", "the recorder still reads"
    wait_until(lambda: "it" in run.state.blocks, "it runs")
    run.readers.remove(recorder)
    assert run.done.wait(20)
    end = recorder.envelopes[-1].event
    assert isinstance(end, ev.RunCancelled)
    assert end.cause == "client_disconnected"
    assert violations(recorder.envelopes) == []
