"""Patterns that users write: RE2, so that none can stall a worker.

Law of this room: a pattern that RE2 does not know (look-around, back-references) is a problem of the document, never
of a run.
"""

from __future__ import annotations

import functools
import typing as t

import re2  # type: ignore[import-untyped]  # ships no types

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.max_mem = 8 << 20


@functools.lru_cache(maxsize=512)
def compiled(pattern: str) -> t.Any:
    """The pattern ready to ``search``; None when RE2 does not know it."""
    try:
        return re2.compile(pattern, _OPTIONS)
    except (re2.error, ValueError, TypeError):
        return None


def problem(pattern: str) -> str | None:
    """What is wrong with a pattern; None when nothing is."""
    if compiled(pattern) is not None:
        return None
    shown = pattern if len(pattern) <= 200 else pattern[:197] + "…"
    return f"the pattern {shown!r} uses what RE2 has not (look-around, back-references); rewrite it"
