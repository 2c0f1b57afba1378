"""Votes: how ballots are read and counted, what is told when, and that a secret one stays secret."""

from __future__ import annotations

import logging
import random
import typing as t
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from app import events as ev
from app.agents import ballots
from app.engine.services import Services
from tests.streams.generate import violations
from tests.support.engine import start
from tests.support.graphs import alone, ended, graph, playing, stopped, told

pytestmark = pytest.mark.leak_check

#: What no output of a secret vote may hold: each stands somewhere in a voter's config, prompt, thinking or call.
MARK = "mark-of-voter"
TOOLED = {
    "turns": [
        {
            "steps": [
                {"thinking": f"{MARK} thinks"},
                {"text": f"{MARK} looks"},
                {"tool_call": {"name": f"{MARK}-tool", "arguments": {"who": MARK}, "id": f"{MARK}-call"}},
            ]
        },
        {"steps": [{"text": "guilty"}, {"usage": {"input": 70, "output": 1}}]},
    ]
}
FAILS = {
    "turns": [
        {"steps": [{"thinking": MARK}, {"error": {"code": "provider_bad_request", "message": f"{MARK} no."}}]}
    ]
}
SCRIPTS = {
    "guilty": "guilty",
    "not-guilty": '"Not guilty."',
    "abstains": "abstain",
    "chats": "I would say guilty, but who knows.",
    "reasons": "It was dark, and he was tall.\n\n**Not guilty**",
    "hears": "{{message}}",
    "stalls": {"turns": [{"steps": [{"thinking": "hm"}, {"stall": True}]}]},
    f"{MARK}-tooled": TOOLED,
    f"{MARK}-fails": FAILS,
    f"{MARK}-slow": {
        "turns": [
            {
                "steps": [
                    {"thinking": f"{MARK} is slow"},
                    {"text": "not guilty", "chunk": "chars", "delay_ms": 1},
                    {"usage": {"input": 50, "output": 4}},
                ]
            }
        ]
    },
    f"{MARK}-plain": f"{MARK} guilty\nnot guilty",
}
OPTIONS = ["guilty", "not guilty"]
TOOL = {"name": f"{MARK}-tool", "description": MARK, "parameters": {"type": "object"}, "result": MARK}


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Services]:
    with playing(tmp_path, SCRIPTS) as opened:
        yield opened


def agent(model: str, **more: t.Any) -> dict[str, t.Any]:
    return {"model": f"scripted/{model}", "retries": 0, **more}


def vote(*models: str, **more: t.Any) -> dict[str, t.Any]:
    return alone("vote", {"voters": [agent(model) for model in models], "options": OPTIONS, **more})


# -- reading and counting ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    ["guilty", " Guilty. ", '"guilty"', "**GUILTY**", "First.\nThen guilty?\nguilty", "`guilty`\n"],
)
def test_a_ballot_is_the_option_and_nothing_else(answer: str) -> None:
    assert ballots.read(answer, OPTIONS) == "guilty"


@pytest.mark.parametrize(
    "answer",
    ["", "guilty, I think", "guilty or not guilty", "The answer is: guilty", "guilty\nnot sure", "g"],
)
def test_nothing_is_guessed(answer: str) -> None:
    with pytest.raises(ballots.Unreadable):
        ballots.read(answer, OPTIONS)


def test_an_option_fits_itself_before_marks_are_taken_off() -> None:
    assert ballots.read("C", ["C", "C++", "-1"]) == "C"
    assert ballots.read("c++", ["C", "C++", "-1"]) == "C++"
    assert ballots.read("-1.", ["C", "C++", "-1"]) == "-1"
    assert ballots.read("Abstain.", OPTIONS) is None


def test_a_majority_is_more_than_half_of_the_ballots_for_an_option() -> None:
    assert ballots.count(["a", "a", "b"], ["a", "b"]).majority
    assert not ballots.count(["a", "a", "b", "c"], ["a", "b", "c"]).majority
    assert ballots.count(["a", None, None], ["a", "b"]).majority
    tied = ballots.count(["a", "b", None], ["a", "b", "c"])
    assert (tied.leaders, tied.majority, tied.abstained, tied.cast) == (("a", "b"), False, 1, 2)
    assert ballots.count([None], ["a", "b"]).leaders == ()


# -- open votes ----------------------------------------------------------------------------------


def test_an_open_vote_tells_each_ballot_with_its_voter(made: Services) -> None:
    doc = vote("guilty", "not-guilty", "reasons")
    doc["blocks"][1]["config"]["voters"][0]["name"] = "Ann"
    end, recorder = ended(made, doc)
    assert recorder.of(ev.VoteCast) == [
        ev.VoteCast("it", "guilty", 0, "Ann"),
        ev.VoteCast("it", "not guilty", 1, "Voter 2"),
        ev.VoteCast("it", "not guilty", 2, "Voter 3"),
    ]
    assert recorder.of(ev.VoteClosed) == [
        ev.VoteClosed("it", {"guilty": 1, "not guilty": 2}, "not guilty", True, 0)
    ]
    output = end.output
    assert (output["content"], output["winner"], output["has_majority"]) == ("not guilty", "not guilty", True)
    assert output["ballots"][0] == {"index": 0, "name": "Ann", "vote": "guilty"}
    assert [(e.block, e.text) for e in recorder.of(ev.AnswerSettled)] == [("it", "not guilty")]
    assert recorder.of(ev.TextDelta) == []
    assert violations(recorder.envelopes) == []


def test_voters_hear_the_question_and_not_one_another(made: Services) -> None:
    doc = vote("hears", "hears", question="{{ input.who }}?", options=["Al?", "Bo?"])
    assert ended(made, doc, {"who": "Bo"})[0].output["votes"] == {"Al?": 0, "Bo?": 2}
    asked = agent("hears", prompt="{{ options[0] }}")
    doc = alone("vote", {"voters": [asked], "options": ["Al?", "Bo?"]})
    assert ended(made, doc)[0].output["winner"] == "Al?"


def test_an_answer_that_is_no_ballot_is_asked_for_once_more(made: Services) -> None:
    end, recorder = ended(made, vote("guilty", "chats"))
    assert (end.output["abstained"], end.output["winner"]) == (1, "guilty")
    assert [e.model for e in recorder.of(ev.UsageReported)].count("scripted/chats") == 2
    _, recorder = ended(made, vote("guilty", "chats", abstain=True))
    assert [e.model for e in recorder.of(ev.UsageReported)].count("scripted/chats") == 1


def test_who_abstains_is_counted_apart(made: Services) -> None:
    end, recorder = ended(made, vote("guilty", "abstains", "abstains", abstain=True))
    assert (end.output["votes"], end.output["abstained"]) == ({"guilty": 1, "not guilty": 0}, 2)
    assert end.output["has_majority"] is True
    assert [e.vote for e in recorder.of(ev.VoteCast)] == ["guilty", None, None]


def test_without_its_quorum_nobody_wins(made: Services) -> None:
    end, recorder = ended(made, vote("guilty", "guilty", "abstains", abstain=True, quorum=3))
    assert (end.output["winner"], end.output["quorum_met"], end.output["has_majority"]) == (
        None,
        False,
        False,
    )
    assert end.output["content"] == ""
    assert recorder.of(ev.VoteClosed)[0].winner is None
    assert (
        ended(made, vote("guilty", "guilty", "abstains", abstain=True, quorum=2))[0].output["winner"]
        == "guilty"
    )


@pytest.mark.parametrize("secret", [False, True])
@pytest.mark.parametrize(
    ("rule", "winners"),
    [("none", {None}), ("first", {"guilty"}), ("random", set(OPTIONS)), ("moderator", {"not guilty"})],
)
def test_a_tie_is_broken_by_its_rule(made: Services, rule: str, winners: set[str], secret: bool) -> None:
    more = {"moderator": agent("reasons")} if rule == "moderator" else {}
    end, recorder = ended(made, vote("not-guilty", "guilty", tie=rule, secret=secret, **more))
    assert end.output["tied"] is True
    assert end.output["winner"] in winners
    assert end.output["has_majority"] is False
    assert [type(e.event) for e in recorder.envelopes if type(e.event) in (ev.VoteCast, ev.VoteClosed)] == [
        ev.VoteCast,
        ev.VoteCast,
        ev.VoteClosed,
    ]


def test_a_voter_that_fails_ends_an_open_vote(made: Services) -> None:
    doc = graph(
        [
            ("it", "vote", {"voters": [agent("guilty"), agent(f"{MARK}-fails")], "options": OPTIONS}),
            ("caught", "set", {"values": {"why": "{{ blocks.it.code }}"}}),
        ],
        "start > it",
        "it -error> caught",
    )
    end, recorder = ended(made, doc)
    assert end.output == {"why": "provider_bad_request"}
    assert (len(recorder.of(ev.VoteCast)), recorder.of(ev.VoteClosed)) == (1, [])
    assert violations(recorder.envelopes) == []


def test_a_stop_in_the_middle_of_an_open_vote(made: Services) -> None:
    recorder = stopped(made, vote("guilty", "stalls"), lambda event: isinstance(event, ev.ThinkingDelta))
    assert (len(recorder.of(ev.VoteCast)), recorder.of(ev.VoteClosed)) == (1, [])
    assert violations(recorder.envelopes) == []


def test_bad_votes_are_refused(made: Services) -> None:
    inside = "blocks[1].config"

    def found(*models: str, **more: t.Any) -> set[str]:
        return set(told(made, vote(*models, **more))[0])

    assert found() == {f"{inside}.voters"}
    assert found("guilty", options=["a"]) == {f"{inside}.options"}
    assert found("guilty", options=["a", "A.", "", "abstain"]) == {
        f"{inside}.options[{n}]" for n in (1, 2, 3)
    }
    assert found("guilty", quorum=2) == {f"{inside}.quorum"}
    assert found("guilty", tie="moderator") == {f"{inside}.moderator"}
    assert found("guilty", moderator=agent("guilty")) == {f"{inside}.moderator"}
    formed = agent("guilty", response_format={"type": "object"})
    assert found("guilty", voters=[formed]) == {f"{inside}.voters[0].response_format"}
    assert found("guilty", tie="moderator", moderator=formed, voters=[agent("guilty")]) == {
        f"{inside}.moderator.response_format"
    }


# -- secret votes --------------------------------------------------------------------------------


def marked() -> list[dict[str, t.Any]]:
    """Voters that leave a mark wherever one can: names, prompts, models, thinking, calls, fallbacks."""
    own = {"system": f"{MARK} system", "prompt": f"{MARK} {{{{ question }}}}"}
    return [
        agent(f"{MARK}-tooled", name=f"{MARK} 1", tools=[TOOL], **own),
        agent(f"{MARK}-slow", name=f"{MARK} 2", **own),
        agent(f"{MARK}-fails", name=f"{MARK} 3", fallbacks=[f"scripted/{MARK}-plain"], **own),
        agent("chats", name=f"{MARK} 4", **own),
    ]


def everything(made: Services, run: t.Any, recorder: t.Any, folder: Path, logged: str) -> str:
    """All that a run left anywhere, as one text."""
    envelopes = msgspec.json.encode([msgspec.to_builtins(e.event, str_keys=True) for e in recorder.envelopes])
    places = [envelopes.decode(), repr(recorder.envelopes), repr(run.record()), repr(run.detail), logged]
    places.append(repr(vars(run.journal)))
    stored = [path for path in folder.iterdir() if path.is_file()]
    assert any(run.id.encode() in path.read_bytes() for path in stored), "the record is on the disk"
    places += [path.read_bytes().decode("latin-1") for path in stored]
    return "\n".join(places)


def test_nothing_tells_who_voted_for_what(
    made: Services, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    run, recorder = start(made, alone("vote", {"voters": marked(), "options": OPTIONS, "secret": True}))
    assert run.done.wait(20)
    end = recorder.envelopes[-1].event
    assert end.output["votes"] == {"guilty": 1, "not guilty": 2}
    assert end.output["abstained"] == 1
    assert MARK not in everything(made, run, recorder, tmp_path, caplog.text)
    assert set(end.output) == {
        *("content", "winner", "votes", "has_majority", "abstained", "tied", "quorum_met", "tokens", "cost")
    }


def test_what_is_looked_for_is_there_in_an_open_vote(
    made: Services, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Else the test above would find nothing wherever it looked."""
    caplog.set_level(logging.DEBUG)
    run, recorder = start(made, alone("vote", {"voters": marked(), "options": OPTIONS}))
    assert run.done.wait(20)
    assert MARK in repr(recorder.envelopes)
    assert MARK in repr(run.record())
    assert MARK in repr(vars(run.journal))
    assert MARK in caplog.text, "the voter whose model gave way"


def test_it_tells_ballots_and_one_sum_of_usage_after_the_last_voter(made: Services) -> None:
    _, recorder = ended(made, alone("vote", {"voters": marked(), "options": OPTIONS, "secret": True}))
    own = [e.event for e in recorder.envelopes if getattr(e.event, "block", None) == "it"]
    assert [type(event) for event in own] == [
        *(ev.BlockStarted, *[ev.VoteCast] * 4),
        *(ev.UsageReported, ev.VoteClosed, ev.AnswerSettled, ev.BlockFinished),
    ]
    cast = recorder.of(ev.VoteCast)
    assert {e.sender for e in cast} == {None}
    assert sorted(e.voter_index for e in cast) == [0, 1, 2, 3]
    assert Counter(e.vote for e in cast) == {"guilty": 1, "not guilty": 2, None: 1}
    (used,) = recorder.of(ev.UsageReported)
    assert used.model == "several"
    seq = [e.seq for e in recorder.envelopes if isinstance(e.event, ev.VoteCast)]
    assert seq == list(range(seq[0], seq[0] + 4)), "all together"


def test_voters_of_one_model_are_one_entry_of_it(made: Services) -> None:
    _, recorder = ended(made, vote("guilty", "guilty", secret=True))
    assert [e.model for e in recorder.of(ev.UsageReported)] == ["scripted/guilty"]


def test_no_voter_is_asked_twice_in_secret(made: Services) -> None:
    _, once = ended(made, vote("hears", secret=True, options=["hi", "ho"]))
    _, no_ballot = ended(made, vote("hears", secret=True, options=["ha", "ho"]))
    assert once.of(ev.UsageReported) == no_ballot.of(ev.UsageReported)
    assert once.of(ev.VoteCast)[0].vote == "hi"
    assert no_ballot.of(ev.VoteCast)[0].vote is None


def test_a_voter_that_fails_ends_it_without_a_word_about_who(
    made: Services, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    voters = [*marked()[:2], agent(f"{MARK}-fails", name=MARK)]
    run, recorder = start(made, alone("vote", {"voters": voters, "options": OPTIONS, "secret": True}))
    assert run.done.wait(20)
    end = recorder.envelopes[-1].event
    assert isinstance(end, ev.RunFailed)
    assert (end.code, end.block) == ("provider_bad_request", "it")
    assert recorder.of(ev.VoteCast) == []
    assert len(recorder.of(ev.UsageReported)) == 1, "what was used by then"
    assert MARK not in everything(made, run, recorder, tmp_path, caplog.text)
    assert violations(recorder.envelopes) == []


def test_a_stop_in_the_middle_tells_no_ballot(made: Services, tmp_path: Path) -> None:
    doc = vote("guilty", "stalls", "not-guilty", secret=True)
    recorder = stopped(made, doc, lambda event: isinstance(event, ev.BlockStarted) and event.block == "it")
    assert recorder.of(ev.VoteCast) == []
    assert violations(recorder.envelopes) == []


def test_neither_number_nor_place_nor_time_tells_a_voter(made: Services) -> None:
    """A thousand ballots of 200 votes: the one voter for ``guilty`` is anywhere equally often."""
    rounds, voters = 200, 5
    numbers: Counter[int] = Counter()
    places: Counter[int] = Counter()
    models = ["guilty", *["not-guilty"] * (voters - 1)]
    doc = graph(
        [
            ("again", "loop", {"kind": "for", "times": rounds, "max_iterations": rounds}),
            ("it", "vote", {"voters": [agent(m) for m in models], "options": OPTIONS, "secret": True}),
        ],
        "start > again",
        "again -loop> it",
        "it > again",
    )
    _, recorder = ended(made, doc)
    cast = [e for e in recorder.envelopes if isinstance(e.event, ev.VoteCast)]
    assert len(cast) == rounds * voters
    for first in range(0, len(cast), voters):
        ballots_of_one = cast[first : first + voters]
        place = next(n for n, e in enumerate(ballots_of_one) if e.event.vote == "guilty")
        places[place] += 1
        numbers[ballots_of_one[place].event.voter_index] += 1
        assert [e.seq - ballots_of_one[0].seq for e in ballots_of_one] == list(range(voters))
    # Of four degrees of freedom; a fair shuffle is above 40 once in twenty million runs of this test.
    assert chi_square(places, voters) < 40
    assert chi_square(numbers, voters) < 40


def test_place_and_number_know_nothing_of_each_other() -> None:
    source = random.Random(20)
    both: Counter[tuple[int, int]] = Counter()
    for _ in range(4_000):
        mixed = ballots.shuffled("abcd", source)
        place = next(n for n, (ballot, _) in enumerate(mixed) if ballot == "a")
        both[place, mixed[place][1]] += 1
    assert chi_square(both, 16) < 50


def chi_square(found: Counter[t.Any], classes: int) -> float:
    """How far counts are from equal ones."""
    due = found.total() / classes
    return sum((count - due) ** 2 / due for count in found.values()) + due * (classes - len(found))
