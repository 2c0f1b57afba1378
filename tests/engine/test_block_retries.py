"""Further attempts of blocks that ask models: what is asked again, what is told once, what stands."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from app import events as ev
from app.engine.services import Services
from tests.streams.generate import violations
from tests.support.engine import Recorder, services, start
from tests.support.graphs import alone
from tests.support.vendor import Call, Vendor, vendor

pytestmark = pytest.mark.leak_check

MODEL = "openai-compatible/x"


@pytest.fixture
def asked() -> Iterator[Vendor]:
    with vendor() as made:
        yield made


@pytest.fixture
def made(tmp_path: Path, asked: Vendor, monkeypatch: pytest.MonkeyPatch) -> Iterator[Services]:
    monkeypatch.setenv("STUDIO_OPENAI_COMPATIBLE_API_BASE", asked.base)
    with services(tmp_path, {"STUDIO_MODEL_RETRIES": "0"}) as opened:
        yield opened


def agent(prompt: str, **more: t.Any) -> dict[str, t.Any]:
    return {"model": MODEL, "prompt": prompt, **more}


def says(text: str) -> t.Callable[[Call], None]:
    """Think, then say ``text``."""

    def answer(call: Call) -> None:
        call.send({"reasoning_content": "hm"})
        call.text(text)
        call.finish()

    return answer


def breaks(call: Call) -> None:
    """Think, begin to speak, and break off."""
    call.send({"reasoning_content": "hm"})
    call.text("I would")
    call.cut()


def played(
    made: Services, asked: Vendor, document: dict[str, t.Any], *answers: t.Callable[[Call], None]
) -> tuple[t.Any, Recorder, list[str]]:
    """The terminal of a run whose model calls are answered so, what came before, and what was asked."""
    run, recorder = start(made, document)
    questions = []
    for answer in answers:
        call = asked.next_call()
        questions.append(call.body["messages"][-1]["content"])
        answer(call)
    assert run.done.wait(20)
    assert asked.calls.empty()
    assert violations(recorder.envelopes) == []
    return recorder.envelopes[-1].event, recorder, questions


def steps(recorder: Recorder) -> list[tuple[int, str]]:
    return [(e.index, e.phase) for e in recorder.of(ev.SequenceStep)]


ONCE_EACH = [(n, phase) for n in range(3) for phase in ("start", "end")]


def test_a_sequence_asks_again_who_failed_and_tells_of_each_agent_once(made: Services, asked: Vendor) -> None:
    config = {"agents": [agent("one"), agent("two"), agent("three")], "retries": 2}
    end, recorder, questions = played(
        made,
        asked,
        alone("sequential", config),
        says("first"),
        breaks,
        breaks,
        says("second"),
        says("third"),
    )
    assert questions == ["one", "two", "two", "two", "three"]
    assert end.output["content"] == "third"
    assert [a["content"] for a in end.output["answers"]] == ["first", "second", "third"]
    assert steps(recorder) == ONCE_EACH
    kinds = [e.event for e in recorder.envelopes]
    ends = next(
        place
        for place, e in enumerate(kinds)
        if isinstance(e, ev.SequenceStep) and e.phase == "end" and e.index
    )
    thoughts = [place for place, e in enumerate(kinds) if isinstance(e, ev.ThinkingDelta)]
    assert [place < ends for place in thoughts] == [True, True, True, True, False], (
        "the pair holds all attempts"
    )


def test_a_sequence_that_fails_for_good_tells_the_end_of_its_last_agent_once(
    made: Services, asked: Vendor
) -> None:
    config = {"agents": [agent("one"), agent("two"), agent("three")], "retries": 1}
    end, recorder, questions = played(made, asked, alone("sequential", config), says("first"), breaks, breaks)
    assert isinstance(end, ev.RunFailed)
    assert questions == ["one", "two", "two"]
    assert steps(recorder) == [(0, "start"), (0, "end"), (1, "start"), (1, "end")]


def test_a_debate_that_nobody_had_spoken_in_begins_once(made: Services, asked: Vendor) -> None:
    config = {"participants": [agent("ann"), agent("ben")], "rounds": 1, "retries": 1}
    end, recorder, questions = played(made, asked, alone("debate", config), breaks, says("yes"), says("no"))
    assert questions == ["ann", "ann", "ben"]
    assert end.output["content"] == "no"
    told = [
        e
        for e in recorder.of(ev.RunEvent)
        if isinstance(e, ev.DebateStarted | ev.DebateRound | ev.DebateEnded)
    ]
    names = ("Participant 1", "Participant 2")
    assert told == [ev.DebateStarted("it", names, 1), ev.DebateRound("it", 1), ev.DebateEnded("it", 1)]


def test_a_router_asks_anew_for_each_attempt(made: Services, asked: Vendor) -> None:
    config = {
        "mode": "model",
        "model": MODEL,
        "routes": [{"name": "a", "description": "A."}, {"name": "b", "description": "B."}],
        "retries": 1,
    }
    chosen = json.dumps({"route": "b", "reason": "It fits."})
    end, recorder, questions = played(
        made, asked, alone("router", config), says("nonsense"), says("nonsense"), says(chosen)
    )
    assert len(questions) == 3
    assert (end.output["route"], end.output["reason"]) == ("b", "It fits.")
    assert recorder.of(ev.RouteChosen) == [ev.RouteChosen("it", "b", "It fits.")]


def test_a_guardrail_asks_anew_for_each_attempt(made: Services, asked: Vendor) -> None:
    config = {"checks": [{"kind": "model", "model": MODEL, "instruction": "Be kind."}], "retries": 1}
    verdict = json.dumps({"passed": True, "reason": "It is kind."})
    end, _, questions = played(made, asked, alone("guardrail", config), says("nonsense"), says(verdict))
    assert len(questions) == 2
    assert end.output["passed"] is True


def test_an_agent_whose_answer_has_the_wrong_form_is_asked_anew(made: Services, asked: Vendor) -> None:
    form = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    config = {"agents": [agent("one"), agent("two", response_format=form)], "retries": 1}
    end, recorder, questions = played(
        made, asked, alone("sequential", config), says("first"), says("none"), says('{"n": 3}')
    )
    assert questions == ["one", "two", "two"]
    assert end.output["answers"][1]["n"] == 3
    assert steps(recorder) == ONCE_EACH[:4]
