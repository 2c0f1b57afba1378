"""What a run has used of its budgets while it runs, and what a workflow inside of it has of its own.

Law of this room: a report is counted where it is folded into the run's state, once a model call, and counting never
switches greenlets. Who exceeds a budget is ended through a scope: the run's, or that of the workflow inside of it
whose budget it was, so that only that one fails. A run without a budget pays nothing.
"""

from __future__ import annotations

import logging
import typing as t
from collections.abc import Callable, Iterable
from functools import partial

from app.clock import Clock
from app.engine.budgets import EXCEEDED, Budget, period_of
from app.engine.scope import Cancelled, RunScope
from app.events import UsageReported
from app.store.errors import StoreFailed
from app.store.spending import Holding, Spending, Spent
from plugins.spec.budget import Amount, Held, Left

if t.TYPE_CHECKING:
    from app.state import RunState
    from app.store.writer import Ticket

log = logging.getLogger("studio.budgets")

_What = t.Literal["tokens", "cost"]


class Meter:
    """Adds up what a run, or a workflow inside of it, uses, and ends it when that is more than may be.

    :param scope: what is ended.
    :param usages: what it has used already, in an earlier process.
    :param path: of the blocks whose reports count; all, if it is empty.
    :param outer: of what it runs in, which counts all of it too.
    :ivar over: the budget that was exceeded, or of which too little was left; none of ``outer``'s.
    """

    def __init__(
        self,
        budgets: tuple[Budget, ...],
        spending: Spending,
        scope: RunScope,
        clock: Clock,
        usages: Iterable[UsageReported] = (),
        *,
        path: str = "",
        outer: Meter | None = None,
    ) -> None:
        self._budgets = budgets
        self._spending = spending
        self._scope = scope
        self._clock = clock
        self._path = path
        self._outer = outer
        self._own = Spent()
        #: What its calls hold now, and how many they are.
        self._held, self._holders = Spent(), 0
        self._pending: list[tuple[Budget, Ticket]] = []
        self._unpriced = not any(
            budget.cost is not None for budget in budgets
        )  # whether that was said already
        self.over: Budget | None = None
        for report in usages:
            if report.block.startswith(path):
                self._own = _sum(self._own, _amount(report))

    def listen(self, state: RunState) -> None:
        """Count what is reported from now on; before it went on, all was given to ``usages``."""
        state.on_usage += (self.used,)

    def leave(self, state: RunState) -> None:
        """Count no more."""
        state.on_usage = tuple(each for each in state.on_usage if each != self.used)

    def used(self, report: UsageReported) -> None:
        """Count what a model call used. Never switches greenlets."""
        if not report.block.startswith(self._path):
            return
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

        :raises Cancelled: the run, or the workflow inside of it, ends.
        """
        if self._outer is not None:
            self._outer.check()
        self.settle()
        for budget in self._budgets:
            if budget.period == "run":  # it may have been exceeded in an earlier process, which told nobody
                self._judge(budget, self._own)
        if self._scope.cause is not None:
            raise Cancelled(self._scope.cause)

    def left(self) -> Left:
        """See :class:`plugins.spec.budget.BudgetMeter`."""
        self.check()
        left = Left(None, None) if self._outer is None else self._outer.left()
        now = self._clock.now_ms()
        for budget in self._budgets:
            spent = self._own
            if budget.period != "run":
                spent = self._spending.read(budget.subject, period_of(budget, now))
            if budget.used_up_by(spent):
                self._give_up(budget)
            left = _narrowed(left, budget, spent)
        return left

    def hold(self, least: Amount, wanted: Amount) -> Held | None:
        """See :class:`plugins.spec.budget.BudgetMeter`."""
        self.check()
        held = _Held()
        try:
            if self._outer is not None:
                around = self._outer.hold(least, wanted)
                if around is None:
                    return None
                held.begin_with(around)
            is_held = self._hold_own(held, Spent(*least), Spent(*wanted)) and all(
                self._hold_shared(budget, held, Spent(*least), Spent(*wanted))
                for budget in self._budgets
                if budget.period != "run"
            )
        except BaseException:
            held.release()
            raise
        if not is_held:
            held.release()
            return None
        return held

    def _hold_own(self, held: _Held, least: Spent, wanted: Spent) -> bool:
        """Of budgets of this run alone; False: others hold too much."""
        own = [budget for budget in self._budgets if budget.period == "run"]
        spent, others = self._own, self._held
        for budget in own:
            if budget.used_up_by(spent):
                self._give_up(budget)
            if not _may(budget, spent, others, self._holders, least, wanted):
                return False
        for budget in own:
            held.narrow(budget, _sum(spent, others), partial(self._give_up, budget))
        if own:
            self._held, self._holders = _sum(others, wanted), self._holders + 1
            held.take(lambda: self._let_go(wanted))
        return True

    def _let_go(self, wanted: Spent) -> None:
        self._holders -= 1
        tokens, cost = self._held.tokens - wanted.tokens, self._held.cost - wanted.cost
        self._held = Spent(tokens, cost) if self._holders else Spent()

    def _hold_shared(self, budget: Budget, held: _Held, least: Spent, wanted: Spent) -> bool:
        """Of one that others use as well; False: they hold too much."""
        call, period = self._clock.new_id("call"), period_of(budget, self._clock.now_ms())

        def may(spent: Spent, others: Spent, holders: int) -> bool:
            return _may(budget, spent, others, holders, least, wanted)

        try:
            found: Holding = self._spending.hold(budget.subject, period, call, wanted, may).wait()
        except StoreFailed:
            log.exception("nothing could be held of the budget of %s", budget.subject)
            found = Holding(self._spending.read(budget.subject, period), Spent(), True)
        else:
            if found.is_held:
                held.take(lambda: self._release(budget.subject, call))
        if budget.used_up_by(found.spent):
            self._give_up(budget)
        if found.is_held:
            held.narrow(budget, _sum(found.spent, found.others), partial(self._give_up, budget))
        return found.is_held

    def _release(self, subject: str, call: str) -> None:
        try:
            self._spending.release(subject, call)
        except StoreFailed:
            log.exception("what was held of the budget of %s could not be given back", subject)

    def _give_up(self, budget: Budget) -> t.NoReturn:
        self._end(budget)
        raise Cancelled(str(self._scope.cause))


class _Held:
    """See :class:`plugins.spec.budget.Held`."""

    def __init__(self) -> None:
        self.left = Left(None, None)
        self._releases: list[Callable[[], None]] = []
        #: What ends by the budget that leaves least.
        self._ends: dict[_What, Callable[[], t.NoReturn]] = {}

    def begin_with(self, around: Held) -> None:
        """What is held of the budgets around is a part of it."""
        self.take(around.release)
        self.left = around.left
        self._ends = {"tokens": partial(around.exceed, "tokens"), "cost": partial(around.exceed, "cost")}

    def take(self, release: Callable[[], None]) -> None:
        """It has one part more."""
        self._releases.append(release)

    def release(self) -> None:
        """See :class:`plugins.spec.budget.Held`."""
        while self._releases:
            self._releases.pop()()

    def narrow(self, budget: Budget, used: Spent, end: Callable[[], t.NoReturn]) -> None:
        """It is no more than a budget leaves, by which ``end`` ends."""
        before, self.left = self.left, _narrowed(self.left, budget, used)
        if self.left.tokens != before.tokens:
            self._ends["tokens"] = end
        if self.left.cost != before.cost:
            self._ends["cost"] = end

    def exceed(self, what: _What) -> t.NoReturn:
        """See :class:`plugins.spec.budget.Held`."""
        self._ends[what]()


def _narrowed(left: Left, budget: Budget, used: Spent) -> Left:
    """``left``, or what a budget leaves where that is less."""
    tokens, cost = left
    if budget.tokens is not None and (tokens is None or budget.tokens - used.tokens < tokens):
        tokens = budget.tokens - used.tokens
    if budget.cost is not None and (cost is None or budget.cost - used.cost < cost):
        cost = budget.cost - used.cost
    return Left(tokens, cost)


def _may(budget: Budget, spent: Spent, others: Spent, holders: int, least: Spent, wanted: Spent) -> bool:
    """Whether a call goes on: it fits in beside others, there are none, or it would not fit in without them either."""
    return not holders or budget.has_room(_sum(spent, others), wanted) or not budget.has_room(spent, least)


def _amount(report: UsageReported) -> Spent:
    tokens = report.tokens
    used = tokens.get("total")
    if used is None:
        used = tokens.get("input", 0) + tokens.get("output", 0)
    return Spent(max(0, used), max(0.0, report.cost or 0.0))


def _sum(one: Spent, other: Spent) -> Spent:
    return Spent(one.tokens + other.tokens, one.cost + other.cost)
