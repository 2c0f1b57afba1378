"""The contract's one usage object, made from what model calls reported.

Law of this room: what a vendor did not say is left out, never counted as zero (field case SHAPE-05).
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Mapping

from app.events import UsageReported


def token_counts(reports: Iterable[UsageReported]) -> dict[str, int]:
    """Sums of what was reported, in contract order; a count nobody reported is absent."""
    sums: dict[str, int] = {}
    for report in reports:
        for key, value in report.tokens.items():
            sums[key] = sums.get(key, 0) + value
    order = ("input", "output", "total", "cacheRead", "cacheWrite", "reasoning")
    return {key: sums[key] for key in order if key in sums}


def cost(reports: Iterable[UsageReported]) -> dict[str, t.Any] | None:
    """``{total, currency, estimated}``, or None when the price of any call is unknown."""
    total, estimated, currency, known = 0.0, False, "USD", False
    for report in reports:
        if report.cost is None:
            return None
        known = True
        total += report.cost
        estimated = estimated or report.estimated
        currency = report.currency
    return {"total": round(total, 10), "currency": currency, "estimated": estimated} if known else None


def _group(reports: list[UsageReported], key: t.Callable[[UsageReported], str]) -> dict[str, t.Any]:
    groups: dict[str, list[UsageReported]] = {}
    for report in reports:
        groups.setdefault(key(report), []).append(report)
    return {name: _entry(group) for name, group in groups.items()}


def _entry(reports: list[UsageReported]) -> dict[str, t.Any]:
    entry: dict[str, t.Any] = {"tokens": token_counts(reports)}
    amount = cost(reports)
    if amount is not None:
        entry["cost"] = amount
    return entry


def usage_object(reports: list[UsageReported], times: Mapping[str, int]) -> dict[str, t.Any]:
    """The whole object. ``times`` holds ``durationMs, activeMs, queuedMs, humanWaitMs`` in ms."""
    return {
        **_entry(reports),
        **times,
        "byBlock": _group(reports, lambda r: r.block),
        "byModel": _group(reports, lambda r: r.model),
    }
