"""The ``debate`` block: participants speak in rounds, each hearing all that was said before.

Law of this room: one speaks at a time, in the order of the config. Who has spoken is not heard otherwise again: what
was said is passed on word for word, and only a moderator puts it into words of its own, at the end.

Consensus. With a moderator it is the moderator's to say: after every round but the last it is asked, and only
``CONSENSUS`` as its first word ends the debate. Without one it is the participants': the debate ends after a round in
which every statement ended with a line that holds only that word. The line is no part of the statement.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from app.agents.ballots import plain
from app.agents.participants import Company, ParticipantConfig, asked_of, models_of, name_problems, names_of
from app.events import AgentMessage, DebateEnded, DebateRound, DebateStarted
from plugins.spec.blocks import BlockContext, BlockType

MOST, MOST_ROUNDS = 20, 50
AGREED = "CONSENSUS"
_PART, _MODERATOR = "Participant", "Moderator"
_NAMES = ("topic", "transcript", "statements", "round", "rounds")


@dataclass(frozen=True, slots=True)
class DebateConfig:
    """Who speaks, about what, for how long."""

    participants: Sequence[ParticipantConfig] = field(
        metadata={
            "doc": "Two or more agents, in the order in which they speak; each takes what an `agent` block takes, and "
            "a `name`. One without a `prompt` is given the topic and all that was said. Templates also see `topic`, "
            "`transcript` (text), `statements` (`round`, `index`, `name`, `content`), `round` and `rounds`.",
            "agents": _NAMES,
            "most": MOST,
        }
    )
    topic: str | None = field(
        default=None,
        metadata={
            "doc": "What it is about. Default: the input's `message`, or the whole input as JSON.",
            "template": True,
        },
    )
    rounds: int = field(
        default=2,
        metadata={
            "doc": "Most rounds; in each every participant speaks once.",
            "low": 1,
            "high": MOST_ROUNDS,
        },
    )
    moderator: ParticipantConfig | None = field(
        default=None,
        metadata={
            "doc": "An agent that sums up at the end; its text is the block's answer. Without one that is the last "
            "statement. Its templates see what the participants' see.",
            "agents": _NAMES,
        },
    )
    stop_on: t.Literal["consensus"] | None = field(
        default=None,
        metadata={
            "doc": "`consensus`: end before the last round when the moderator, asked after each round, says "
            f"`{AGREED}`; without a moderator when every statement of a round ends with a line `{AGREED}`."
        },
    )


def check(config: DebateConfig, path: str) -> list[tuple[str, str]]:
    """Two who speak, and different names."""
    problems = name_problems(config.participants, f"{path}.participants", _PART)
    if len(config.participants) < 2:
        problems.append((f"{path}.participants", "must have at least two participants"))
    return problems + _form_problems(config, path)


def _form_problems(config: DebateConfig, path: str) -> list[tuple[str, str]]:
    """Whoever has to say that they agree cannot be held to a form that has no place for it."""
    if config.stop_on is None:
        return []
    asked = [(f"participants[{place}]", who) for place, who in enumerate(config.participants)]
    if config.moderator is not None:
        asked = [("moderator", config.moderator)]
    return [
        (f"{path}.{where}.response_format", f"has no place for the word {AGREED}; leave it or stop_on out")
        for where, who in asked
        if who.response_format is not None
    ]


def run(context: BlockContext, config: DebateConfig) -> Mapping[str, t.Any]:
    """Let them speak.

    :raises RunError: ``template_failed``. :raises BlockError: a participant or the moderator failed.
    """
    debate = _Debate(context, config)
    debate.company.once("starts", DebateStarted(context.block, debate.names, config.rounds))
    content = debate.run()
    # The end of one that fails is told by the engine.
    debate.company.once("ends", DebateEnded(context.block, debate.round, debate.consensus))
    context.flush()
    return {
        "content": content,
        "rounds": debate.round,
        "consensus": debate.consensus,
        "statements": debate.statements,
        "transcript": debate.transcript(),
        **debate.company.totals(),
    }


class _Debate:
    """One debate. ``round``: the last one that began."""

    def __init__(self, context: BlockContext, config: DebateConfig) -> None:
        self.context = context
        self.config = config
        self.company = Company(context)
        self.names = names_of(config.participants, _PART)
        self.topic = asked_of(context, config.topic)
        self.statements: list[Mapping[str, t.Any]] = []
        self.round = 0
        self.consensus = False

    def run(self) -> str:
        """All of it; the answer."""
        while self.round < self.config.rounds and not self.consensus:
            self.context.sleep(0)  # a stop lands before the next round is announced
            self.round += 1
            self.company.once(f"round {self.round}", DebateRound(self.context.block, self.round))
            self.context.flush()
            self._hold_round()
        if self.config.moderator is None:
            return str(self.statements[-1]["content"])
        return self._sum_up(self.config.moderator)

    def _hold_round(self) -> None:
        config = self.config
        agreed = []
        for index, agent in enumerate(config.participants):
            output = self.company.ask(
                agent,
                f"{self.round}.{index}",
                self._asked("Give your statement."),
                told=self._told(index),
                seen=self._seen(),
            )
            content, agrees = self._heard(str(output["content"]))
            agreed.append(agrees)
            if len(agreed) == len(config.participants):
                self.consensus = all(agreed)
            self._say(index, content)
        last = self.round == config.rounds
        if config.stop_on is not None and config.moderator is not None and not last:
            self.consensus = self._moderator_sees_consensus(config.moderator)

    def _say(self, index: int, content: str) -> None:
        name = self.names[index]
        self.statements.append({"round": self.round, "index": index, "name": name, "content": content})
        over = self.consensus or self.round == self.config.rounds
        answer = self.config.moderator is None and over and index == len(self.names) - 1
        said = AgentMessage(self.context.block, content, name, self.round, answer)
        self.company.once(f"says {self.round}.{index}", said)
        self.context.flush()

    def _heard(self, text: str) -> tuple[str, bool]:
        """A statement without the line that says it agrees, and whether it had one."""
        if self.config.stop_on is None or self.config.moderator is not None:
            return text, False
        before, _, last = text.rstrip().rpartition("\n")
        if plain(last) != plain(AGREED):
            return text, False
        return before.rstrip() or text, True

    def _moderator_sees_consensus(self, moderator: ParticipantConfig) -> bool:
        question = (
            f"Do the participants agree? Answer with one word: {AGREED} if they do, CONTINUE if they do not."
        )
        output = self.company.ask(
            moderator,
            f"{self.round}.agreed",
            self._asked(question),
            told=self._moderates(),
            seen=self._seen(),
            own_prompt=False,
        )
        words = str(output["content"]).split()
        return bool(words) and plain(words[0].rstrip(",:;!")) == plain(AGREED)

    def _sum_up(self, moderator: ParticipantConfig) -> str:
        question = "The debate is over. Sum it up: what the participants agree on, and what they do not."
        output = self.company.ask(
            moderator, "moderator", self._asked(question), told=self._moderates(), seen=self._seen()
        )
        content = str(output["content"])
        name = moderator.name or _MODERATOR
        self.company.once("sums up", AgentMessage(self.context.block, content, name, None, True))
        return content

    # -- what they are told ------------------------------------------------------------------

    def transcript(self) -> str:
        """All statements as text."""
        return "\n\n".join(f"{s['name']} (round {s['round']}): {s['content']}" for s in self.statements)

    def _seen(self) -> Mapping[str, t.Any]:
        return {
            "topic": self.topic,
            "transcript": self.transcript(),
            "statements": tuple(self.statements),
            "round": self.round,
            "rounds": self.config.rounds,
        }

    def _asked(self, question: str) -> str:
        said = f"What was said so far:\n\n{self.transcript()}" if self.statements else ""
        where = f"This is round {self.round} of at most {self.config.rounds}. {question}"
        return "\n\n".join(part for part in (self.topic, said, where) if part)

    def _told(self, index: int) -> str:
        others = ", ".join(name for place, name in enumerate(self.names) if place != index)
        told = f"You take part in a debate as {self.names[index]}. The others are: {others}. Speak only for yourself."
        if self.config.stop_on is not None and self.config.moderator is None:
            told += (
                " If you agree with everybody and have nothing to add, end with a line that holds only the word "
                f"{AGREED}."
            )
        return told

    def _moderates(self) -> str:
        return f"You moderate a debate between {', '.join(self.names)}. You take no side."


DEBATE = BlockType(
    type_name="debate",
    config=DebateConfig,
    run=run,
    summary="Lets agents debate in rounds, with a moderator who sums up.",
    outputs=("content", "rounds", "consensus", "statements", "transcript", "tokens", "toolCalls", "cost"),
    check=check,
    uses=lambda config: models_of(participants=config.participants, moderator=config.moderator),
    answers=True,
)
