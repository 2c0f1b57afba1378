"""Debates: who hears what, who ends them, what is told."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from app import events as ev
from app.engine.services import Services
from tests.streams.generate import violations
from tests.support.graphs import alone, ended, graph, playing, stopped, told

pytestmark = pytest.mark.leak_check

SCRIPTS = {
    "for": "For it.",
    "against": "Against it.",
    "yields": "You are right.\n**consensus**",
    "agreed": "Consensus, they agree.",
    "disagreed": "CONTINUE",
    "hears": "[{{message}}]",
    "is": "{{system}}",
    "thinks": {"turns": [{"steps": [{"thinking": "hm"}, {"text": "Well."}]}]},
    "stalls": {"turns": [{"steps": [{"thinking": "hm"}, {"stall": True}]}]},
    "fails": {
        "turns": [
            {"steps": [{"thinking": "hm"}, {"error": {"code": "provider_bad_request", "message": "No."}}]}
        ]
    },
}


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Services]:
    with playing(tmp_path, SCRIPTS) as opened:
        yield opened


def agent(model: str, **more: t.Any) -> dict[str, t.Any]:
    return {"model": f"scripted/{model}", "retries": 0, **more}


def debate(*models: str, **more: t.Any) -> dict[str, t.Any]:
    return alone("debate", {"participants": [agent(model) for model in models], **more})


def frame(recorder: t.Any) -> list[t.Any]:
    """Start, rounds and end."""
    kinds = (ev.DebateStarted, ev.DebateRound, ev.DebateEnded)
    return [e.event for e in recorder.envelopes if isinstance(e.event, kinds)]


def said(recorder: t.Any) -> list[tuple[int | None, str, str, bool]]:
    return [(e.round, e.sender, e.content, e.answer) for e in recorder.of(ev.AgentMessage)]


def test_everybody_speaks_once_a_round_and_the_last_statement_is_the_answer(made: Services) -> None:
    end, recorder = ended(made, debate("for", "against"))
    names = ("Participant 1", "Participant 2")
    assert frame(recorder) == [
        ev.DebateStarted("it", names, 2),
        ev.DebateRound("it", 1),
        ev.DebateRound("it", 2),
        ev.DebateEnded("it", 2, False),
    ]
    assert said(recorder) == [
        (1, names[0], "For it.", False),
        (1, names[1], "Against it.", False),
        (2, names[0], "For it.", False),
        (2, names[1], "Against it.", True),
    ]
    output = end.output
    assert (output["content"], output["rounds"], output["consensus"]) == ("Against it.", 2, False)
    assert output["statements"][1] == {"round": 1, "index": 1, "name": names[1], "content": "Against it."}
    assert output["transcript"].splitlines()[0] == "Participant 1 (round 1): For it."
    assert [(e.block, e.text) for e in recorder.of(ev.AnswerSettled)] == [("it", "Against it.")]
    assert recorder.of(ev.TextDelta) == []
    assert violations(recorder.envelopes) == []


def test_each_hears_all_that_was_said_before(made: Services) -> None:
    end, _ = ended(made, debate("for", "hears", rounds=1), {"message": "Bring umbrellas?"})
    heard = end.output["content"]
    assert heard.startswith("[Bring umbrellas?\n\nWhat was said so far:\n\nParticipant 1 (round 1): For it.")
    assert "round 1 of at most 1" in heard


def test_a_prompt_of_its_own_sees_topic_and_statements(made: Services) -> None:
    speaker = agent(
        "echo",
        name="Bo",
        prompt="{{ topic }} {{ round }}/{{ rounds }} {{ statements | map(attribute='name') | join(',') }}",
    )
    doc = alone("debate", {"participants": [agent("for", name="Al"), speaker], "topic": "{{ input.q }}!"})
    end, _ = ended(made, doc, {"q": "Tea"})
    assert [s["content"] for s in end.output["statements"] if s["name"] == "Bo"] == [
        "Tea! 1/2 Al",
        "Tea! 2/2 Al,Bo,Al",
    ]


def test_participants_are_told_who_they_are_after_their_own_system_prompt(made: Services) -> None:
    one = agent("is", name="Al", system="Be brief.")
    end, _ = ended(made, alone("debate", {"participants": [one, agent("for", name="Bo")], "rounds": 1}))
    told_to = end.output["statements"][0]["content"]
    assert told_to.startswith("Be brief.\n\nYou take part in a debate as Al. The others are: Bo.")
    assert "CONSENSUS" not in told_to


def test_a_moderator_sums_up(made: Services) -> None:
    end, recorder = ended(made, debate("for", "against", rounds=1, moderator=agent("hears")))
    assert end.output["content"].startswith("[hi\n\nWhat was said so far:")
    assert "Participant 2 (round 1): Against it." in end.output["content"]
    assert said(recorder)[-1] == (None, "Moderator", end.output["content"], True)
    assert [answer for *_, answer in said(recorder)] == [False, False, True]
    assert len(end.output["statements"]) == 2


@pytest.mark.parametrize(("moderator", "rounds"), [("agreed", 1), ("disagreed", 3)])
def test_a_moderator_says_when_they_agree(made: Services, moderator: str, rounds: int) -> None:
    doc = debate("for", "against", rounds=3, stop_on="consensus", moderator=agent(moderator, prompt="Well?"))
    end, recorder = ended(made, doc)
    assert (end.output["rounds"], end.output["consensus"]) == (rounds, moderator == "agreed")
    assert len(recorder.of(ev.AgentMessage)) == 2 * rounds + 1, "the question itself is nobody's statement"


def test_without_a_moderator_all_have_to_agree(made: Services) -> None:
    end, recorder = ended(made, debate("yields", "against", rounds=2, stop_on="consensus"))
    assert (end.output["rounds"], end.output["consensus"]) == (2, False)
    end, recorder = ended(made, debate("yields", "yields", rounds=3, stop_on="consensus"))
    assert (end.output["rounds"], end.output["consensus"]) == (1, True)
    assert end.output["content"] == "You are right."
    assert said(recorder)[-1][2:] == ("You are right.", True)
    assert frame(recorder)[-1] == ev.DebateEnded("it", 1, True)


def test_what_they_think_is_told_under_its_id(made: Services) -> None:
    end, recorder = ended(made, debate("thinks", "thinks", rounds=1))
    assert [(e.block, e.turn, e.text) for e in recorder.of(ev.ThinkingDelta)] == [
        ("it", 0, "hm"),
        ("it", 1, "hm"),
    ]
    assert violations(recorder.envelopes) == []
    assert set(end.usage["byBlock"]) == {"it"}


def test_a_failure_in_the_middle_ends_it_and_is_told_once(made: Services) -> None:
    end, recorder = ended(made, debate("for", "fails", rounds=2))
    assert isinstance(end, ev.RunFailed)
    assert (end.code, end.block) == ("provider_bad_request", "it")
    assert frame(recorder)[-1] == ev.DebateEnded("it", 1, False)
    assert len(said(recorder)) == 1
    assert violations(recorder.envelopes) == []


def test_once_somebody_spoke_it_is_not_repeated(made: Services) -> None:
    _, recorder = ended(made, debate("for", "fails", retries=3))
    assert len(recorder.of(ev.ModelCallFailed)) == 1
    _, recorder = ended(made, debate("fails", "for", retries=3))
    assert len(recorder.of(ev.ModelCallFailed)) == 4, "nobody had"
    assert len(recorder.of(ev.DebateStarted)) == len(recorder.of(ev.DebateEnded)) == 1


def test_its_failure_can_be_taken_up(made: Services) -> None:
    doc = graph(
        [
            ("it", "debate", {"participants": [agent("for"), agent("fails")]}),
            ("caught", "set", {"values": {"why": "{{ blocks.it.code }}"}}),
        ],
        "start > it",
        "it -error> caught",
    )
    assert ended(made, doc)[0].output == {"why": "provider_bad_request"}


def test_a_stop_in_the_middle_closes_what_is_open(made: Services) -> None:
    recorder = stopped(made, debate("for", "stalls"), lambda event: isinstance(event, ev.ThinkingDelta))
    assert frame(recorder)[-1] == ev.DebateEnded("it", 1, False)
    assert violations(recorder.envelopes) == []


def test_bad_debates_are_refused(made: Services) -> None:
    inside = "blocks[1].config"
    assert set(told(made, debate("for"))[0]) == {f"{inside}.participants"}
    assert set(told(made, debate("for", "for", rounds=0))[0]) == {f"{inside}.rounds"}
    assert set(told(made, debate("for", "for", stop_on="boredom"))[0]) == {f"{inside}.stop_on"}
    formed = {"model": "scripted/for", "response_format": {"type": "object"}}
    assert told(made, debate("for", "for", moderator=formed))[0] == {}
    assert set(told(made, debate("for", "for", moderator=formed, stop_on="consensus"))[0]) == {
        f"{inside}.moderator.response_format"
    }
    both = [{**formed, "name": "a"}, {**formed, "name": "b"}]
    assert set(told(made, debate(participants=both, stop_on="consensus"))[0]) == {
        f"{inside}.participants[{place}].response_format" for place in range(2)
    }
    found, _ = told(made, debate("for", "for", moderator={"model": "scripted/none", "tools": ["hammer"]}))
    assert set(found) == {f"{inside}.moderator.tools[0]", f"{inside}.moderator.model"}
