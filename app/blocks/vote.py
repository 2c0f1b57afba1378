"""The ``vote`` block: agents choose one of some options, openly or in secret.

Law of this room: nobody hears another's vote before the own one is cast. In an open vote one is asked after the other,
so that each can be followed. A secret vote asks all at once and is one step: until the last voter has voted nothing is
told, and then ballots only, shuffled; no event, row, log line, usage entry or error knows a voter from another. Nobody
is asked twice there, since that would show in what the vote used.
"""

from __future__ import annotations

import random
import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from app.agents import ballots
from app.agents.ballots import ABSTAIN, Tally, Unreadable
from app.agents.kept import kept
from app.agents.participants import Company, ParticipantConfig, asked_of, models_of, name_problems, names_of
from app.events import VoteCast, VoteClosed
from plugins.spec.blocks import BlockContext, BlockType

MOST, MOST_OPTIONS = 100, 50
#: Most voters of a secret vote that are asked at the same time.
MOST_AT_ONCE = 64
_PART = "Voter"
_NAMES = ("question", "options")
#: Shuffles ballots and breaks ties: the system's source, which nobody can predict.
_RANDOM = random.SystemRandom()
#: Key of the row with the ballots of a secret vote, shuffled.
_BALLOTS = "ballots"


@dataclass(frozen=True, slots=True)
class VoteConfig:
    """Who votes, on what, by which rules."""

    voters: Sequence[ParticipantConfig] = field(
        metadata={
            "doc": "The agents that vote; each takes what an `agent` block takes, and a `name`. One without a `prompt` "
            "is given the question; the options are told to all. Templates also see `question` and `options`.",
            "agents": _NAMES,
            "most": MOST,
        }
    )
    options: Sequence[str] = field(metadata={"doc": "What can be voted for.", "most": MOST_OPTIONS})
    question: str | None = field(
        default=None,
        metadata={
            "doc": "What is asked. Default: the input's `message`, or the whole input as JSON.",
            "template": True,
        },
    )
    secret: bool = field(
        default=False, metadata={"doc": "Nothing anywhere tells who voted for what; all are asked at once."}
    )
    abstain: bool = field(
        default=False,
        metadata={
            "doc": "Voters may abstain. An answer that is no ballot is asked for once more if they may not and the "
            "vote is open, and counts as an abstention otherwise."
        },
    )
    quorum: int | None = field(
        default=None,
        metadata={"doc": "Fewest ballots that must name an option; with less nobody wins.", "low": 1},
    )
    tie: t.Literal["none", "first", "random", "moderator"] = field(
        default="none",
        metadata={
            "doc": "Who wins when several options have most votes: nobody, the first of them in `options`, one at "
            "random, or the one the `moderator` chooses."
        },
    )
    moderator: ParticipantConfig | None = field(
        default=None,
        metadata={
            "doc": "The agent that breaks a tie, with `tie: moderator`. It hears the question and the options that are "
            "tied.",
            "agents": _NAMES,
        },
    )


def check(config: VoteConfig, path: str) -> list[tuple[str, str]]:
    """Voters, options that can be told apart, and rules that fit together."""
    problems = name_problems(config.voters, f"{path}.voters", _PART)
    if not config.voters:
        problems.append((f"{path}.voters", "must have at least one voter"))
    problems += _options(config, f"{path}.options")
    if config.quorum is not None and config.quorum > len(config.voters):
        problems.append((f"{path}.quorum", f"can never be met by {len(config.voters)} voters"))
    if (config.tie == "moderator") != (config.moderator is not None):
        missing = "is required by tie: moderator" if config.tie == "moderator" else "needs tie: moderator"
        problems.append((f"{path}.moderator", missing))
    problems += _held(config, f"{path}.voters") if config.secret else []
    for place, voter in enumerate(config.voters):
        if voter.response_format is not None:
            where = f"{path}.voters[{place}].response_format"
            problems.append((where, "must be left out: a voter answers with an option"))
    if config.moderator is not None and config.moderator.response_format is not None:
        where = f"{path}.moderator.response_format"
        problems.append((where, "must be left out: a moderator answers with an option"))
    return problems


def _held(config: VoteConfig, path: str) -> list[tuple[str, str]]:
    """Tools of a secret vote that a person would have to allow: what they were shown would tell who makes the call."""
    return [
        (f"{path}[{place}].tools[{n}].approval", "must be never: nobody can be asked in a secret vote")
        for place, voter in enumerate(config.voters)
        for n, entry in enumerate(voter.tools)
        if isinstance(entry, Mapping) and entry.get("approval") not in (None, "never")
    ]


def _options(config: VoteConfig, path: str) -> list[tuple[str, str]]:
    problems = [] if len(config.options) > 1 else [(path, "must have at least two options")]
    seen = {ballots.plain(ABSTAIN)}
    for place, option in enumerate(config.options):
        key = ballots.plain(option)
        if not key or len(option) > 200 or len(option.splitlines()) > 1:
            problems.append(
                (f"{path}[{place}]", "must be one line with words in it, of at most 200 characters")
            )
        elif key in seen:
            problems.append((f"{path}[{place}]", f'"{option}" cannot be told apart from another ballot'))
        seen.add(key)
    return problems


def run(context: BlockContext, config: VoteConfig) -> Mapping[str, t.Any]:
    """Hold the vote.

    :raises RunError: ``template_failed``. :raises BlockError: a voter failed; then there is no result.
    """
    vote = _Vote(context, config)
    try:
        cast = vote.in_secret() if config.secret else vote.openly()
        tally = ballots.count(cast, config.options)
        quorum_met = tally.cast >= (config.quorum or 0)
        winner = vote.winner(tally) if quorum_met else None
    finally:
        vote.company.close()
    majority = quorum_met and tally.majority
    vote.company.once("closes", VoteClosed(context.block, tally.votes, winner, majority, tally.abstained))
    context.flush()
    output: dict[str, t.Any] = {
        "content": winner or "",
        "winner": winner,
        "votes": tally.votes,
        "has_majority": majority,
        "abstained": tally.abstained,
        "tied": len(tally.leaders) > 1,
        "quorum_met": quorum_met,
    }
    if not config.secret:
        output["ballots"] = [
            {"index": index, "name": name, "vote": ballot}
            for index, (name, ballot) in enumerate(zip(vote.names, cast, strict=True))
        ]
    return {**output, **vote.company.totals()}


class _Vote:
    """One vote."""

    def __init__(self, context: BlockContext, config: VoteConfig) -> None:
        self.context = context
        self.config = config
        models = [use.value for use in models_of(voters=config.voters, moderator=config.moderator)]
        self.company = Company(context, secret=config.secret, models=models)
        self.names = names_of(config.voters, _PART)
        self.question = asked_of(context, config.question)

    def openly(self) -> list[str | None]:
        """One after the other; each ballot is told when it is cast."""
        cast = []
        for index, voter in enumerate(self.config.voters):
            ballot = self._ask(voter, str(index), self.config.options, again=not self.config.abstain)
            cast.append(ballot)
            self.company.once(
                f"casts {index}", VoteCast(self.context.block, ballot, index, self.names[index])
            )
            self.context.flush()
        return cast

    def in_secret(self) -> list[str | None]:
        """All at once; the ballots are told together, in an order and with numbers that mean nothing.

        What is taken down is what is told: until the last one has voted, nothing.
        """
        row = self.context.journal.find(0, _BALLOTS)
        if row is not None:
            self.company.carry_on(row.value)
            return [ballot for ballot, _ in row.value["mixed"]]
        mixed = ballots.shuffled(self._ask_all(), _RANDOM)
        told = {"mixed": mixed, **self.company.carried()}
        self.context.journal.write(0, _BALLOTS, "chosen", "done", told)
        for ballot, number in mixed:
            self.context.emit(VoteCast(self.context.block, ballot, number))
        self.context.flush()
        return [ballot for ballot, _ in mixed]

    def _ask_all(self) -> list[str | None]:
        cast: list[str | None] = []
        left = iter(self.config.voters)

        def work(context: BlockContext) -> None:
            for voter in left:
                cast.append(self._ask(voter, "", self.config.options, context=context))

        self.context.at_once([work] * min(len(self.config.voters), MOST_AT_ONCE))
        return cast

    def winner(self, tally: Tally) -> str | None:
        """The option with most votes; of several the one the tie rule names."""
        leaders, config = tally.leaders, self.config
        if len(leaders) < 2:
            return leaders[0] if leaders else None
        if config.tie == "moderator" and config.moderator is not None:
            return self._ask(config.moderator, "moderator", leaders, again=True, abstain=False)
        if config.tie == "random":
            return kept(self.context, "tie", lambda: _RANDOM.choice(leaders))
        return leaders[0] if config.tie == "first" else None

    def _ask(
        self,
        agent: ParticipantConfig,
        key: str,
        options: Sequence[str],
        *,
        again: bool = False,
        abstain: bool | None = None,
        context: BlockContext | None = None,
    ) -> str | None:
        """An agent's ballot; None for an abstention, and for an answer that is none after all.

        :param again: it is asked once more after such an answer.
        :param abstain: whether it may; default: as voters may.
        """
        form = _form(options, self.config.abstain if abstain is None else abstain)
        told = form
        seen = {"question": self.question, "options": tuple(options)}
        for attempt in range(1 + again):
            output = self.company.ask(
                agent, f"{key}.{attempt}", self.question, told=told, seen=seen, context=context
            )
            try:
                return ballots.read(str(output["content"]), options)
            except Unreadable:
                told = f"{form}\nAn answer in any other form does not count."
        return None


def _form(options: Sequence[str], abstain: bool) -> str:
    listed = "\n".join(f"- {option}" for option in options)
    other = f" If you cannot decide, answer {ABSTAIN}." if abstain else ""
    return (
        f"You vote. The options are:\n{listed}\n"
        f"Answer with the option you choose, exactly as it is written, and with nothing else.{other}"
    )


VOTE = BlockType(
    type_name="vote",
    config=VoteConfig,
    run=run,
    summary="Lets agents vote on some options, openly or in secret.",
    outputs=(
        "content",
        "winner",
        "votes",
        "has_majority",
        "abstained",
        "tied",
        "quorum_met",
        "ballots",
        "tokens",
        "toolCalls",
        "cost",
    ),
    check=check,
    uses=lambda config: models_of(voters=config.voters, moderator=config.moderator),
    answers=True,
)
