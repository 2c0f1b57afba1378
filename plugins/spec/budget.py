"""What a run's budgets leave for the calls of models that follow."""

from __future__ import annotations

import typing as t


class Left(t.NamedTuple):
    """What may still be used: tokens of prompt and answer, and US dollars. None: as much as it takes."""

    tokens: int | None
    cost: float | None


class Amount(t.NamedTuple):
    """What a call may use: tokens of prompt and answer, and US dollars."""

    tokens: int
    cost: float


class Held(t.Protocol):
    """A part of the budgets that one call has for itself.

    :ivar left: what it may use at most: what is left beside that which other calls hold.
    """

    left: Left

    def release(self) -> None:
        """The call is over, and what it used is told. Never waits; once is enough."""

    def exceed(self, what: t.Literal["tokens", "cost"]) -> t.NoReturn:
        """``left`` of ``what``, which is not None, is too little for the call: the run ends by the budget that leaves
        it. It may have been released.
        """


class BudgetMeter(t.Protocol):
    """The budgets of a run, as its blocks see them. Each method waits for the store: never call one inside a wait."""

    def left(self) -> Left:
        """What the tightest of them leaves; asked before a call.

        :raises BaseException: nothing is left: the run ends, as it does when it is cancelled.
        """

    def hold(self, least: Amount, wanted: Amount) -> Held | None:
        """Have ``wanted`` set aside for a call that is about to be made.

        A call that nobody else holds anything beside has what is left, however little that is.

        :param least: without which there is no use in it.
        :returns: what is to be released when the call is over; None: others hold so much that it does not fit in
            beside them, but may when they have ended. Ask again.
        :raises BaseException: nothing is left: the run ends.
        """

    def check(self) -> None:
        """Go no further when more was used than may be; asked after a call.

        :raises BaseException: the run ends.
        """
