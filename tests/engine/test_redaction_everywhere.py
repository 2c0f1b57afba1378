"""The same filter wherever a run leaves traces: spans, log lines, composites, children, runners; and at random."""

from __future__ import annotations

import logging
import typing as t
from collections.abc import Iterator

import gevent
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app import events as ev
from app.engine.services import Services
from app.redaction import log_lines
from app.redaction.finders import finders_of
from app.redaction.policy import Policy
from app.redaction.sieve import sieved
from app.streams.agent_events import AgentEvents, AgentEventsOptions
from app.streams.rights import Rights
from plugins.spec import Tool
from tests.engine.flows import document
from tests.engine.redacted import Model, Turn, chunks, ended, everything, joined, rig
from tests.redaction.samples import SAMPLES
from tests.streams.generate import violations
from tests.support.engine import agent, start

MAIL = "jane.doe@example.com"
CARD = "4111 1111 1111 1111"
RAISES = "raise"


def look(arguments: dict[str, t.Any], context: t.Any) -> t.Any:
    if RAISES in arguments:
        raise RuntimeError(f"cannot look at {arguments[RAISES]}")
    return arguments


@pytest.fixture(scope="module")
def model() -> Model:
    return Model()


@pytest.fixture(scope="module")
def made(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    tool = Tool("look", "Looks.", {"type": "object"}, look)
    with rig(tmp_path_factory.mktemp("everywhere"), model, [tool]) as opened:
        yield opened


def with_policy(doc: dict[str, t.Any], mode: str) -> dict[str, t.Any]:
    return {**doc, "settings": {"redact": {"mode": mode}}}


# -- lines of the log ----------------------------------------------------------------------------------


def test_lines_about_a_run_are_masked_and_others_are_not(made: Services, model: Model) -> None:
    lines: list[str] = []
    handler = logging.Handler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    handler.emit = lambda record: lines.append(handler.format(record))  # type: ignore[method-assign]
    logger = logging.getLogger("studio.agents")
    logger.addHandler(handler)
    try:
        with log_lines.masked([handler], tuple):
            model.turns = [[("call", ("look", {RAISES: MAIL}))], [("text", "done")]]
            for mode in ("live", "strict"):
                ended(start(made, agent("said/x", tools=["look"], redact={"mode": mode}))[0])
            logger.warning("of no run: %s", MAIL)
    finally:
        logger.removeHandler(handler)
    assert any("cannot look at [email]" in line for line in lines)
    assert [line for line in lines if MAIL in line] == [f"of no run: {MAIL}"]


# -- composites and children ---------------------------------------------------------------------------

TALK = {"participants": [{"model": "said/x", "name": "A"}, {"model": "said/x", "name": "B"}], "rounds": 1}


@pytest.mark.parametrize("mode", ["live", "strict"])
@pytest.mark.parametrize(
    ("kind", "config"),
    [
        ("debate", TALK),
        ("sequential", {"agents": TALK["participants"]}),
        ("vote", {"voters": TALK["participants"], "options": [f"Yes {MAIL}", "no"], "abstain": True}),
    ],
)
@pytest.mark.parametrize("inside", [False, True])
def test_agents_together(
    made: Services, model: Model, mode: str, kind: str, config: dict[str, t.Any], inside: bool
) -> None:
    model.turns = [[("thinking", f"of {MAIL[:5]}"), ("thinking", MAIL[5:]), ("text", f"Yes {MAIL}")]]
    doc = document([("it", kind, config)], "start > it")
    if inside:
        doc = document([("loop", "loop", {"kind": "for", "times": 2}), ("it", kind, config)], "start > loop")
        doc["edges"] += [
            {"source": "loop", "target": "it", "source_handle": "loop"},
            {"source": "it", "target": "loop"},
        ]
    run, recorder = start(made, with_policy(doc, mode), {"message": f"Talk about {MAIL}"})
    ended(run)
    assert isinstance(recorder.envelopes[-1].event, ev.RunCompleted)
    assert MAIL not in everything(made, run, recorder)
    assert violations(recorder.envelopes) == []
    state = run.state.blocks["it"]
    assert state.output is not None
    assert state.settled == state.output["content"] == "Yes [email]"


@pytest.mark.parametrize("mode", ["live", "strict"])
def test_a_policy_of_one_participant_holds_for_all_of_its_block(
    made: Services, model: Model, mode: str
) -> None:
    model.turns = [[("thinking", MAIL), ("text", MAIL)]]
    first, second = TALK["participants"]
    config = {**TALK, "participants": [first, {**second, "redact": {"mode": mode}}]}
    run, recorder = start(made, document([("it", "debate", config)], "start > it"))
    ended(run)
    assert MAIL not in everything(made, run, recorder)


def test_a_secret_vote_is_as_secret(made: Services, model: Model) -> None:
    model.turns = [[("text", "yes")]]
    config = {"voters": TALK["participants"], "options": ["yes", "no"], "secret": True}
    run, recorder = start(made, with_policy(document([("it", "vote", config)], "start > it"), "strict"))
    ended(run)
    assert [event.vote for event in recorder.of(ev.VoteCast)] == ["yes", "yes"]
    assert recorder.of(ev.VoteClosed)[0].votes == {"yes": 2, "no": 0}


# -- at random -----------------------------------------------------------------------------------------

#: Samples stand by themselves, as a detector wants them.
_WHOLE = [f" {sample} " for samples in SAMPLES.values() for sample in samples]
_PARTS = [
    " 4111 1111 ",
    "1111 1111 ",
    " jane.",
    "doe@",
    "example.com ",
    " ",
    "x",
    "1",
    ".",
    "\n",
    "é",
    "word ",
]
_PIECES = st.sampled_from([*_WHOLE, *_PARTS])
_STEPS = st.one_of(
    st.tuples(st.sampled_from(["text", "thinking"]), _PIECES),
    st.tuples(st.just("pause"), st.none()),
    st.tuples(
        st.just("call"),
        st.tuples(st.sampled_from(["look", "nope"]), st.dictionaries(_PIECES, _PIECES, max_size=2)),
    ),
    st.tuples(st.just("call"), st.tuples(st.just("look"), _PIECES)),
)
_TURNS = st.lists(
    st.tuples(st.lists(_STEPS, max_size=8), st.sampled_from([[], [], [("fail", "provider_overloaded")]])).map(
        lambda made: [*made[0], *made[1]]
    ),
    max_size=3,
)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    turns=_TURNS,
    mode=st.sampled_from(["live", "strict"]),
    stop_after=st.none() | st.integers(0, 10),
    fallback=st.booleans(),
)
def test_the_stream_keeps_its_rules_and_tells_nothing(
    made: Services, model: Model, turns: list[Turn], mode: str, stop_after: int | None, fallback: bool
) -> None:
    model.turns = turns
    config = {"fallbacks": ["said/backup"]} if fallback else {}
    doc = agent("said/x", tools=["look"], redact={"mode": mode}, retries=0, max_batches=2, **config)
    run, recorder = start(made, doc, {"message": f"{MAIL} {CARD}"})
    if stop_after is not None:
        for _ in range(stop_after):
            gevent.sleep(0)
        run.cancel("stop_requested")
    ended(run)
    assert violations(recorder.envelopes) == []
    told = everything(made, run, recorder)
    assert [sample for samples in SAMPLES.values() for sample in samples if sample in told] == []
    terminal = recorder.envelopes[-1].event
    if isinstance(terminal, ev.RunCompleted):
        assert chunks(recorder) == terminal.output["content"] == recorder.of(ev.AnswerSettled)[0].text
    if mode == "strict" and not isinstance(terminal, ev.RunCompleted):
        assert joined(recorder) == ""
    _check_replay(run, recorder)


def _check_replay(run: t.Any, recorder: t.Any) -> None:
    """Who comes later reads the same bytes."""

    def body(envelopes: t.Iterable[ev.Envelope]) -> bytes:
        options = AgentEventsOptions(run.id, True, False, Rights(True, True), None, ("agent_1",))
        projection = AgentEvents(options)
        return b"".join(projection.frames(envelope) for envelope in envelopes)

    assert body(run.log) == body(recorder.envelopes)


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(pieces=st.lists(_PIECES, max_size=14))
def test_live_text_is_what_the_filter_makes_of_all_of_it(
    made: Services, model: Model, pieces: list[str]
) -> None:
    model.turns = [[("text", piece) for piece in pieces]]
    run, recorder = start(made, agent("said/x", redact={"mode": "live"}))
    ended(run)
    whole = sieved(finders_of(Policy(), made.plugins.detectors), "".join(pieces))
    assert joined(recorder) == whole == run.state.blocks["agent_1"].output["content"]  # type: ignore[index]
