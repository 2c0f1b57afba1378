"""Limits on what others may use, as bodies and documents say them: how often, and how much.

Law of this room: values alone. Who is limited by them, and how that is counted, is decided where they are used.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, field

from app.schemas import derive

#: The windows of a rate limit: its unit, and seconds.
WINDOWS: Mapping[str, int] = {"minute": 60, "hour": 3_600, "day": 86_400}
#: How many runs in one window, for each window: ``((60, "minute"), (2000, "day"))``. Empty: no limit.
Rates = tuple[tuple[int, str], ...]

_MOST = 1_000_000
_MOST_TOKENS = 10**15


def _most(unit: str) -> t.Any:
    doc = f"Most runs in {'an' if unit == 'hour' else 'a'} {unit}."
    key = f"per{unit.capitalize()}"
    return field(default=None, metadata={"key": key, "doc": doc, "low": 1, "high": _MOST})


@dataclass(frozen=True, slots=True)
class RateLimit:
    """How many runs may be started: ``{perMinute?, perHour?, perDay?}``. Each that is given holds."""

    per_minute: int | None = _most("minute")
    per_hour: int | None = _most("hour")
    per_day: int | None = _most("day")

    def __post_init__(self) -> None:
        """:raises ValueError: it limits nothing."""
        if not self.rates:
            raise ValueError("give perMinute, perHour or perDay; null for the default of the settings")

    @property
    def rates(self) -> Rates:
        """The same, shortest window first."""
        given = ((self.per_minute, "minute"), (self.per_hour, "hour"), (self.per_day, "day"))
        return tuple((count, unit) for count, unit in given if count is not None)


def _tokens() -> t.Any:
    doc = "Most tokens, of prompts and answers."
    return field(default=None, metadata={"doc": doc, "low": 1, "high": _MOST_TOKENS})


def _cost() -> t.Any:
    doc = "Most money, in US dollars. Calls of a model whose price is not known do not count."
    return field(default=None, metadata={"doc": doc, "above": 0, "high": 1_000_000_000})


@dataclass(frozen=True, slots=True)
class RunBudget:
    """What one run may use: ``{tokens?, cost?}``."""

    tokens: int | None = _tokens()
    cost: float | None = _cost()

    def __post_init__(self) -> None:
        """:raises ValueError: it limits nothing."""
        if self.tokens is None and self.cost is None:
            raise ValueError("give tokens, cost or both; null for no budget")


@dataclass(frozen=True, slots=True)
class BudgetLimit(RunBudget):
    """What the runs of a chat or a key may use: ``{tokens?, cost?, period?}``."""

    period: t.Literal["run", "day", "month"] = field(
        default="run",
        metadata={
            "doc": "Whether each run may use that much, or all runs of a day or a month (UTC) together."
        },
    )


def stored_rates(raw: t.Any) -> Rates | None:
    """The rates of a limit that was checked before it was stored; None: it has none of its own."""
    if raw is None:
        return None
    limit, _ = derive.load(RateLimit, raw)
    return None if limit is None else limit.rates


def stored_budget(raw: t.Any) -> BudgetLimit | None:
    """A budget that was checked before it was stored; None: there is none."""
    return None if raw is None else derive.load(BudgetLimit, raw)[0]
