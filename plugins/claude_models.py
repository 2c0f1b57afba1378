"""The Claude models, whoever serves them: which generation a name is of, and what that generation can do.

Law of this room: facts of the models, read from the name, since new dated names appear all the time. Size and price
are the registry's where it has a row (clouds have prices of their own) and the vendor's list otherwise. Facts are the
vendor's, as of late 2026: model overview, thinking, effort and PDF pages of platform.claude.com. Where a model is
called, and what its host leaves out, stays the family's statement.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping
from dataclasses import dataclass

from plugins.claims import claims
from plugins.spec.families import Capabilities
from plugins.spec.rows import Row

SOURCE = "platform.claude.com: models overview, pricing, thinking, effort, structured outputs, PDF support"

_NAME = re.compile(
    r"claude-(?:(?P<tier>[a-z]+)-(?P<major>\d{1,2})(?:-(?P<minor>\d{1,2}))?"
    r"|(?P<old_major>\d)(?:-(?P<old_minor>\d))?-(?P<old_tier>[a-z]+))(?![\d.])"
)
_LEVELS = ("low", "medium", "high", "xhigh", "max")

#: USD per million input and output tokens (platform.claude.com, pricing): by tier and version, the newest version not
#: above the model's counts.
_PRICES: Mapping[str, tuple[tuple[tuple[int, int], tuple[float, float]], ...]] = {
    "opus": (((3, 0), (15, 75)), ((4, 5), (5, 25)), ((5, 5), (4, 20))),
    "sonnet": (((3, 0), (3, 15)), ((5, 0), (2, 10))),
    "haiku": (((3, 0), (0.25, 1.25)), ((3, 5), (0.8, 4)), ((4, 5), (1, 5)), ((5, 5), (0.1, 0.5))),
    "fable": (((5, 0), (10, 50)),),
}


@dataclass(frozen=True, slots=True)
class _Generation:
    """What a name says: ``claude-<tier>-<major>-<minor>``, or the old order. A date is no version."""

    tier: str
    version: tuple[int, int]

    @property
    def style(self) -> str:
        if self.version >= (4, 6):
            return "adaptive"
        return "budget" if self.version >= (3, 7) else "never"

    @property
    def off(self) -> str:
        if self.style != "adaptive" or self.version < (5, 0):
            return "omit"
        if self.tier in ("fable", "mythos") or (self.tier == "opus" and self.version >= (5, 5)):
            return "never"
        return "between_tools" if self.tier == "sonnet" and self.version >= (5, 5) else "disabled"


def _generation(model: str) -> _Generation | None:
    match = _NAME.search(model)
    if match is None:
        return None
    tier = match["tier"] or match["old_tier"]
    major = int(match["major"] or match["old_major"])
    minor = int(match["minor"] or match["old_minor"] or 0)
    return _Generation(tier, (major, minor))


def claude_capabilities(
    model: str, row: Row | None, *, source: str = SOURCE, stated: Mapping[str, t.Any] | None = None
) -> Capabilities:
    """What ``model`` can do. A name without a generation is taken for a current one, with no claim on size or price.

    :param model: a name with ``claude-`` in it; what stands before (a publisher, a region) says nothing.
    :param row: the registry's, of whoever serves it.
    :param source: where ``stated`` comes from, and the generation's facts.
    :param stated: what is different at this host; it wins.
    """
    generation = _generation(model)
    facts: dict[str, t.Any] = {"tools": "parallel"}
    listed: dict[str, t.Any] = {}
    otherwise: dict[str, t.Any] = {"inputs": ("text", "image", "pdf")}
    if generation is None:
        facts |= {
            "thinking": "summary",
            "thinking_control": ("none", *_LEVELS, "auto"),
            "thinking_signed": True,
            "forced_tool_with_thinking": False,
            "notes": "Not in the vendor's list this version knows; treated like a current model.",
        }
        otherwise["structured_output"] = "native"
    else:
        thinks = generation.style != "never"
        facts |= {
            "thinking": _exposed(generation),
            "thinking_control": _control(generation),
            "thinking_signed": thinks,
            "forced_tool_with_thinking": not thinks,
            "structured_output": "native" if generation.version >= (4, 5) else "none",
            "notes": _notes(generation),
        }
        listed = {
            "inputs": ("text", "image", "pdf") if generation.version >= (3, 5) else ("text", "image"),
            "context_window": 1_000_000 if generation.version >= (4, 6) else 200_000,
            "max_output": _max_output(generation),
            "price": _price(generation),
        }
    return claims(row, source=source, stated={**facts, **(stated or {})}, listed=listed, otherwise=otherwise)


def _exposed(generation: _Generation) -> t.Literal["none", "summary", "full"]:
    if generation.style == "never":
        return "none"
    return "full" if generation.version == (3, 7) else "summary"


def _control(generation: _Generation) -> tuple[str, ...]:
    if generation.style == "never":
        return ()
    if generation.style == "budget":
        # The wire sends xhigh as 32k tokens on top of the answer; max would leave no model room for one.
        most = ("xhigh",) if _max_output(generation) >= 64_000 else ()
        return ("none", "minimal", "low", "medium", "high", *most, "auto", "budget")
    # xhigh came with 4.7; the 4.6 models have max without it.
    levels = tuple(level for level in _LEVELS if level != "xhigh" or generation.version >= (4, 7))
    off = () if generation.off == "never" else ("none",)
    return (*off, *levels, "auto")


def _max_output(generation: _Generation) -> int:
    version, tier = generation.version, generation.tier
    if version >= (4, 7) or (version == (4, 6) and tier == "opus"):
        return 128_000
    if version >= (4, 0) and tier == "opus" and version < (4, 5):
        return 32_000
    if version >= (3, 7):
        return 64_000
    return 8_192 if version == (3, 5) else 4_096


def _price(generation: _Generation) -> tuple[float, float] | None:
    found = None
    for since, price in _PRICES.get(generation.tier, ()):
        if generation.version >= since:
            found = price
    return found


def _notes(generation: _Generation) -> str:
    match (generation.style, generation.off):
        case ("never", _):
            return "Does not think."
        case ("budget", _):
            return "A level is sent as a token budget; a forced tool cannot be combined with thinking."
        case (_, "never"):
            return "Always thinks; a level is sent as effort, and a tool cannot be forced."
        case (_, "between_tools"):
            return "Thinks by default; switched off, it still thinks between tools."
        case (_, "disabled"):
            return "Thinks by default; a level is sent as effort."
        case _:
            return "Thinks when asked; a level is sent as effort."


def claude_dialect(model: str) -> Mapping[str, t.Any]:
    """The switches of the Messages protocol for ``model`` (documented in ``providers/anthropic_request.py``)."""
    generation = _generation(model)
    if generation is None:  # a name of the future or an alias: ask as a current model, promise nothing
        return {"thinking": "adaptive", "thinking_off": "omit", "sampling": True}
    return {
        "thinking": generation.style,
        "thinking_off": generation.off,
        "sampling": generation.version < (4, 7),
    }
