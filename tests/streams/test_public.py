"""What a visitor sees: on no surface more than contract section 8 says, and of everything else all."""

from __future__ import annotations

import inspect
import json
import typing as t
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app import encoding
from app import events as ev
from app.state import RunState
from app.streams.agent_events import AgentEvents, AgentEventsOptions
from app.streams.chat_response import Turn
from app.streams.graph_events import GraphEvents, GraphEventsOptions
from app.streams.projection import Projection
from app.streams.public import SEEN, seen, seen_state
from app.streams.public_texts import FAILED, TEXT_LOST, TEXTS, code_for, text_for
from app.streams.rights import CALL_FIELDS, Rights, strip_output, strip_usage
from app.streams.run_event_levels import LEVELS
from app.streams.run_events import RunEvents, RunEventsOptions
from app.streams.voices import Voices
from app.web.answer import answer_body
from tests.streams.generate import THOUGHT, Scenario
from tests.streams.planted import MARK, OTHERS, PRICE, agent_output, everything, planted, usage
from tests.support import sse

_MANY = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
#: Never for visitors: what models were asked, and what they used.
FOR_THE_RECORD = {ev.UsageReported, ev.ModelCallFailed}
PATHS = (
    (),
    ("content",),
    ("model",),
    ("cost",),
    ("cost", "total"),
    ("toolCalls",),
    ("toolCalls", "list", "0"),
    ("toolCalls", "list", "0", "arguments"),
    ("toolCalls", "list", "0", "result"),
    ("providerTiming",),
    ("providerTiming", "timeSegments", "0", "name"),
    ("statements",),
    ("statements", "0", "name"),
    ("transcript",),
    ("answers", "0", "model"),
    ("ballots",),
    ("reason",),
    ("decisions", "0"),
    ("by",),
    ("errors", "b", "error"),
)


class Pick(t.NamedTuple):
    block: str
    path: tuple[str, ...]


SELECTIONS = st.none() | st.lists(
    st.builds(Pick, st.sampled_from(("agent_1", "agent_2", *OTHERS)), st.sampled_from(PATHS)), max_size=8
).map(tuple)
Make = Callable[[Rights], Projection]


def projections(run: Scenario, selections: tuple[Pick, ...] | None) -> dict[str, Make]:
    """Every surface's projection of a run, by name, for readers of any rights."""
    speakers = frozenset({*run.agents, *OTHERS})
    made: dict[str, Make] = {
        f"agent-{negotiated}": lambda rights, n=negotiated: AgentEvents(
            AgentEventsOptions("run_1", n, not n, rights, selections, run.agents, "thr_1")
        )
        for negotiated in (True, False)
    }
    for level in LEVELS:
        made[f"runs-{level}"] = lambda rights, level=level: RunEvents(
            RunEventsOptions("run_1", "thr_1", level, rights, Voices(speakers, run.agents[-1:]))
        )
    made["graph"] = lambda rights: GraphEvents(
        GraphEventsOptions(Turn("run_1", "thr_1", "0" * 32, 0), None, rights)
    )
    return made


def whole(projection: Projection, run: Scenario) -> bytes:
    """The stream of a run."""
    return b"".join(projection.frames(envelope) for envelope in run.envelopes)


def after_gap(projection: Projection, run: Scenario, at: int) -> bytes:
    """The stream of a reader who missed the first events."""
    state = RunState()
    for envelope in run.envelopes[:at]:
        state.apply(envelope)
    gap = ev.Envelope(at, run.envelopes[at - 1].ts, ev.Gap(1, at, "evicted"))
    frames = [projection.gap(gap, state)]
    return b"".join([*frames, *(projection.frames(envelope) for envelope in run.envelopes[at:])])


def check_clean(sent: bytes, rights: Rights) -> None:
    text = sent.decode()
    assert MARK not in text, text[max(0, text.index(MARK) - 200) : text.index(MARK) + 60]
    assert str(PRICE) not in text
    if not rights.thinking:
        assert THOUGHT not in text


# -- nothing leaks ---------------------------------------------------------------------------------


@_MANY
@given(planted(), st.booleans(), st.booleans(), SELECTIONS, st.data())
def test_nothing_planted_reaches_a_visitor_on_any_surface(
    run: Scenario, thinking: bool, tools: bool, selections: tuple[Pick, ...] | None, data: st.DataObject
) -> None:
    rights = Rights(thinking, tools, public=True)
    at = data.draw(st.integers(1, len(run.envelopes) - 1))
    for make in projections(run, selections).values():
        check_clean(whole(make(rights), run), rights)
        check_clean(after_gap(make(rights), run, at), rights)
    assert isinstance(run.terminal, ev.Terminal)
    check_clean(answer_body("run_1", run.terminal, selections, rights), rights)


@_MANY
@given(planted(), SELECTIONS)
def test_the_same_runs_show_it_to_those_with_a_key(
    run: Scenario, selections: tuple[Pick, ...] | None
) -> None:
    """Otherwise the test before this one would prove nothing."""
    rights = Rights(True, True, True)
    sent = b"".join(whole(make(rights), run) for make in projections(run, selections).values())
    assert MARK in sent.decode()


# -- and only what has to be is missing ------------------------------------------------------------


@_MANY
@given(planted(), st.booleans(), st.booleans(), SELECTIONS)
def test_a_visitor_only_loses(
    run: Scenario, thinking: bool, tools: bool, selections: tuple[Pick, ...] | None
) -> None:
    """Frame for frame: members are missing, and what stands in the place of a name or of a failure is known."""
    fixed = {*TEXTS.values(), FAILED, TEXT_LOST} | {
        event.block for event in run.events if hasattr(event, "block")
    }
    fixed |= {block for event in run.events for block in infos(event)}
    for name, make in projections(run, selections).items():
        few = sse.parse(whole(make(Rights(thinking, tools, public=True)), run))
        many = sse.parse(whole(make(Rights(thinking, tools, True)), run))
        assert [(frame.id, frame.event) for frame in few] == [(frame.id, frame.event) for frame in many]
        for less, more in zip(few, many, strict=True):
            assert within(less.json(), more.json(), fixed), (name, less, more)
    assert isinstance(run.terminal, ev.Terminal)
    bodies = [
        encoding.loads(answer_body("run_1", run.terminal, selections, rights))
        for rights in (Rights(public=True), Rights(payloads=True))
    ]
    assert within(*bodies, fixed)


def infos(event: ev.RunEvent) -> list[str]:
    return [info.id for info in event.blocks] if isinstance(event, ev.RunStarted) else []


def within(few: t.Any, many: t.Any, fixed: set[str]) -> bool:
    if isinstance(few, dict) and isinstance(many, dict):
        return all(key in many and within(value, many[key], fixed) for key, value in few.items())
    if isinstance(few, list) and isinstance(many, list):
        return len(few) == len(many) and all(within(a, b, fixed) for a, b in zip(few, many, strict=True))
    if isinstance(few, str) and isinstance(many, str):
        return few in (many, *fixed) or (few[:1] == "{" and within(json.loads(few), json.loads(many), fixed))
    return bool(few == many)


def test_the_filter_knows_every_event() -> None:
    """One that it does not know is shown to nobody; that it is not known has to be on purpose."""
    kinds = {
        kind
        for _, kind in inspect.getmembers(ev, inspect.isclass)
        if issubclass(kind, ev.RunEvent) and kind not in (ev.RunEvent, ev.Terminal)
    }
    assert set(SEEN) == kinds - FOR_THE_RECORD
    for kind in FOR_THE_RECORD:
        event = kind("agent_1", "scripted/x", *(({},) if kind is ev.UsageReported else ("x", 1)))
        assert seen(event, Rights(public=True)) is None
        assert seen(event, Rights()) is event


def test_no_event_itself_holds_anything_planted() -> None:
    """Whatever a projection would do with it: the filter alone is enough."""
    told = [seen(event, Rights(public=True)) for event in everything()]
    state = RunState()
    state.apply(
        ev.Envelope(1, 5, ev.RunStarted("run_1", "wf_1", [ev.BlockInfo("agent_1", "agent", MARK)], []))
    )
    state.apply(ev.Envelope(2, 5, ev.BlockStarted("agent_1", "agent", MARK)))
    state.apply(ev.Envelope(3, 5, ev.BlockFinished("agent_1", "failed", None, MARK, MARK)))
    stand = seen_state(state, Rights(public=True))
    for value in (*filter(None, told), *stand.blocks.values(), dict(stand.infos)):
        check_clean(encoding.dumps(value), Rights())


def test_those_with_a_key_get_the_very_same_event() -> None:
    event = ev.BlockStarted("agent_1", "agent", "Agent 1")
    state = RunState()
    assert seen(event, Rights()) is event
    assert seen_state(state, Rights()) is state
    assert strip_usage(value := usage(), Rights()) is value


def test_payloads_are_never_public() -> None:
    assert not Rights(payloads=True, public=True).payloads
    assert Rights(payloads=True).payloads


# -- values ----------------------------------------------------------------------------------------


def test_an_agents_output_without_its_model_and_price() -> None:
    found = strip_output(agent_output("agent_1"), Rights(public=True))
    assert set(found) == {"content", "finishReason", "tokens", "toolCalls", "providerTiming"}
    assert list(found["toolCalls"]["list"][0]) == list(CALL_FIELDS)
    model, tool = found["providerTiming"]["timeSegments"]
    assert model == {"type": "model", "startTime": "a", "endTime": "b", "duration": 1}
    # Its name is seen in toolCalls as well.
    assert tool["name"] == "clock"


@pytest.mark.parametrize(
    "value",
    [
        {"model": "Model T", "cost": 825},
        {"cost": {"total": 3}},
        {"name": "Ann", "index": 1, "city": "Ulm"},
        {"reason": "because", "error": "none", "code": "E1"},
        {"errors": {"field": "is missing"}},
        {"transcript": "what was said"},
        {"status": 404, "headers": {"X-Model": "mine"}, "body": {"error": "No such order.", "code": "E2"}},
    ],
)
def test_what_the_author_made_stays_as_it_is(value: dict[str, t.Any]) -> None:
    assert strip_output(value, Rights(public=True)) == value


def test_usage_tells_counts_and_times() -> None:
    found = strip_usage(usage(), Rights(public=True))
    assert found == {
        "tokens": {"input": 1, "output": 2, "total": 3},
        "durationMs": 9,
        "activeMs": 9,
        "queuedMs": 0,
        "humanWaitMs": 0,
        "byBlock": {"agent_1": {"tokens": {"input": 1, "output": 2, "total": 3}}},
    }


@pytest.mark.parametrize("code", sorted(TEXTS))
def test_a_text_for_visitors_says_something_and_names_nothing(code: str) -> None:
    text = text_for(code)
    assert text.endswith(".")
    for word in ("provider", "model", "API", "key", "block", "STUDIO", "/", "`"):
        assert word not in text


def test_codes_of_plugins_stay_and_what_is_none_does_not() -> None:
    assert code_for("card_declined") == "card_declined"
    assert text_for("card_declined") == FAILED
    assert code_for("openai/gpt-5 said no") == "block_failed"
    assert code_for(None) == "block_failed"
