"""What a run may use: tokens and money, of its own and of what it was started through.

Law of this room: a budget that is used up ends the run as ``budget_exceeded``, after the model call that used it up;
one that was used up before refuses the start. It is looked at once a model call, never for each token. A run without
a budget pays nothing.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta

from app.errors import ApiError
from app.store.spending import Spending, Spent

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

    def has_room(self, spent: Spent, amount: Spent) -> bool:
        """Whether so much more may be used."""
        return not self.exceeded_by(Spent(spent.tokens + amount.tokens, spent.cost + amount.cost))

    def told(self, is_rest: bool = False, whose: str = "") -> str:
        """What is said of it to those who may know when it is used up.

        :param is_rest: there is a rest of it, too small to be used.
        :param whose: whose it is, in words; by default as ``subject`` has it.
        """
        limits = [] if self.tokens is None else [f"{self.tokens} tokens"]
        if self.cost is not None:
            limits.append(f"{self.cost:g} US dollars")
        whose = whose or _WHOSE.get(self.subject.partition(":")[0], self.subject)
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
    budgets: Iterable[Budget],
    spending: Spending,
    now_ms: int,
    instead: str | None = None,
    least: Spent = Spent(1),  # noqa: B008  # a value
) -> None:
    """Refuse a run for which nothing is left, or too little.

    :param least: without which its first model call would end it.
    :param instead: what those are told who are to learn nothing of budgets.
    :raises ApiError: 429 ``budget_exceeded``, with ``Retry-After`` until more may be used.
    """
    waits = []
    for budget in budgets:
        if budget.period != "run":
            spent = spending.read(budget.subject, period_of(budget, now_ms))
            is_used_up = budget.used_up_by(spent)
            if is_used_up or not budget.has_room(spent, least):
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
