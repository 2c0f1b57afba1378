"""Events of blocks in which several agents work together. No text of theirs is told piece by piece."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence

from app.events.base import RunEvent


class AgentMessage(RunEvent, frozen=True, gc=False):
    """An agent inside a composite said something, whole. ``sender`` is its name, ``round`` from 1 in a debate.

    ``answer``: the text is the block's ``content``, which :class:`AnswerSettled` states as well.
    """

    block: str
    content: str
    sender: str
    round: int | None = None
    answer: bool = False


class SequenceStep(RunEvent, frozen=True, gc=False):
    """An agent of a sequence, ``index`` from 0, begins or has ended; each start has its end, also in a failure."""

    block: str
    index: int
    name: str
    phase: t.Literal["start", "end"]


class DebateStarted(RunEvent, frozen=True, gc=False):
    """A debate begins. ``participants``: their names, in the order in which they speak; ``rounds``: most rounds."""

    block: str
    participants: Sequence[str]
    rounds: int


class DebateRound(RunEvent, frozen=True, gc=False):
    """Round ``round`` of a debate begins, from 1."""

    block: str
    round: int


class DebateEnded(RunEvent, frozen=True, gc=False):
    """A debate is over, also by a failure. ``round``: the last one that began (0: none); ``consensus``: they agreed."""

    block: str
    round: int
    consensus: bool = False


class VoteCast(RunEvent, frozen=True, gc=False):
    """A ballot. ``vote`` None: abstained.

    Open: it comes when the voter has voted; ``voter_index`` is the voter's place from 0, ``sender`` its name. Secret:
    all come together after the last voter, in random order; ``voter_index`` is a random number and ``sender`` None.
    """

    block: str
    vote: str | None
    voter_index: int
    sender: str | None = None


class VoteClosed(RunEvent, frozen=True, gc=False):
    """The result of a vote. ``votes``: count by option, in the order of the options; ``has_majority``: the winner has
    more than half of all votes for an option.
    """

    block: str
    votes: Mapping[str, int]
    winner: str | None
    has_majority: bool
    abstained: int
