"""Secret ballots: whatever a run leaves is the same whoever chose what, and chance hides who voted where.

Law of this room: two votes that differ only in who chose what have to leave the same behind, down to the last digit;
what is random is compared as if it were sorted, and is tested for being random by itself.
"""

from __future__ import annotations

import itertools
import re
import typing as t
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

from app import events as ev
from app.engine.services import Services
from tests.engine.flows import document, save, start_saved
from tests.field.more_wires import Responses
from tests.support.engine import Recorder, services, start
from tests.support.graphs import alone, playing
from tests.support.servers import wait_until
from tests.support.vendor import Call, Vendor
from tests.support.vendor import vendor as one_vendor

OPTIONS = ("guilty", "not guilty, by a wide margin")
#: Two models whose tokens have prices of their own.
MODELS = ("openai/gpt-5", "openai/gpt-5-mini")
#: Tokens of each option, as the vendor counts them.
TOKENS = {OPTIONS[0]: 3, OPTIONS[1]: 9}
#: Instants, durations and ids differ from run to run.
_VARIES = re.compile(r"(run|wf|thr|call)_\w+|\d{4}-\d\d-\d\dT[\d:.]+Z|\b1[67]\d{11}\b")
_TIMES = ("duration", "queued", "active", "_at", "Ms", "ts")


@pytest.fixture
def vendor() -> Iterator[Vendor]:
    with one_vendor() as made:
        yield made


@pytest.fixture
def made(tmp_path: Path, vendor: Vendor, monkeypatch: pytest.MonkeyPatch) -> Iterator[Services]:
    monkeypatch.setenv("OPENAI_API_BASE", vendor.base)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    with services(tmp_path) as opened:
        yield opened


def ballots_of(voters: int) -> dict[str, t.Any]:
    """A secret vote among models of different prices."""
    config = [
        {"model": MODELS[n % 2], "name": f"Voter {n}", "prompt": f"voter {n}", "retries": 0}
        for n in range(voters)
    ]
    return alone("vote", {"voters": config, "options": list(OPTIONS), "secret": True})


def held(made: Services, vendor: Vendor, voters: int) -> tuple[t.Any, Recorder, list[Call]]:
    """A vote whose voters have all been asked; their calls, by voter."""
    run, recorder = start(made, ballots_of(voters))
    calls = [vendor.next_call() for _ in range(voters)]
    return run, recorder, sorted(calls, key=lambda call: str(call.body["input"]))


def say(call: Call, text: str) -> None:
    """A whole answer, with what it used."""
    speaker = Responses()
    speaker.text(call, text)
    speaker.finish(call, "stop", (20, TOKENS[text]))
    assert call.left.wait(20), "the voter has voted"


def left(run: t.Any, recorder: Recorder) -> str:
    """All that a run told and left, without times and ids; ballots sorted."""
    events = [
        envelope.event for envelope in recorder.envelopes if not isinstance(envelope.event, ev.VoteCast)
    ]
    cast = sorted(str(event.vote) for event in recorder.of(ev.VoteCast))
    shown = [repr(_timeless(msgspec.to_builtins(event, str_keys=True))) for event in events]
    row = run.services.store.runs.get(run.id)
    return _VARIES.sub(
        "*", "\n".join([*shown, repr(cast), repr(_timeless(row)), repr(_timeless(run.record()))])
    )


def _timeless(value: t.Any) -> t.Any:
    if isinstance(value, dict):
        return {k: "*" if any(part in k for part in _TIMES) else _timeless(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_timeless(item) for item in value]
    return value


def voted(
    made: Services, vendor: Vendor, choices: Sequence[str], order: Sequence[int]
) -> tuple[str, ev.VoteClosed]:
    """What a vote leaves in which voter ``n`` chose ``choices[n]``, and they answered in that order."""
    run, recorder, calls = held(made, vendor, len(choices))
    for n in order:
        say(calls[n], choices[n])
    assert run.done.wait(20)
    (closed,) = recorder.of(ev.VoteClosed)
    return left(run, recorder), closed


def test_it_leaves_the_same_whoever_chose_what_in_whichever_order(made: Services, vendor: Vendor) -> None:
    """Neither tokens, prices nor the order of answers show: every assignment of three ballots, every order."""
    found = set()
    for choices in sorted(set(itertools.permutations((OPTIONS[0], OPTIONS[1], OPTIONS[1])))):
        for order in itertools.permutations(range(3)):
            whole, closed = voted(made, vendor, choices, order)
            assert closed.votes == {OPTIONS[0]: 1, OPTIONS[1]: 2}
            found.add(whole)
    (only,) = found
    assert "'cost': 0.0" in only, "there are prices to tell by"


def test_another_result_leaves_something_else(made: Services, vendor: Vendor) -> None:
    """Else the test above would see nothing."""
    one = voted(made, vendor, (OPTIONS[0], OPTIONS[1]), (0, 1))[0]
    two = voted(made, vendor, (OPTIONS[1], OPTIONS[1]), (0, 1))[0]
    assert one != two


@pytest.mark.parametrize("ending", ["stop", "timeout", "failure"])
def test_a_vote_cut_short_does_not_tell_what_was_chosen_by_then(
    made: Services, vendor: Vendor, ending: str
) -> None:
    """One of two has voted when it ends: what it left is the same for either choice, and names neither's model."""
    found = set()
    for choice in OPTIONS:
        run, recorder, calls = held(made, vendor, 2)
        say(calls[0], choice)
        if ending == "failure":
            calls[1].answer(400, b'{"error": {"message": "no"}}')
        else:
            run.cancel("stop_requested" if ending == "stop" else "execution_timeout")
        assert run.done.wait(20)
        assert recorder.of(ev.VoteCast) == []
        (used,) = recorder.of(ev.UsageReported)
        assert (used.model, used.estimated) == ("several", True)
        found.add(left(run, recorder))
    assert len(found) == 1


def test_what_was_used_is_told_in_steps(made: Services, vendor: Vendor) -> None:
    run, recorder, calls = held(made, vendor, 2)
    for call, choice in zip(calls, OPTIONS, strict=True):
        say(call, choice)
    assert run.done.wait(20)
    (used,) = recorder.of(ev.UsageReported)
    assert used.tokens == {"input": 40, "output": 128, "total": 168}
    output = recorder.envelopes[-1].event.output
    assert output["tokens"] == used.tokens
    assert output["cost"]["total"] == used.cost
    assert output["cost"]["output"] == pytest.approx(64 * (10 + 2) / 1e6)
    assert run.record()["usage"]["cost"]["estimated"] is True


# -- chance ----------------------------------------------------------------------------------------

VOTERS, ROUNDS = 5, 200
#: What each of five voters chooses: itself, so that every ballot could be told.
NAMES = [f"option {n}" for n in range(VOTERS)]
#: A thousand ballots; a fair shuffle is above these once in a million runs. Of 16 degrees of freedom, in a table of
#: permutations (whose statistic is 5/4 as wide), and of 4.
TABLE_LIMIT, ROW_LIMIT = 73.0, 33.4


def scripts() -> dict[str, t.Any]:
    """Voters of different speed: the first is always the first to have voted."""
    return {
        f"voter{n}": {"turns": [{"steps": [{"delay_ms": n}, {"text": name}]}]} for n, name in enumerate(NAMES)
    }


def test_a_thousand_ballots_tell_nothing_by_number_place_or_time(tmp_path: Path) -> None:
    voters = [{"model": f"scripted/voter{n}", "retries": 0} for n in range(VOTERS)]
    flow = document(
        [
            ("again", "loop", {"kind": "for", "times": ROUNDS, "max_iterations": ROUNDS}),
            ("it", "vote", {"voters": voters, "options": NAMES, "secret": True}),
        ],
        "start > again",
        "again -loop> it",
        "it > again",
    )
    with playing(tmp_path, scripts()) as made:
        run, recorder = start(made, flow)
        assert run.done.wait(120)
    cast = [envelope for envelope in recorder.envelopes if isinstance(envelope.event, ev.VoteCast)]
    assert len(cast) == ROUNDS * VOTERS == 1_000
    by_place: Counter[tuple[int, int]] = Counter()
    by_number: Counter[tuple[int, int]] = Counter()
    late: Counter[int] = Counter()
    for first in range(0, len(cast), VOTERS):
        votes = cast[first : first + VOTERS]
        assert [envelope.seq - votes[0].seq for envelope in votes] == list(range(VOTERS))
        for place, envelope in enumerate(votes):
            voter = NAMES.index(envelope.event.vote)
            by_place[voter, place] += 1
            by_number[voter, envelope.event.voter_index] += 1
            late[voter] += envelope.ts > votes[0].ts
    assert chi_square(by_place, VOTERS**2) < TABLE_LIMIT
    assert chi_square(by_number, VOTERS**2) < TABLE_LIMIT
    if late.total() >= 50:  # told in one go, few are told in a later millisecond than the first
        assert chi_square(late, VOTERS) < ROW_LIMIT


def chi_square(found: Counter[t.Any], classes: int) -> float:
    """How far counts are from equal ones."""
    due = found.total() / classes
    return sum((count - due) ** 2 / due for count in found.values()) + due * (classes - len(found))


def test_the_limits_find_an_order_that_shows() -> None:
    """Told as they voted, and told in an order that is off by one voter in four, they are far above."""
    told: Counter[tuple[int, int]] = Counter({(n, n): ROUNDS for n in range(VOTERS)})
    assert chi_square(told, VOTERS**2) > TABLE_LIMIT
    leaning: Counter[tuple[int, int]] = Counter()
    for voter, place in itertools.product(range(VOTERS), repeat=2):
        leaning[voter, place] = round(ROUNDS * (0.25 * (voter == place) + 0.75 / VOTERS))
    assert chi_square(leaning, VOTERS**2) > TABLE_LIMIT


# -- wherever a vote is held -----------------------------------------------------------------------

MARK = "mark-of-voter"
PLACES: dict[str, tuple[list[tuple[str, str, dict[str, t.Any]]], list[str], int]] = {
    "in a loop": ([("l", "loop", {"kind": "for", "times": 2})], ["start > l", "l -loop> it", "it > l"], 2),
    "in parallel": ([("p", "parallel", {"items": [1, 2]})], ["start > p", "p -loop> it", "it > p"], 2),
    "in a child": ([("sub", "workflow", {"workflow": "inner"})], ["start > sub"], 1),
    "tried again": ([], ["start > it"], 1),
}


@pytest.mark.parametrize("place", PLACES)
def test_wherever_it_is_held_nothing_of_a_voter_is_left(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, place: str
) -> None:
    caplog.set_level("DEBUG")
    voters = [
        {
            "model": f"scripted/{MARK}-{name}",
            "name": f"{MARK} {name}",
            "prompt": f"{MARK} {{{{ question }}}}",
            "tools": [{"name": f"{MARK}-tool", "result": MARK}],
            "retries": 0,
        }
        for name in ("a", "b")
    ]
    vote: dict[str, t.Any] = {"voters": voters, "options": ["yes", "no"], "secret": True}
    blocks, edges, count = PLACES[place]
    call = {"tool_call": {"name": f"{MARK}-tool", "arguments": {"who": MARK}, "id": f"{MARK}-call"}}
    plays: dict[str, t.Any] = {
        f"{MARK}-{name}": {
            "turns": [{"steps": [{"thinking": MARK}, {"text": MARK}, call]}, {"steps": [{"text": says}]}]
        }
        for name, says in (("a", "yes"), ("b", "no"))
    }
    if place == "tried again":
        vote["retries"] = 1
        plays[f"{MARK}-b"] = {
            "turns": [{"steps": [{"error": {"code": "provider_bad_request", "message": MARK}}]}]
        }
    with playing(tmp_path, plays) as made:
        if place == "in a child":
            save(made, inner=document([("it", "vote", vote)], "start > it"), outer=document(blocks, *edges))
        else:
            save(made, outer=document([*blocks, ("it", "vote", vote)], *edges))
        run, recorder = start_saved(made, "outer")
        assert run.done.wait(20)
        closed = recorder.of(ev.VoteClosed)
        if place == "tried again":
            assert closed == []
            assert len(recorder.of(ev.UsageReported)) == 2, "one for each attempt"
        else:
            assert [event.votes for event in closed] == [{"yes": 1, "no": 1}] * count
            cast = [
                (e.event.block, e.event.voter_index)
                for e in recorder.envelopes
                if type(e.event) is ev.VoteCast
            ]
            assert len(cast) == 2 * count
        stored = run.services.store.runs.get(run.id)
        found = "\n".join(
            [repr(recorder.envelopes), repr(run.record()), repr(stored), repr(vars(run.journal))]
        )
    assert MARK not in found
    assert MARK not in caplog.text


def test_a_voter_may_not_remember(tmp_path: Path) -> None:
    """What it was asked and answered would stand in the thread's memory."""
    voter = {"model": "scripted/echo", "memory": {"type": "conversation"}}
    flow = document(
        [("it", "vote", {"voters": [voter], "options": ["a", "b"], "secret": True})], "start > it"
    )
    with playing(tmp_path, {}) as made, pytest.raises(Exception, match="memory"):
        start(made, flow)


def test_while_it_is_held_the_record_says_nothing(made: Services, vendor: Vendor) -> None:
    run, recorder, calls = held(made, vendor, 2)
    before = run.record()
    say(calls[1], OPTIONS[0])
    wait_until(lambda: calls[1].left.is_set(), "one has voted")
    after = run.record()
    assert _timeless(before) == _timeless(after)
    assert [type(envelope.event) for envelope in recorder.envelopes][-1] is ev.BlockStarted
    say(calls[0], OPTIONS[0])
    assert run.done.wait(20)
