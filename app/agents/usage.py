"""What model calls used and what it cost, put together in one place.

Law of this room: a count is the vendor's own, or ours and marked as such, and never a zero that means "not
said" (field case SHAPE-05). What a call cost is unknown when its price is: absent, never 0. The last counts of a
call replace its earlier ones; only counts of different calls are added up (field case SHAPE-03).
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Mapping

import msgspec

from plugins.spec import Capabilities
from providers.spec import Usage

#: Members of :class:`providers.spec.Usage` and their names in the contract, in its order.
_COUNTS = (
    ("input", "input"),
    ("output", "output"),
    ("total", "total"),
    ("cache_read", "cacheRead"),
    ("cache_write", "cacheWrite"),
    ("reasoning", "reasoning"),
)
_MILLION = 1e6


class Spent(msgspec.Struct, frozen=True):
    """What one model call used. ``model`` is ``<family>/<model>``; ``cost`` is USD for input and output."""

    model: str
    tokens: Mapping[str, int]
    cost: tuple[float, float] | None
    estimated: bool


def spent(model: str, usage: Usage, capabilities: Capabilities) -> Spent | None:
    """The counts of one call with their price; None when there are none."""
    counts = token_counts(usage)
    return Spent(model, counts, price(usage, capabilities), usage.estimated) if counts else None


def token_counts(usage: Usage) -> dict[str, int]:
    """Counts in the contract's spelling; ``total`` is filled when both parts are known."""
    counts = {name: value for attr, name in _COUNTS if (value := getattr(usage, attr)) is not None}
    if "total" not in counts and "input" in counts and "output" in counts:
        counts["total"] = counts["input"] + counts["output"]
    return _ordered(counts)


def total(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The sums of several calls, in the contract's order; a count that nobody stated is absent."""
    sums: dict[str, int] = {}
    for each in counts:
        for name, value in each.items():
            sums[name] = sums.get(name, 0) + value
    return _ordered(sums)


def price(usage: Usage, can: Capabilities) -> tuple[float, float] | None:
    """What a call's input and output cost in USD; None when a rate or a count is not known.

    The vendor's prompt cache has rates of its own where they are known; what was read from it and written to it
    is part of ``usage.input``.
    """
    if can.price is None or usage.input is None or usage.output is None:
        return None
    read, written = usage.cache_read or 0, usage.cache_write or 0
    plain = can.price[0]
    read_rate, write_rate = can.cache_price or (plain, plain)
    fresh = max(0, usage.input - read - written)
    into = fresh * plain + read * read_rate + written * write_rate
    return into / _MILLION, usage.output * can.price[1] / _MILLION


def cost_of(tokens: Mapping[str, int], can: Capabilities) -> float | None:
    """What counts in the contract's spelling cost in USD; None when that is not known."""
    counted = Usage(
        input=tokens.get("input"),
        output=tokens.get("output"),
        cache_read=tokens.get("cacheRead"),
        cache_write=tokens.get("cacheWrite"),
    )
    parts = price(counted, can)
    return None if parts is None else sum(parts)


def total_cost(calls: Iterable[Spent]) -> dict[str, t.Any] | None:
    """``{input, output, total, currency}`` of several calls; None without calls, or when one's price is not known."""
    sums, any_call = (0.0, 0.0), False
    for call in calls:
        if call.cost is None:
            return None
        any_call = True
        sums = sums[0] + call.cost[0], sums[1] + call.cost[1]
    if not any_call:
        return None
    return {"input": sums[0], "output": sums[1], "total": sum(sums), "currency": "USD"}


def _ordered(counts: Mapping[str, int]) -> dict[str, int]:
    return {name: counts[name] for _, name in _COUNTS if name in counts}
