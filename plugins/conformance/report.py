"""Verdicts as text for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from plugins.conformance.verdict import Verdict

_SIGNS = {"passed": "ok", "failed": "FAILED", "missing": "MISSING", "absent": "-", "unfit": "-"}


def render(verdicts: Iterable[Verdict]) -> str:
    """One section a model: its scenarios, then the capabilities it claims beside those it earned."""
    return "\n\n".join(map(_section, verdicts))


def _section(verdict: Verdict) -> str:
    lines = [
        f"{verdict.family}/{verdict.model} over {verdict.wire}: {'conforms' if verdict.ok else 'DOES NOT CONFORM'}"
    ]
    if verdict.problem:
        lines.append(f"  {verdict.problem}")
    if verdict.outcomes:
        lines += _table(
            ("scenario", "", ""), [(o.scenario, _SIGNS[o.state], o.detail) for o in verdict.outcomes]
        )
    if verdict.claims:
        lines += ["", *_table(
            ("capability", "claims", "earned", ""),
            [(c.name, c.claimed, c.earned, "" if c.ok else "DIFFERS") for c in verdict.claims],
        )]  # fmt: skip
    return "\n".join(lines)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    return [
        ("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))).rstrip()
        for row in (head, *rows)
    ]
