"""The Gemini models, at the Gemini API and on Vertex AI: what a name says of thinking and how it is asked for.

Law of this room: facts of the models, read from the name, since new names appear all the time; size, price and inputs
are the registry's. All that is exposed of thinking is a summary, and only when it is asked for. Facts are the vendor's,
as of late 2026: ai.google.dev, pages thinking, thought-signatures, structured-output and function-calling; which
flash models lost the level ``minimal`` and the sampling parameters also from the registry of litellm 1.110.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping
from dataclasses import dataclass

from plugins.claims import claims
from plugins.spec.families import Capabilities
from plugins.spec.rows import Row

SOURCE = "ai.google.dev: thinking, thought signatures, structured output"

#: What both vendors' tables list; any other name is asked for as written.
KNOWN = (
    "gemini-4-hydrogen",
    "gemini-4-argon",
    "gemini-3.8-flash",
    "gemini-3.7-flash",
    "gemini-3.6-flash",
    "gemini-3.5-flash",
    "gemini-3.5-flash-lite",
    "gemini-3.1-pro-preview",
    "gemini-3.1-flash-lite",
    "gemini-3-flash-preview",
    "gemini-2.5-pro",
    "gemini-2.5-flash",
    "gemini-2.5-flash-lite",
)

_NAME = re.compile(r"gemini-(?P<major>\d+)(?:\.(?P<minor>\d+))?-(?P<tier>flash-lite|[a-z]+)")
_LATEST = re.compile(r"gemini-(?P<tier>flash-lite|flash|pro)-latest")
#: What the aliases without a version stand for.
_NEWEST = (3, 8)

#: Least and most thinking tokens of the 2.5 models.
_BUDGETS = {"pro": (128, 32_768), "flash": (1, 24_576), "flash-lite": (512, 24_576)}


@dataclass(frozen=True, slots=True)
class _Generation:
    tier: str
    version: tuple[int, int]

    @property
    def style(self) -> t.Literal["never", "budget", "level"]:
        if self.version >= (3, 0):
            return "level"
        return "budget" if self.version >= (2, 5) else "never"

    @property
    def levels(self) -> tuple[str, ...]:
        """The words of ``thinkingLevel`` that the model takes."""
        flash = self.tier.startswith("flash")
        if self.version < (3, 1) and not flash:
            return ("low", "high")
        least = ("minimal",) if flash and (self.version < (3, 7) or self.tier == "flash-lite") else ()
        most = ("xhigh",) if self.tier == "hydrogen" else ()
        return (*least, "low", "medium", "high", *most)

    @property
    def samples(self) -> bool:
        """Whether ``temperature`` and ``top_p`` still do anything."""
        since = (3, 5) if self.tier == "flash-lite" else (3, 6)
        return self.version < since


def _generation(model: str) -> _Generation | None:
    if (latest := _LATEST.search(model)) is not None:
        return _Generation(latest["tier"], _NEWEST)
    match = _NAME.search(model)
    if match is None:
        return None
    return _Generation(match["tier"], (int(match["major"]), int(match["minor"] or 0)))


def gemini_capabilities(model: str, row: Row | None, *, source: str = SOURCE) -> Capabilities:
    """What ``model`` can do. A Gemini whose name tells no version is taken for a current one; other names do not think.

    :param row: the registry's, of whoever serves it.
    """
    generation = _generation(model)
    stated: dict[str, t.Any]
    if generation is None and "gemini" in model:
        stated = {
            "thinking": "summary",
            "thinking_control": ("low", "high", "auto"),
            "thinking_signed": True,
            "notes": "Not in the vendor's list this version knows; treated like a current model.",
        }
    elif generation is None or generation.style == "never":
        stated = {"thinking": "none", "thinking_control": (), "notes": "Not asked for thinking."}
    else:
        stated = {
            "thinking": "summary",
            "thinking_control": _control(generation),
            "thinking_signed": generation.style == "level",
            "notes": _notes(generation),
        }
    otherwise = {"tools": "parallel", "structured_output": "native", "inputs": ("text", "image", "pdf")}
    return claims(row, source=source, stated=stated, otherwise=otherwise)


def _control(generation: _Generation) -> tuple[str, ...]:
    if generation.style == "level":
        return (*generation.levels, "auto")
    off = () if generation.tier == "pro" else ("none",)
    return (*off, "minimal", "low", "medium", "high", "auto", "budget")


def _notes(generation: _Generation) -> str:
    if generation.style == "budget":
        begins = "Thinks when asked" if generation.tier == "flash-lite" else "Thinks by default"
        return (
            f"{begins}; a level is sent as a token budget; beside tools, a response format is put into words."
        )
    return "Always thinks; a level is sent as thinkingLevel, and auto leaves it to the model."


def gemini_dialect(model: str) -> Mapping[str, t.Any]:
    """The switches of the Gemini wire for ``model`` (documented in ``providers/gemini_request.py``)."""
    generation = _generation(model)
    if generation is None:
        known = "gemini" in model
        return {"thinking": "level" if known else "never", "signed_calls": known}
    if generation.style == "never":
        return {"thinking": "never", "schema_with_tools": False}
    if generation.style == "budget":
        return {
            "thinking": "budget",
            "budget_range": _BUDGETS.get(generation.tier, _BUDGETS["flash"]),
            "thinks_by_default": generation.tier != "flash-lite",
            "schema_with_tools": False,
        }
    return {"thinking": "level", "signed_calls": True, "sampling": generation.samples}
