"""Composites whose process ends at any moment: they come to the same, and tell nothing twice."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Callable, Iterator, Sequence

import pytest

from app import events as ev
from app.blocks import debate, guardrail, router, sequential, vote
from app.errors import RunError
from plugins.spec.decisions import Answer
from providers.spec import ModelEvent, ModelRequest
from tests.agents.acts import (
    asked,
    calls,
    each_ended_once,
    part,
    said,
    text,
    tool,
    turns,
    without_ids,
)
from tests.agents.cutting import Paused, Process, World, cuts, played


def speaker(request: ModelRequest) -> Sequence[ModelEvent]:
    """Looks something up, pays, and says who it is and what it was asked."""
    who = str(request.system).split("\n")[0]
    if "moderate" in str(request.system):
        return text("CONTINUE") if "Do the participants agree" in asked(request) else text("summary")
    if request.tools and turns(request) == 0:
        return calls(("c1", "look", {"n": 1}))
    return text(f"{who} heard {len(asked(request))}")


def voter(request: ModelRequest) -> Sequence[ModelEvent]:
    who = str(request.system).split("\n")[0]
    if who == "ann" and "does not count" not in str(request.system):
        return text("I would rather not say")
    return text({"ann": "yes", "bob": "no", "cid": "no", "dan": "yes", "mod": "no"}[who])


class Unsure:
    """Names no route in its first whole answers."""

    def __init__(self, answers: int) -> None:
        self.left = answers
        self.answered = 0

    def __call__(self, request: ModelRequest) -> Iterator[ModelEvent]:
        yield from text("I do not know" if self.left else '{"route": "left", "reason": "so"}')
        self.left -= 1 if self.left else 0
        self.answered += 1


def judge(request: ModelRequest) -> Sequence[ModelEvent]:
    return text('{"reason": "fine", "passed": true}')


VOTERS = [part(name) for name in ("ann", "bob", "cid", "dan")]
CHECKS = [{"kind": "model", "model": "made/m", "instruction": name} for name in ("polite", "true")]
COMPOSITES: dict[str, tuple[Callable[[t.Any], t.Any], Callable[..., t.Any]]] = {
    "sequential": (
        lambda c: sequential.run(
            c, sequential.SequentialConfig([part("ann", tools=["look"]), part("bob", tools=["look"])])
        ),
        speaker,
    ),
    "debate": (
        lambda c: debate.run(
            c,
            debate.DebateConfig(
                [part("ann", tools=["look"]), part("bob")],
                rounds=2,
                moderator=part("mod"),
                stop_on="consensus",
            ),
        ),
        speaker,
    ),
    "debate without a moderator": (
        lambda c: debate.run(c, debate.DebateConfig([part("ann"), part("bob")], rounds=2)),
        speaker,
    ),
    "open vote": (
        lambda c: vote.run(c, vote.VoteConfig(VOTERS, ["yes", "no"], tie="moderator", moderator=part("mod"))),
        voter,
    ),
    "guardrail": (
        lambda c: guardrail.run(c, guardrail.GuardrailConfig(CHECKS, input="x")),
        judge,
    ),
}


def world_of(says: Callable[..., t.Any]) -> World:
    return World(says, [tool("look", idempotent=True)])


class Led(Process):
    """Of a block that is no agent's."""

    answers = False

    def leads_on(self, handle: str) -> bool:
        """Somebody goes on behind it."""
        return True


@pytest.mark.parametrize("kind", COMPOSITES)
@pytest.mark.parametrize("lost", [False, True], ids=["all kept", "only what had to be"])
def test_composites_come_to_the_same_and_tell_it_once(
    kind: str, lost: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Process, "answers", False, raising=False)
    monkeypatch.setattr(Process, "leads_on", lambda self, handle: True, raising=False)
    run, says = COMPOSITES[kind]
    first = world_of(says)
    whole = played(first, run)
    for world, output in cuts(lambda: world_of(says), run, lost):
        assert without_ids(output) == without_ids(whole)
        assert said(world) == said(first)
        each_ended_once(world)


def test_a_router_that_was_undecided_once_is_asked_only_once_more() -> None:
    routes = [router.Route("left", description="l"), router.Route("right", description="r")]
    config = router.RouterConfig("model", routes, "made/m")

    def run(context: t.Any) -> t.Any:
        return router.run(context, config)

    for world, output in cuts(lambda: world_of(Unsure(1)), run, lost=False):
        assert (output["route"], world.taken) == ("left", ("route:left",))
        assert said(world)[-1:] == [ev.RouteChosen("b", "left", "so")]
        assert len(said(world)) == 1


def test_a_router_that_stays_undecided_is_asked_twice_in_all() -> None:
    routes = [router.Route("left", description="l")]
    config = router.RouterConfig("model", routes, "made/m")

    def run(context: t.Any) -> str:
        with pytest.raises(RunError) as caught:
            router.run(context, config)
        return caught.value.code

    for world, code in cuts(lambda: world_of(Unsure(9)), run, lost=False):
        assert code == "route_undecided"
        assert t.cast(Unsure, world.says).answered == 2


def test_a_tie_that_was_broken_at_random_stays_broken() -> None:
    config = vote.VoteConfig(VOTERS, ["yes", "no"], tie="random")
    world = world_of(voter)
    winner = vote.run(t.cast(t.Any, Process(world)), config)["winner"]
    for _ in range(20):
        world.restart(lost=False)
        assert vote.run(t.cast(t.Any, Process(world)), config)["winner"] == winner
    assert sum(isinstance(event, ev.VoteClosed) for event in world.told) == 1


@pytest.mark.parametrize("lost", [False, True])
def test_a_secret_vote_keeps_nothing_before_the_last_voter_and_ballots_alone_after(lost: bool) -> None:
    config = vote.VoteConfig(
        VOTERS, ["yes", "no"], secret=True, abstain=True, tie="moderator", moderator=part("mod")
    )

    def run(context: t.Any) -> t.Any:
        return vote.run(context, config)

    for world, output in cuts(lambda: world_of(voter), run, lost):
        assert output["votes"] == {"yes": 1, "no": 2}
        cast = [event for event in world.told if isinstance(event, ev.VoteCast)]
        assert len(cast) == len(VOTERS)
        assert sorted(event.voter_index for event in cast) == [0, 1, 2, 3]
        assert {event.sender for event in cast} == {None}
        assert sum(isinstance(event, ev.VoteClosed) for event in world.told) == 1
        assert [step.key for step in world.journal.of("b", 1)] in (["ballots", "closes"],)
        assert all(not path.startswith("b/") for path, _ in world.journal._steps)


def test_a_secret_vote_that_goes_on_reports_what_it_used_before() -> None:
    config = vote.VoteConfig(
        [part("bob"), part("dan")], ["yes", "no"], secret=True, tie="moderator", moderator=part("mod")
    )
    run: Callable[[t.Any], t.Any] = lambda context: vote.run(context, config)  # noqa: E731
    whole = played(world_of(voter), run)
    found = [output for world, output in cuts(lambda: world_of(voter), run, lost=False)]
    assert {json.dumps(output["tokens"]) for output in found} == {json.dumps(whole["tokens"])}
    assert {json.dumps(output["cost"]) for output in found} == {json.dumps(whole["cost"])}


def test_calls_of_two_agents_in_one_block_are_asked_about_by_ids_of_their_own() -> None:
    world = World(speaker, [tool("look", approval="always")])
    run = COMPOSITES["sequential"][0]
    asked_ids = []
    for _ in range(2):
        with pytest.raises(Paused):
            run(Process(world))
        world.restart(lost=False)
        (new,) = world.asked.keys() - set(asked_ids)
        asked_ids.append(new)
        assert new in [e.id for e in world.told if isinstance(e, ev.ToolStarted)]
        world.answers[new] = Answer(new, "approve", 1)
    output = run(Process(world))
    each_ended_once(world)
    assert len(set(asked_ids)) == 2
    assert [call["id"] for call in output["toolCalls"]["list"]] == asked_ids
    assert len(world.ran) == 2
    assert [ask.turn for ask in world.asked.values()] == [0, 2]
