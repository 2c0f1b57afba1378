"""What is masked in a run: live and strict, in every channel, over every boundary."""

from __future__ import annotations

import logging
import typing as t
from collections.abc import Iterator

import gevent
import greenlet
import pytest

from app import events as ev
from app.engine.emitter import THINKING_CAP, Emitter
from app.engine.redacting import RedactingEmitter
from app.engine.services import Services
from plugins.spec import Tool, ToolFailed
from tests.engine.redacted import Model, Turn, chunks, ended, everything, joined, rig
from tests.redaction.samples import SAMPLES
from tests.streams.generate import violations
from tests.support.engine import Recorder, agent, start

CARD = "4111 1111 1111 1111"
MAIL = "jane.doe@example.com"
OPEN = {"type": "object"}
#: What the tool ``look`` finds.
FOUND: dict[str, t.Any] = {}


def look(arguments: t.Any, context: t.Any) -> t.Any:
    return FOUND["run"](arguments, context) if "run" in FOUND else FOUND["is"]


@pytest.fixture(scope="module")
def model() -> Model:
    return Model()


@pytest.fixture(scope="module")
def made(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    with rig(tmp_path_factory.mktemp("redaction"), model, [Tool("look", "Looks.", OPEN, look)]) as opened:
        yield opened


def said(*pieces: str, kind: str = "text") -> Turn:
    return [(kind, piece) for piece in pieces]


def run(
    made: Services, model: Model, *turns: Turn, given: t.Any = None, **config: t.Any
) -> tuple[t.Any, Recorder]:
    model.turns = list(turns)
    document = agent("said/x", **config)
    started, recorder = start(made, document, given)
    return ended(started), recorder


# -- off ---------------------------------------------------------------------------------------------


def test_a_run_without_a_policy_has_the_plain_emitter(made: Services, model: Model) -> None:
    plain, recorder = run(made, model, said(f"My card: {CARD}"))
    assert type(plain.emitter) is Emitter
    assert plain.redaction is None
    assert chunks(recorder) == f"My card: {CARD}"


# -- live --------------------------------------------------------------------------------------------


def test_live_text_flows_word_by_word_and_values_are_masked(made: Services, model: Model) -> None:
    pieces = (
        "Pay",
        " with",
        " 4111",
        " 1111",
        " 1111",
        " 1111",
        " or",
        " write",
        " to jane.",
        "doe@example",
        ".com",
        "!",
    )
    redacted, recorder = run(made, model, said(*pieces), redact={"mode": "live"})
    assert type(redacted.emitter) is RedactingEmitter
    deltas = [event.text for event in recorder.of(ev.TextDelta)]
    assert deltas == ["Pay ", "with ", "[card] ", "or ", "write to ", "[email]!"]
    row = made.store.runs.get(redacted.id)
    assert row is not None
    assert row["output"]["content"] == "Pay with [card] or write to [email]!" == chunks(recorder)
    assert recorder.of(ev.AnswerSettled)[0].text == chunks(recorder)


def test_the_mask_and_the_detectors_are_the_policys(made: Services, model: Model) -> None:
    redact = {"mode": "live", "detectors": ["email"], "mask": "<{kind}?>"}
    _, recorder = run(made, model, said(f"{CARD} {MAIL}"), redact=redact)
    assert chunks(recorder) == f"{CARD} <email?>"


def test_parts_that_are_not_named_are_as_they_are(made: Services, model: Model) -> None:
    FOUND["is"] = {"mail": MAIL}
    turns = [[*said(MAIL, kind="thinking"), ("call", ("look", {"mail": MAIL}))], said(MAIL)]
    redacted, recorder = run(
        made, model, *turns, given={"message": MAIL}, tools=["look"], redact={"applies": ["answer"]}
    )
    assert chunks(recorder) == "[email]"
    assert joined(recorder, ev.ThinkingDelta) == MAIL
    assert (
        recorder.of(ev.ToolFinished)[0].arguments == recorder.of(ev.ToolFinished)[0].result == {"mail": MAIL}
    )
    row = made.store.runs.get(redacted.id)
    assert row is not None
    assert row["input"] == {"message": MAIL}


# -- strict ------------------------------------------------------------------------------------------


def test_the_output_of_a_tool_block_is_what_a_tool_gave(made: Services) -> None:
    FOUND["is"] = {"mail": MAIL}
    for applies in (["tools"], ["answer"], ["tools", "answer"]):
        document = {
            "name": "Test",
            "blocks": [{"id": "found", "type": "tool", "config": {"tool": "look"}}],
            "edges": [],
            "settings": {"redact": {"mode": "live", "applies": applies}},
        }
        started, recorder = start(made, document, {})
        terminal = ended(started) and recorder.envelopes[-1].event
        assert isinstance(terminal, ev.RunCompleted)
        assert terminal.output == {"result": {"mail": "[email]"}, "status": "success"}


def test_strict_text_comes_whole_and_masked_before_its_turn_ends(made: Services, model: Model) -> None:
    FOUND["is"] = "nothing"
    turns = [[*said("I look", " it up"), ("call", ("look", {}))], said("Here", " is ", CARD, ".")]
    _, recorder = run(made, model, *turns, tools=["look"], redact={"mode": "strict"})
    events = [e.event for e in recorder.envelopes]
    assert recorder.of(ev.TextDelta) == [ev.TextDelta("agent_1", 1, "Here is [card].", False)]
    place = next(n for n, event in enumerate(events) if isinstance(event, ev.TextDelta))
    assert events[place + 1] == ev.TurnEnded("agent_1", 1, "final")
    assert "look it up" not in str(events)


def test_strict_thinking_comes_whole_at_the_end_of_its_turn(made: Services, model: Model) -> None:
    FOUND["is"] = "nothing"
    first: Turn = [*said("Who is jane", ".doe@exam", "ple.com?", kind="thinking"), ("call", ("look", {}))]
    second: Turn = [*said("Aha", kind="thinking"), *said("Done."), *said(" Yes.", kind="thinking")]
    _, recorder = run(made, model, first, second, tools=["look"], redact={})
    thought = recorder.of(ev.ThinkingDelta)
    assert [(event.turn, event.text) for event in thought] == [(0, "Who is [email]?"), (1, "Aha Yes.")]


def test_what_was_said_before_a_stop_is_not_told(made: Services, model: Model) -> None:
    model.turns = [[*said("half an answer "), ("pause", None), ("stall", None)]]
    started, recorder = start(made, agent("said/x", redact={}))
    for _ in range(10):
        gevent.sleep(0)
    started.cancel("stop_requested")
    ended(started)
    assert recorder.of(ev.TextDelta) == []
    row = made.store.runs.get(started.id)
    assert row is not None
    assert (row["status"], row["partial_text"]) == ("cancelled", None)


@pytest.mark.parametrize("mode", ["live", "strict"])
def test_a_block_that_is_tried_again_begins_anew(made: Services, model: Model, mode: str) -> None:
    """What was held of the first try is no part of the second."""
    model.calls = 0
    model.turns = [[*said("4111 1111 "), ("fail", "context_length_exceeded")], said("1111 1111 it is")]
    document = agent("said/in-order", redact={"mode": mode})
    document["blocks"][1]["config"] |= {"retries": 0}
    document["blocks"].append(
        {"id": "row", "type": "loop", "config": {"kind": "for", "times": 1, "retries": 1}}
    )
    document["edges"] = [
        {"source": "start", "target": "row"},
        {"source": "row", "target": "agent_1", "source_handle": "loop"},
        {"source": "agent_1", "target": "row"},
    ]
    _, recorder = start(made, document)
    ended(_)
    assert joined(recorder) == "1111 1111 it is"
    assert violations(recorder.envelopes) == []


# -- every channel -----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["live", "strict"])
@pytest.mark.parametrize("name", SAMPLES)
def test_no_sample_is_in_anything_that_is_told_or_kept(
    made: Services, model: Model, mode: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for sample in SAMPLES[name]:
        half = len(sample) // 2
        FOUND["is"] = {"deep": [{sample: [f"is {sample}"]}], "number": 4111111111111111, sample: sample}
        turns = [
            [
                *said("I think ", sample[:half], sample[half:], kind="thinking"),
                *said("Let me see ", sample[:half], sample[half:]),
                ("call", ("look", {"who": sample, sample: ["x", sample]})),
                ("call", (f"no {sample}", {"a": 1})),
                ("call", ("look", f"not json {sample}")),
            ],
            [*said(sample[:half], sample[half:], kind="thinking"), *said("It is ", *sample, ".")],
        ]
        redacted, recorder = run(
            made, model, *turns, given={"message": f"I am {sample}"}, tools=["look"], redact={"mode": mode}
        )
        told = everything(made, redacted, recorder) + caplog.text
        assert sample not in told
        assert "4111111111111111" not in told
        assert chunks(recorder).startswith("It is [")
        assert "".join(event.text for event in recorder.of(ev.TextDelta) if event.turn == 1) == chunks(
            recorder
        )
        # What the model is told is not masked.
        assert sample in str(model.asked[-1].messages[0])
        assert sample in str(model.asked[-1].messages[-1]) or len(model.asked[-1].messages) > 2


@pytest.mark.parametrize("mode", ["live", "strict"])
def test_a_value_cut_over_turns_does_not_come_together(made: Services, model: Model, mode: str) -> None:
    FOUND["is"] = "ok"
    for name, samples in SAMPLES.items():
        for sample in samples:
            for place in range(1, len(sample)):
                turns = [
                    [
                        *said("a ", sample[:place], kind="thinking"),
                        *said("b ", sample[:place]),
                        ("call", ("look", {})),
                    ],
                    [*said(sample[place:], " c", kind="thinking"), *said(sample[place:], " d")],
                ]
                _, recorder = run(
                    made, model, *turns, tools=["look"], redact={"mode": mode, "detectors": [name]}
                )
                assert sample not in joined(recorder)
                assert sample not in joined(recorder, ev.ThinkingDelta)
                assert chunks(recorder) == joined(recorder)[-len(chunks(recorder)) :]


@pytest.mark.parametrize("mode", ["live", "strict"])
def test_a_fallback_after_half_a_value(made: Services, model: Model, mode: str) -> None:
    turns = [[*said("a 4111 1111 ", kind="thinking"), *said("b 4111 1111 "), ("fail", "provider_overloaded")]]
    turns.append([*said("1111 1111 c", kind="thinking"), *said("1111 1111 d")])
    redacted, recorder = run(made, model, *turns, fallbacks=["said/backup"], redact={"mode": mode}, retries=0)
    assert CARD not in everything(made, redacted, recorder)
    assert joined(recorder, ev.ThinkingDelta) == "a 4111 1111 [card] c"
    assert chunks(recorder) == "1111 1111 d"


@pytest.mark.parametrize("mode", ["live", "strict"])
def test_a_value_cut_over_iterations_of_a_loop(made: Services, model: Model, mode: str) -> None:
    model.calls = 0
    model.turns = [said("card 4111 1111 "), said("1111 1111 done")]
    document = {
        "name": "loop",
        "blocks": [
            {"id": "start", "type": "start"},
            {"id": "loop", "type": "loop", "config": {"kind": "for", "times": 2}},
            {
                "id": "agent_1",
                "type": "agent",
                "config": {"model": "said/in-order", "redact": {"mode": mode}},
            },
        ],
        "edges": [
            {"source": "start", "target": "loop"},
            {"source": "loop", "target": "agent_1", "source_handle": "loop"},
            {"source": "agent_1", "target": "loop"},
        ],
    }
    started, recorder = start(made, document)
    ended(started)
    assert CARD not in joined(recorder)
    assert CARD not in everything(made, started, recorder)
    assert chunks(recorder) == "[card] done"
    assert started.state.blocks["agent_1"].output == {
        **started.state.blocks["agent_1"].output,
        "content": "[card] done",
    }


# -- other rules ---------------------------------------------------------------------------------------


def test_what_comes_next_sees_what_was_let_through(made: Services, model: Model) -> None:
    document = agent("said/in-order", redact={"mode": "live", "applies": ["answer"]})
    document["blocks"].append(
        {
            "id": "agent_2",
            "type": "agent",
            "config": {"model": "said/in-order", "prompt": "{{ blocks.agent_1.content }}"},
        }
    )
    document["edges"].append({"source": "agent_1", "target": "agent_2"})
    model.calls, model.turns = 0, [said(f"Mine is {MAIL}"), said("Thanks")]
    started, _ = start(made, document)
    ended(started)
    assert model.asked[-1].messages[0].text == "Mine is [email]"  # type: ignore[union-attr]


def test_a_failures_words_are_masked_wherever_it_comes_to(
    made: Services, model: Model, caplog: pytest.LogCaptureFixture
) -> None:
    """A tool that fails with words of its own, in a block without a policy, inside of a loop without one."""

    def fails(arguments: t.Any, context: t.Any) -> t.Any:
        raise ToolFailed(f"no {arguments['who']} here")

    document = {
        "name": "loop",
        "blocks": [
            {"id": "start", "type": "start"},
            {"id": "loop", "type": "loop", "config": {"kind": "for", "times": 1}},
            {
                "id": "tool",
                "type": "tool",
                "config": {"tool": "look", "arguments": {"who": "{{ input.message }}"}},
            },
        ],
        "edges": [
            {"source": "start", "target": "loop"},
            {"source": "loop", "target": "tool", "source_handle": "loop"},
            {"source": "tool", "target": "loop"},
        ],
        "settings": {"redact": {"mode": "live"}},
    }
    FOUND["run"] = fails
    try:
        started, recorder = start(made, document, {"message": MAIL})
        ended(started)
    finally:
        del FOUND["run"]
    terminal = recorder.envelopes[-1].event
    assert isinstance(terminal, ev.RunFailed)
    assert terminal.code == "tool_failed"
    told = everything(made, started, recorder) + caplog.text
    assert MAIL not in told
    assert "no [email] here" in told


def test_thinking_is_capped_all_the_same(made: Services, model: Model) -> None:
    long = "thinking. " * 2000
    for mode in ("live", "strict"):
        _, recorder = run(
            made, model, [*said(*[long] * 30, kind="thinking"), *said("x")], redact={"mode": mode}
        )
        thought = recorder.of(ev.ThinkingDelta)
        assert sum(len(event.text) for event in thought) == THINKING_CAP
        assert [event.truncated for event in thought].count(True) == 1


@pytest.mark.parametrize("mode", ["live", "strict"])
def test_emit_does_not_switch_greenlets(made: Services, model: Model, mode: str) -> None:
    model.turns = [said("x")]
    started, _ = start(made, agent("said/x", redact={"mode": mode}))
    emitter = ended(started).emitter
    emitter.ended, emitter._state.terminal = False, None
    emitter.emit(ev.BlockStarted("agent_2", "agent", "A"))
    switches: list[t.Any] = []
    greenlet.settrace(lambda event, args: switches.append(args))
    try:
        emitter.emit(ev.ThinkingDelta("agent_2", 0, f"who {MAIL}"))
        emitter.emit(ev.TextDelta("agent_2", 0, f"it is {MAIL} {CARD}", True))
        emitter.emit(ev.TurnEnded("agent_2", 0, "final"))
        emitter.emit(ev.BlockFinished("agent_2", "executed", {"content": MAIL, "x": {MAIL: CARD}}))
        emitter.flush()
    finally:
        greenlet.settrace(None)
    assert switches == []
