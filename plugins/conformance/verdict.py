"""What the kit says of one model: outcomes of scenarios, and claims beside what was earned."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Outcome:
    """One scenario.

    :ivar state: ``passed``; ``failed``; ``missing``: the family claims it and shows nothing; ``absent``: the
        family does not claim it and shows nothing; ``unfit``: the wire reads no bytes that could be torn.
    :ivar detail: what was wrong, or what was tried.
    """

    scenario: str
    state: t.Literal["passed", "failed", "missing", "absent", "unfit"]
    detail: str = ""

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong with it."""
        return self.state in ("passed", "absent", "unfit")


@dataclass(frozen=True, slots=True)
class Claim:
    """One capability: what the family claims beside what the scenarios earned."""

    name: str
    claimed: str
    earned: str
    ok: bool


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the kit says of one model of a family.

    :ivar problem: why nothing could be tried, or empty.
    """

    family: str
    model: str
    wire: str
    outcomes: tuple[Outcome, ...] = ()
    claims: tuple[Claim, ...] = ()
    problem: str = ""

    @property
    def ok(self) -> bool:
        """Whether the family conforms, as far as this model goes."""
        return not self.problem and all(o.ok for o in self.outcomes) and all(c.ok for c in self.claims)
