"""The jury of ``examples/jury.yaml``: a debate and a secret vote inside a loop, on every surface there is here."""

from __future__ import annotations

import typing as t
from collections import Counter
from pathlib import Path

import pytest

from app import events as ev
from app.engine.catalog import runnable
from app.engine.recompiled import compiled
from app.streams.agent_events import AgentEventsOptions
from app.streams.rights import Rights
from app.workflows.document import parse
from tests.streams.generate import violations
from tests.streams.reader import read
from tests.support.engine import Recorder, services
from tests.support.graphs import ended
from tests.support.shared import ROOT

ANSWER = "We find the accused not guilty, by 2 votes of 3, after 2 ballots."


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[t.Any, Recorder]:
    """The end of a run of the example, and all that it told."""
    document = parse((ROOT / "examples" / "jury.yaml").read_text())
    with services(tmp_path_factory.mktemp("jury")) as made:
        return ended(made, document, {"message": "Who opened the door?"})


def test_it_comes_to_a_verdict_at_the_second_ballot(told: tuple[t.Any, Recorder]) -> None:
    end, recorder = told
    assert end.output["content"] == ANSWER
    assert [(e.iteration, e.path) for e in recorder.of(ev.LoopIteration)] == [
        (1, "loop"),
        (2, "loop"),
        (2, "exit"),
    ]
    assert [(e.winner, e.abstained) for e in recorder.of(ev.VoteClosed)] == [(None, 1), ("not guilty", 0)]
    assert Counter(e.sender for e in recorder.of(ev.AgentMessage)) == {"Ada": 4, "Ben": 4, "Cleo": 4}
    assert len(recorder.of(ev.DebateRound)) == 4
    assert violations(recorder.envelopes) == []


def test_answers_inside_the_loop_are_settled_once_and_after_it(told: tuple[t.Any, Recorder]) -> None:
    _, recorder = told
    settled = [(e.block, e.text) for e in recorder.of(ev.AnswerSettled)]
    assert [block for block, _ in settled] == ["discussion", "ballot", "foreman"]
    assert settled[1:] == [("ballot", "not guilty"), ("foreman", ANSWER)]
    assert {e.block for e in recorder.of(ev.TextDelta)} == {"foreman"}


@pytest.mark.parametrize("negotiated", [True, False])
def test_agent_events_carry_answers_whole_and_thinking_and_tools_by_block(
    told: tuple[t.Any, Recorder], negotiated: bool
) -> None:
    end, recorder = told
    answers = ("discussion", "ballot", "foreman")
    rights = Rights(thinking=True, tools=True)
    options = AgentEventsOptions("run_1", negotiated, False, rights, None, answers)
    reader = read(options, recorder.envelopes)
    assert reader.standing == {block: end.outputs[block]["content"] for block in answers}
    assert reader.events("chunk_reset") == []
    tools = [frame for frame in reader.events("tool") if frame["phase"] == "start"]
    assert Counter(frame["blockId"] for frame in tools) == ({"discussion": 12} if negotiated else {})
    assert {frame["blockId"] for frame in reader.events("thinking")} == (
        {"discussion"} if negotiated else set()
    )


def test_the_models_of_its_agents_are_known_before_a_run(tmp_path: Path) -> None:
    document = parse((ROOT / "examples" / "jury.yaml").read_text())
    document["blocks"][2]["config"]["participants"][1]["model"] = "openai/gpt-5.2"
    document["blocks"][2]["config"]["moderator"] = {"model": "scripted/echo", "fallbacks": ["mistral/x"]}
    with services(tmp_path) as made:
        models = dict(runnable("wf_test", 1, compiled(document, made.plugins)).models)
    inside = "blocks[2].config"
    assert models[f"{inside}.participants[1].model"] == "openai/gpt-5.2"
    assert models[f"{inside}.moderator.fallbacks[0]"] == "mistral/x"
    assert models["blocks[3].config.voters[2].model"] == "scripted/echo"
