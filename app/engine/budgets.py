"""What a run may use: tokens and money, of its own and of what it was started through.

Law of this room: a budget that is used up ends the run as ``budget_exceeded``, after the model call that used it up;
one that was used up before refuses the start. It is looked at once a model call, never for each token. A run without
a budget pays nothing.
"""

from __future__ import annotations

import logging
import math
import typing as t
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta

from app.clock import Clock
from app.engine.scope import Cancelled, RunScope
from app.errors import ApiError
from app.events import UsageReported
from app.store.errors import StoreFailed
from app.store.spending import Spending, Spent
from plugins.spec.budget import Left

if t.TYPE_CHECKING:
    from app.store.writer import Ticket

log = logging.getLogger("studio.budgets")

#: The code of an end by a budget, and the cause (contract 1.8).
EXCEEDED: t.Final = "budget_exceeded"
#: Sums of prices are no exact sums.
_SLACK = 1 + 1e-9
_WHOSE: Mapping[str, str] = {"key": "this API key", "chat": "this chat", "workflow": "this workflow"}


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit on what is used.

    :ivar subject: ``<kind>:<id>`` of whose it is: ``chat:…``, ``key:…``, ``workflow:…``.
    :ivar period: ``run``: each run may use that much; else all runs of the subject in that time (UTC) together.
    :ivar tokens: most tokens, input and output. :ivar cost: most money, in US dollars. None: not limited.
    """

    subject: str
    period: t.Literal["run", "day", "month"] = "run"
    tokens: int | None = None
    cost: float | None = None

    def exceeded_by(self, spent: Spent) -> bool:
        """Whether more was used than may be."""
        tokens, cost = self.tokens, self.cost
        return (tokens is not None and spent.tokens > tokens) or (
            cost is not None and spent.cost > cost * _SLACK
        )

    def used_up_by(self, spent: Spent) -> bool:
        """Whether nothing is left."""
        tokens, cost = self.tokens, self.cost
        return (tokens is not None and spent.tokens >= tokens) or (
            cost is not None and spent.cost >= cost / _SLACK
        )

    def too_little_after(self, spent: Spent, least: int) -> bool:
        """Whether something is left, but less than ``least`` tokens."""
        return self.tokens is not None and self.tokens - spent.tokens < least

    def told(self, is_rest: bool = False) -> str:
        """What is said of it to those who may know when it is used up.

        :param is_rest: there is a rest of it, of too few tokens to be used.
        """
        limits = [] if self.tokens is None else [f"{self.tokens} tokens"]
        if self.cost is not None:
            limits.append(f"{self.cost:g} US dollars")
        whose = _WHOSE.get(self.subject.partition(":")[0], self.subject)
        every = "run" if self.period == "run" else f"{self.period} (UTC)"
        rest = ", but for a rest that no model call fits into" if is_rest else ""
        return f"The budget of {whose} is used up{rest}: {' and '.join(limits)} a {every}."


def period_of(budget: Budget, now_ms: int) -> str:
    """The name of the period that a budget of a day or a month is in."""
    return datetime.fromtimestamp(now_ms / 1000, UTC).strftime(
        "%Y-%m-%d" if budget.period == "day" else "%Y-%m"
    )


def resets_at_ms(budget: Budget, now_ms: int) -> int:
    """When the period of a budget of a day or a month ends."""
    day = datetime.fromtimestamp(now_ms / 1000, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    end = (
        day + timedelta(days=1)
        if budget.period == "day"
        else (day.replace(day=1) + timedelta(days=32)).replace(day=1)
    )
    return int(end.timestamp()) * 1000


def check_start(
    budgets: Iterable[Budget], spending: Spending, now_ms: int, instead: str | None = None, least: int = 1
) -> None:
    """Refuse a run for which nothing is left, or too little.

    :param least: tokens without which its first model call would end it.
    :param instead: what those are told who are to learn nothing of budgets.
    :raises ApiError: 429 ``budget_exceeded``, with ``Retry-After`` until more may be used.
    """
    waits = []
    for budget in budgets:
        if budget.period != "run":
            spent = spending.read(budget.subject, period_of(budget, now_ms))
            is_used_up = budget.used_up_by(spent)
            if is_used_up or budget.too_little_after(spent, least):
                waits.append((resets_at_ms(budget, now_ms), budget, not is_used_up))
    if not waits:
        return
    at, budget, is_rest = max(waits, key=lambda wait: wait[0])
    seconds = max(1, -(-(at - now_ms) // 1000))
    message = instead or f"{budget.told(is_rest)} Try again in {seconds} s."
    raise ApiError(429, EXCEEDED, message, headers={"Retry-After": str(seconds)})


def stored(budgets: Iterable[Budget]) -> list[dict[str, t.Any]]:
    """Budgets as what a durable run was started with; JSON."""
    return [asdict(budget) for budget in budgets]


def restored(raw: Sequence[Mapping[str, t.Any]]) -> tuple[Budget, ...]:
    """The inverse of :func:`stored`."""
    return tuple(Budget(**each) for each in raw)


class Meter:
    """Adds up what a run uses, and ends it when that is more than may be.

    :param usages: what it has used already, in an earlier process.
    :ivar over: the budget that was exceeded, or of which too little was left.
    """

    def __init__(
        self,
        budgets: tuple[Budget, ...],
        spending: Spending,
        scope: RunScope,
        clock: Clock,
        usages: Iterable[UsageReported] = (),
    ) -> None:
        self._budgets = budgets
        self._spending = spending
        self._scope = scope
        self._clock = clock
        self._own = Spent()
        self._pending: list[tuple[Budget, Ticket]] = []
        self._unpriced = not any(
            budget.cost is not None for budget in budgets
        )  # whether that was said already
        self._tightest: dict[str, Budget] = {}
        self.over: Budget | None = None
        for report in usages:
            self._own = _sum(self._own, _amount(report))

    def used(self, report: UsageReported) -> None:
        """Count what a model call used. Never switches greenlets."""
        amount = _amount(report)
        self._own = _sum(self._own, amount)
        if report.cost is None and not self._unpriced:
            self._unpriced = True
            log.warning("a budget of money does not count calls of %s: its price is not known", report.model)
        for budget in self._budgets:
            if budget.period == "run":
                self._judge(budget, self._own)
            else:
                self._add(budget, amount)

    def _add(self, budget: Budget, amount: Spent) -> None:
        try:
            ticket = self._spending.add(budget.subject, period_of(budget, self._clock.now_ms()), *amount)
        except StoreFailed:
            log.exception("what was used of the budget of %s could not be stored", budget.subject)
            return
        self._pending.append((budget, ticket))
        if ticket.done:
            self.settle()
        elif self._scope.cause is None:
            self._scope.spawn(self.settle)  # whatever else of the run goes on is ended as soon as it is known

    def settle(self) -> None:
        """Wait until all that was used is counted."""
        while self._pending:
            budget, ticket = first = self._pending[0]
            total: Spent | None = None
            try:
                total = ticket.wait()
            except StoreFailed:
                log.exception("what was used of the budget of %s could not be stored", budget.subject)
            if self._pending and self._pending[0] is first:  # else another greenlet waited for it as well
                del self._pending[0]
                if total is not None:
                    self._judge(budget, total)

    def _judge(self, budget: Budget, spent: Spent) -> None:
        if budget.exceeded_by(spent):
            self._end(budget)

    def _end(self, budget: Budget) -> None:
        if self._scope.cause is None:
            self.over = budget
            self._scope.cancel(EXCEEDED)

    def check(self) -> None:
        """Go no further when more was used than may be.

        :raises Cancelled: the run ends.
        """
        self.settle()
        if self._scope.cause is not None:
            raise Cancelled(self._scope.cause)

    def left(self) -> Left:
        """See :class:`plugins.spec.budget.BudgetMeter`."""
        self.check()
        now = self._clock.now_ms()
        left: dict[str, float] = {}
        for budget in self._budgets:
            spent = self._own
            if budget.period != "run":
                spent = self._spending.read(budget.subject, period_of(budget, now))
            if budget.used_up_by(spent):
                self._give_up(budget)
            for what, most, used in (
                ("tokens", budget.tokens, spent.tokens),
                ("cost", budget.cost, spent.cost),
            ):
                if most is not None and most - used < left.get(what, math.inf):
                    left[what] = most - used
                    self._tightest[what] = budget
        tokens = left.get("tokens")
        return Left(None if tokens is None else int(tokens), left.get("cost"))

    def exceed(self, what: t.Literal["tokens", "cost"]) -> t.NoReturn:
        """See :class:`plugins.spec.budget.BudgetMeter`."""
        self._give_up(self._tightest.get(what, self._budgets[0]))

    def _give_up(self, budget: Budget) -> t.NoReturn:
        self._end(budget)
        raise Cancelled(str(self._scope.cause))


def _amount(report: UsageReported) -> Spent:
    tokens = report.tokens
    used = tokens.get("total")
    if used is None:
        used = tokens.get("input", 0) + tokens.get("output", 0)
    return Spent(max(0, used), max(0.0, report.cost or 0.0))


def _sum(one: Spent, other: Spent) -> Spent:
    return Spent(one.tokens + other.tokens, one.cost + other.cost)
