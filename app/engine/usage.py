"""The contract's one usage object, made from what model calls reported.

Law of this room: what a vendor did not say is left out, never counted as zero (field case SHAPE-05).
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Mapping

from app.agents.usage import total
from app.events import UsageReported


def cost(reports: Iterable[UsageReported]) -> dict[str, t.Any] | None:
    """``{total, currency, estimated}``, or None when the price of any call is unknown."""
    amount, estimated, currency, known = 0.0, False, "USD", False
    for report in reports:
        if report.cost is None:
            return None
        known = True
        amount += report.cost
        estimated = estimated or report.estimated
        currency = report.currency
    return {"total": round(amount, 10), "currency": currency, "estimated": estimated} if known else None


def _group(reports: list[UsageReported], key: t.Callable[[UsageReported], str]) -> dict[str, t.Any]:
    groups: dict[str, list[UsageReported]] = {}
    for report in reports:
        groups.setdefault(key(report), []).append(report)
    return {name: _entry(group) for name, group in groups.items()}


def _entry(reports: list[UsageReported]) -> dict[str, t.Any]:
    entry: dict[str, t.Any] = {"tokens": total(report.tokens for report in reports)}
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
