"""Whatever the model says, whoever reads and whenever somebody stops it: the rules of the stream hold.

Hypothesis makes up a model's turns (thinking, text, calls of known and unknown tools with good and bad
arguments, failures anywhere), readers that raise at a random envelope, and a moment to cancel.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from dataclasses import dataclass

import gevent
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app import events as ev
from app.engine import settle
from app.engine.services import Services
from app.events import Envelope
from app.streams.agent_events import AgentEvents, AgentEventsOptions
from app.streams.rights import Rights
from plugins.hookspecs import hookimpl
from plugins.spec import Capabilities, ConnectionSpec, ProviderFamily
from providers import spec
from providers.auth import NoAuth
from tests.streams.generate import violations
from tests.support.engine import Awake, Recorder, agent, services, start


@dataclass
class Call:
    name: str
    arguments: dict[str, t.Any] | None
    error: str | None = None


#: A step of a turn: text, thinking, a call, a pause (a switch point), or a failure.
Step = t.Any
Turn = list[Step]


class MadeUp:
    """A wire that says what the example says; the last turn repeats without its calls. ``backup`` never fails."""

    name = "made_up"

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self.streams = 0

    def stream(
        self, request: spec.ModelRequest, connection: spec.Connection, waits: spec.Waits
    ) -> Iterator[list[spec.ModelEvent]]:
        done = sum(isinstance(m, spec.AssistantMessage) for m in request.messages)
        turn = self.turns[done] if done < len(self.turns) else [("text", "the end")]
        self.streams += 1
        ready: list[spec.ModelEvent] = []
        try:
            for kind, value in turn:
                if kind == "pause":
                    with waits.wait():
                        gevent.sleep(0)
                elif kind == "fail" and request.model == "backup":
                    continue
                elif kind == "fail":
                    raise spec.ProviderError(value, "The model failed.", detail="sk-secret-words")
                elif kind == "call":
                    call_id = request.mint_id()
                    yield [spec.ToolCallStarted(call_id, value.name)]
                    ready.append(
                        spec.ToolCallReady(call_id, value.name, value.arguments, "{raw", value.error)
                    )
                else:
                    yield [spec.TextDelta(value) if kind == "text" else spec.ThinkingDelta(value)]
            yield [*ready, spec.ModelFinished("stop", spec.Usage(3, 4), None)]
        finally:
            self.streams -= 1


class Plugin:
    """A plugin that brings one family."""

    def __init__(self, family: ProviderFamily) -> None:
        self._family = family

    @hookimpl
    def provider_families(self) -> list[ProviderFamily]:
        return [self._family]


_calls = st.sampled_from(
    [
        Call("clock", {}),
        Call("calculator", {"expression": "1+1"}),
        Call("calculator", {"expression": 7}),
        Call("calculator", {"expression": "1/0"}),
        Call("no_such_tool", {}),
        Call("clock", None, "invalid_json"),
        Call("clock", None, "not_an_object"),
        Call("clock", None, "cut"),
    ]
)
_text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
_steps = st.one_of(
    st.tuples(st.sampled_from(["text", "thinking"]), _text),
    st.tuples(st.just("pause"), st.none()),
    st.tuples(st.just("call"), _calls),
)
_failures = st.tuples(
    st.just("fail"),
    st.sampled_from(["provider_overloaded", "provider_bad_stream", "context_length_exceeded"]),
)
_turns = st.lists(
    st.tuples(st.lists(_steps, max_size=6), st.none() | _failures).map(
        lambda made: [*made[0], *([made[1]] if made[1] else [])]
    ),
    max_size=4,
)


class Failing(Recorder):
    """A reader that raises at its n-th envelope or flush."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self._at = at

    def deliver(self, envelope: Envelope) -> None:
        self._at -= 1
        if self._at <= 0:
            raise RuntimeError("a sink broke")

    def flush(self) -> None:
        self._at -= 1
        if self._at <= 0:
            raise RuntimeError("a sink broke")


@pytest.fixture(scope="module")
def wire() -> MadeUp:
    return MadeUp()


@pytest.fixture(scope="module")
def made(wire: MadeUp, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    can = Capabilities(thinking="full", tools="parallel")
    family = ProviderFamily(
        "made-up",
        "Made up",
        wire,
        NoAuth(),
        ConnectionSpec(default_base="", key_required=False),
        lambda model, row: can,
    )
    with services(tmp_path_factory.mktemp("properties"), plugins=(Plugin(family),)) as opened:
        opened.clock = Awake()
        yield opened


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    turns=_turns,
    sinks=st.lists(st.integers(1, 30), max_size=3),
    cancel_after=st.none() | st.integers(0, 12),
    retries=st.integers(0, 1),
    fallbacks=st.sampled_from([[], ["made-up/backup"], ["made-up/y", "made-up/backup"]]),
)
def test_the_stream_keeps_its_rules(
    made: Services,
    wire: MadeUp,
    turns: list[Turn],
    sinks: list[int],
    cancel_after: int | None,
    retries: int,
    fallbacks: list[str],
) -> None:
    wire.turns = turns
    document = agent(
        "made-up/x",
        tools=["clock", "calculator"],
        max_batches=2,
        cut_call_retries=retries,
        retries=retries,
        fallbacks=fallbacks,
    )
    run, recorder = start(made, document)
    for at in sinks:
        run.emitter.attach(Failing(at))
    if cancel_after is not None:
        for _ in range(cancel_after):
            gevent.sleep(0)
        run.cancel("stop_requested")
    assert run.done.wait(20)

    envelopes = recorder.envelopes
    assert violations(envelopes) == []
    assert wire.streams == 0
    terminal = envelopes[-1].event
    assert isinstance(terminal, ev.Terminal)
    _check_record(made, run.id, terminal, recorder)
    _check_projections(run.id, envelopes, terminal)


def _check_record(made: Services, run_id: str, terminal: ev.Terminal, recorder: Recorder) -> None:
    row = made.store.runs.get(run_id)
    assert row is not None
    assert row["status"] == settle.status_of(terminal)
    final = [e for e in recorder.of(ev.TurnEnded) if e.kind == "final"]
    if isinstance(terminal, ev.RunCompleted):
        last = final[-1].turn
        text = "".join(_last_attempt(recorder, last))
        assert row["output"]["content"] == text
        assert row["partial_text"] is None
        assert recorder.of(ev.AnswerSettled) == [ev.AnswerSettled("agent_1", text)]
    else:
        assert row["output"] is None
        assert "sk-secret-words" not in str(terminal)


def _last_attempt(recorder: Recorder, turn: int) -> list[str]:
    """What the model that answered said in a turn; what was taken back before it is gone."""
    said: list[str] = []
    for envelope in recorder.envelopes:
        event = envelope.event
        if isinstance(event, ev.TextDelta) and event.turn == turn:
            said.append(event.text)
        elif isinstance(event, ev.TurnEnded) and event.turn == turn and event.reason == "fallback":
            said.clear()
    return said


def _check_projections(run_id: str, envelopes: list[Envelope], terminal: ev.Terminal) -> None:
    """Every reader's bytes hold what its rights and its cadence allow, and no more."""
    for negotiated in (False, True):
        for thinking in (False, True):
            for tools in (False, True):
                rights = Rights(thinking, tools, payloads=False)
                projection = AgentEvents(
                    AgentEventsOptions(run_id, negotiated, not negotiated, rights, None, ("agent_1",))
                )
                body = b"".join(projection.frames(e) for e in envelopes)
                assert projection.done
                assert body.count(b'"[DONE]"') >= 1
                assert body.endswith(b'data: "[DONE]"\n\n')
                assert (b'"event":"thinking"' in body) <= (negotiated and thinking)
                assert (b'"event":"tool"' in body) <= (negotiated and tools)
                assert (b'"event":"chunk_reset"' in body) <= negotiated
                if not isinstance(terminal, ev.RunCompleted) and not negotiated:
                    # A stop that was accepted ends the run also when the answer was there by then.
                    settled = [e.event for e in envelopes if isinstance(e.event, ev.AnswerSettled)]
                    assert (b'"chunk"' in body) is any(event.text for event in settled)
