"""What a run's budgets leave for the calls of models that follow."""

from __future__ import annotations

import typing as t


class Left(t.NamedTuple):
    """What may still be used: tokens of prompt and answer, and US dollars. None: as much as it takes."""

    tokens: int | None
    cost: float | None


class BudgetMeter(t.Protocol):
    """The budgets of a run, as its blocks see them. Each method waits for the store: never call one inside a wait."""

    def left(self) -> Left:
        """What the tightest of them leaves; asked before a call.

        :raises BaseException: nothing is left: the run ends, as it does when it is cancelled.
        """

    def check(self) -> None:
        """Go no further when more was used than may be; asked after a call.

        :raises BaseException: the run ends.
        """

    def exceed(self, what: t.Literal["tokens", "cost"]) -> t.NoReturn:
        """What is left of ``what`` is too little to go on with: the run ends."""
