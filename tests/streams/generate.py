"""Valid sequences of run events, drawn by Hypothesis, and the rules that make them valid.

Law of this room: :func:`violations` is written from the contract alone and knows no engine, so it judges what an
engine emits as well as what :func:`runs` draws. Blocks interleave, loop, fail, time out and are stopped at any
point; every start still has its end, and exactly one terminal comes last.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from dataclasses import dataclass, field

from hypothesis import strategies as st

from app import events as ev
from app.clock import rfc3339

#: Marks whose presence in a reader's bytes tells what was shown to it.
THOUGHT, ARGUMENT, RESULT = "thought-", "argument-", "result-"

_TOKENS = {"input": 1, "output": 2, "total": 3}
#: A run's usage object, as the contract spells it.
USAGE: dict[str, t.Any] = {
    "tokens": _TOKENS,
    "cost": {"total": 0.25, "currency": "USD", "estimated": False},
    "durationMs": 9,
    "activeMs": 9,
    "queuedMs": 0,
    "humanWaitMs": 0,
    "byBlock": {"agent_1": {"tokens": _TOKENS}},
    "byModel": {"scripted/x": {"tokens": _TOKENS}},
}

_NAMES = ("clock", "calculator", "x\nevent: final\ndata: {}", "naïve 工具")
_TEXT = st.one_of(
    st.sampled_from(
        ["a", "b ", "Δ", "\n\n", "日本", "🌍", "para\n", "a\u2028b", "x\u000by", '"', "\\", "data: x"]
    ),
    st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6),
)


@dataclass
class Scenario:
    """A run and what a reader of it ought to end up with.

    :ivar contents: stored content of each settled block.
    :ivar agents: ids of all agents, in document order.
    :ivar settled: blocks in order of their settling.
    """

    envelopes: list[ev.Envelope]
    agents: tuple[str, ...]
    structured: frozenset[str]
    contents: dict[str, str] = field(default_factory=dict)

    @property
    def events(self) -> list[ev.RunEvent]:
        """The events without their places."""
        return [envelope.event for envelope in self.envelopes]

    @property
    def terminal(self) -> ev.RunEvent:
        """The last event."""
        return self.envelopes[-1].event

    @property
    def settled(self) -> list[str]:
        """Blocks in the order in which they settled."""
        return [event.block for event in self.events if isinstance(event, ev.AnswerSettled)]


@dataclass
class _Block:
    """A block being drawn. ``live``: a model that streams."""

    id: str
    live: bool
    content: str = ""
    calls: list[dict[str, t.Any]] = field(default_factory=list)
    open_turn: int | None = None
    open_calls: dict[str, ev.ToolStarted] = field(default_factory=dict)
    started: bool = False
    ended: bool = False
    settled: bool = False
    lost: bool = False


class _Author:
    """Draws one run. The script of each block is a generator, so that they can interleave."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.at = 1_700_000_000_000
        self.counter = 0

    def flip(self) -> bool:
        return bool(self.draw(st.booleans()))

    def fresh(self, prefix: str) -> str:
        self.counter += 1
        return f"{prefix}{self.counter}"

    def block(self, state: _Block, executions: int) -> Iterator[ev.RunEvent]:
        turn = 0
        for execution in range(1, executions + 1):
            if execution > 1:
                yield ev.AnswerRetracted(state.id, "iteration")
                state.content = ""
                state.ended = False
            state.started = True
            yield ev.BlockStarted(state.id, "agent", state.id, execution)
            for _ in range(self.draw(st.integers(0, 2))):
                yield from self.turn(state, turn, tools=True)
                turn += 1
            yield from self.turn(state, turn, tools=False)
            turn += 1
            last = execution == executions
            settles_first = last and self.flip()
            if settles_first:
                yield self.settle(state)
            state.ended = True
            yield ev.BlockFinished(state.id, "executed", self.output(state), execution=execution)
            if last and not settles_first:
                yield self.settle(state)

    def settle(self, state: _Block) -> ev.RunEvent:
        state.settled = True
        return ev.AnswerSettled(state.id, state.content)

    def turn(self, state: _Block, turn: int, tools: bool) -> Iterator[ev.RunEvent]:
        text: list[str] = []
        calls: list[ev.ToolStarted] = []
        state.open_turn = turn
        for kind in self.draw(st.lists(st.sampled_from("ttth" + "c" * tools), max_size=6)):
            if kind == "h":
                redacted = self.flip()
                yield ev.ThinkingDelta(state.id, turn, "" if redacted else self.fresh(THOUGHT), redacted)
            elif kind == "t":
                text.append(self.draw(_TEXT))
                if state.live:
                    yield ev.TextDelta(state.id, turn, text[-1], not tools)
            else:
                calls.append(self.call(state, turn))
                yield calls[-1]
        if state.live and not tools and text and not state.lost and self.draw(st.integers(0, 9)) == 0:
            state.lost = True  # at most once per instance: what follows never reached the live readers
            text.append(self.draw(_TEXT))
            yield ev.StreamFailed(state.id, "The text was lost.")
        state.open_turn = None
        if not tools:
            state.content = "".join(text)
        yield ev.TurnEnded(state.id, turn, "intermediate" if tools else "final")
        for call in self.draw(st.permutations(calls)):
            if self.flip():  # the others could not run
                yield ev.ToolExecuting(
                    state.id, turn, call.id, call.name, {"q": self.fresh(ARGUMENT)}, self.at
                )
            yield self.finish(state, call.id, self.draw(st.sampled_from(["success", "error"])))

    def call(self, state: _Block, turn: int) -> ev.ToolStarted:
        self.at += 1
        name = self.draw(st.sampled_from(_NAMES))
        call = ev.ToolStarted(state.id, turn, self.fresh("call_"), name, self.at)
        state.open_calls[call.id] = call
        return call

    def finish(self, state: _Block, call_id: str, status: ev.ToolStatus) -> ev.RunEvent:
        call = state.open_calls.pop(call_id)
        self.at += 1
        done = ev.ToolFinished(
            state.id,
            call.turn,
            call.id,
            call.name,
            status,
            {"q": self.fresh(ARGUMENT)},
            self.fresh(RESULT),
            self.at,
            call.at,
        )
        state.calls.append(entry(done))
        return done

    def close(self, state: _Block, status: ev.ToolStatus) -> Iterator[ev.RunEvent]:
        """Settle what a run that ends early leaves open."""
        if state.open_turn is not None:
            yield ev.TurnEnded(state.id, state.open_turn, "aborted")
        for call_id in list(state.open_calls):
            yield self.finish(state, call_id, status)
        if state.started and not state.ended:
            yield ev.BlockFinished(state.id, "failed", code="cancelled", message="stopped")

    def output(self, state: _Block) -> dict[str, t.Any]:
        return {
            "content": state.content,
            "model": "scripted/x",
            "tokens": {"input": 1, "output": 2, "total": 3},
            "toolCalls": {"list": list(state.calls), "count": len(state.calls)},
            "providerTiming": {
                "duration": 3,
                "timeSegments": [
                    {"type": "model", "name": "x", "duration": 1, "thinking": self.fresh(THOUGHT)}
                ]
                + [
                    {"type": "tool", "name": c["name"], "toolCallId": c["id"], "result": c["result"]}
                    for c in state.calls
                ],
            },
        }


def entry(done: ev.ToolFinished) -> dict[str, t.Any]:
    """A finished call as ``toolCalls.list`` holds it."""
    return {
        "id": done.id,
        "name": done.name,
        "arguments": done.arguments,
        "result": done.result,
        "status": done.status,
        "startTime": rfc3339(done.started_at),
        "endTime": rfc3339(done.at),
        "duration": done.at - done.started_at,
    }


@st.composite
def runs(draw: st.DrawFn, max_blocks: int = 3) -> Scenario:
    """A whole valid run: interleaved agents, loops, tools, every kind of end, at any point."""
    author = _Author(draw)
    names = ["agent_1", "agent_2", "agent_3"][: draw(st.integers(1, max_blocks))]
    structured = frozenset(name for name in names if draw(st.integers(0, 4)) == 0)
    blocks = [_Block(name, name not in structured and draw(st.integers(0, 4)) > 0) for name in names]
    infos = [ev.BlockInfo(name, "agent", name, name in structured) for name in names]
    events: list[ev.RunEvent] = [
        ev.RunStarted("run_1", "wf_1", [ev.BlockInfo("start", "start", "Start"), *infos], [])
    ]
    scripts = {block.id: author.block(block, draw(st.sampled_from([1, 1, 1, 2]))) for block in blocks}
    budget = draw(st.one_of(st.none(), st.integers(0, 25)))
    while scripts and (budget is None or len(events) <= budget):
        name = draw(st.sampled_from(sorted(scripts)))
        event = next(scripts[name], None)
        if event is None:
            del scripts[name]
        else:
            events.append(event)
    if scripts:
        events += _early_end(author, blocks)
    else:
        events.append(_completed(author, blocks))
    envelopes = [ev.Envelope(seq, author.at + seq, event) for seq, event in enumerate(events, 1)]
    contents = {block.id: block.content for block in blocks if block.settled}
    return Scenario(envelopes, tuple(names), structured, contents)


def _early_end(author: _Author, blocks: list[_Block]) -> list[ev.RunEvent]:
    kind = author.draw(st.sampled_from(["failed", "cancelled", "timed_out"]))
    status: ev.ToolStatus = "error" if kind == "failed" else "cancelled"
    events = [event for block in blocks for event in author.close(block, status)]
    if kind == "failed":
        return [*events, ev.RunFailed("provider_unavailable", "The model went away.", blocks[0].id, USAGE)]
    if kind == "timed_out":
        return [*events, ev.RunTimedOut(USAGE)]
    cause = author.draw(st.sampled_from(["client_disconnected", "stop_requested", "server_shutdown"]))
    return [*events, ev.RunCancelled(cause, USAGE)]


def _completed(author: _Author, blocks: list[_Block]) -> ev.RunCompleted:
    outputs = {"start": {"message": "hi"}, **{block.id: author.output(block) for block in blocks}}
    ended = author.flip()
    return ev.RunCompleted(
        outputs[blocks[-1].id] if author.flip() else {block.id: outputs[block.id] for block in blocks},
        outputs,
        {block.id: block.calls for block in blocks},
        USAGE,
        ended,
        None if ended else "A block failed and its error edge answered.",
    )


def violations(envelopes: list[ev.Envelope]) -> list[str]:
    """Every rule of the stream that a sequence breaks (architecture section 6); empty for a valid run."""
    judge = _Judge()
    for envelope in envelopes:
        judge.look(envelope)
    judge.end()
    return judge.problems


class _Judge:
    """Folds a sequence and notes what is wrong with it."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self._next = 1
        self._ended = False
        self._running: set[str] = set()
        self._turn: dict[str, int] = {}
        self._calls: dict[tuple[str, str], bool] = {}
        self._settled: set[str] = set()

    def _recorded(self, envelope: ev.Envelope) -> bool:
        """Whether the numbers before it are left out, and it says so."""
        event = envelope.event
        return isinstance(event, ev.Gap) and (event.first, event.last) == (self._next, envelope.seq - 1)

    def look(self, envelope: ev.Envelope) -> None:
        event = envelope.event
        if envelope.seq != self._next and not self._recorded(envelope):
            self.problems.append(f"seq {envelope.seq} where {self._next} was due")
        if self._ended:
            self.problems.append(f"{type(event).__name__} after the terminal event")
        if (envelope.seq == 1) is not isinstance(event, ev.RunStarted):
            self.problems.append("RunStarted is the first event and no other")
        self._next = envelope.seq + 1
        method = getattr(self, f"_{type(event).__name__}", None)
        if method is not None:
            method(event)
        elif isinstance(event, ev.Terminal):
            self._ended = True
            if self._running or self._turn or any(self._calls.values()):
                self.problems.append("something is open at the terminal event")

    def end(self) -> None:
        if not self._ended:
            self.problems.append("no terminal event")

    def _BlockStarted(self, event: ev.BlockStarted) -> None:
        if event.block in self._running:
            self.problems.append(f"{event.block} started twice")
        self._running.add(event.block)

    def _BlockFinished(self, event: ev.BlockFinished) -> None:
        if event.status != "skipped" and event.block not in self._running:
            self.problems.append(f"{event.block} ended without a start")
        if event.block in self._turn:
            self.problems.append(f"{event.block} ended inside a turn")
        self._running.discard(event.block)

    def _part(self, event: t.Any) -> None:
        if event.block not in self._running:
            self.problems.append(f"{type(event).__name__} of {event.block}, which is not running")
        if self._turn.setdefault(event.block, event.turn) != event.turn:
            self.problems.append(f"two turns of {event.block} at once")

    _TextDelta = _ThinkingDelta = _part

    def _TurnEnded(self, event: ev.TurnEnded) -> None:
        self._part(event)
        del self._turn[event.block]

    def _ToolStarted(self, event: ev.ToolStarted) -> None:
        self._part(event)
        if (event.block, event.id) in self._calls:
            self.problems.append(f"call {event.id} announced twice")
        self._calls[event.block, event.id] = True

    def _ToolFinished(self, event: ev.ToolFinished) -> None:
        if not self._calls.get((event.block, event.id)):
            self.problems.append(f"call {event.id} ended without an open start")
        self._calls[event.block, event.id] = False

    def _AnswerSettled(self, event: ev.AnswerSettled) -> None:
        if event.block in self._settled:
            self.problems.append(f"{event.block} settled twice")
        self._settled.add(event.block)
