"""``deepseek``: DeepSeek's own API. Facts only.

Its current models think unless told not to, show all of it, and refuse a tool loop whose turns do not carry it.
The two old names are views of one model: ``deepseek-chat`` without thinking, ``deepseek-reasoner`` with it.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from plugins.claims import claims
from plugins.spec import Capabilities, ConnectionSpec, ProviderFamily, Row
from providers.auth import BEARER
from providers.model_lists import openai_models

_SOURCE = "api-docs.deepseek.com: thinking mode, JSON output, function calling"
_LEVELS = ("none", "minimal", "low", "medium", "high", "xhigh", "max", "auto")
#: Old names without thinking.
_PLAIN = ("deepseek-chat", "deepseek-coder", "deepseek-v3")


def capabilities(model: str, row: Row | None) -> Capabilities:
    """What ``model`` can do; a name of the future is taken for a current model."""
    stated: dict[str, t.Any] = {
        "tools": "parallel",
        "forced_tool_choice": True,
        "structured_output": "tool",
        "thinking": "full",
        "thinking_control": _LEVELS,
        "forced_tool_with_thinking": False,
        "notes": "Thinks by default; it knows low, high and max, medium and xhigh count as high. "
        "A forced tool switches thinking off.",
    }
    if model in _PLAIN:
        stated |= {"thinking": "none", "thinking_control": (), "notes": "An old name without thinking."}
    elif model in ("deepseek-reasoner", "deepseek-r1"):
        stated |= {
            "thinking_control": ("auto",),
            "forced_tool_choice": False,
            "notes": "An old name that always thinks.",
        }
    return claims(row, source=_SOURCE, stated=stated)


def dialect(model: str) -> Mapping[str, t.Any]:
    """The wire's switches for ``model``."""
    if model in _PLAIN:
        return {"thinking": "never"}
    if model in ("deepseek-reasoner", "deepseek-r1"):
        return {"thinking": "never", "thinking_required": "reasoning_content"}
    return {
        "thinking": "type_effort",
        "thinks_by_default": True,
        "forced_tool_with_thinking": False,
        "levels": {"max": "max"},
        "thinking_required": "reasoning_content",
    }


FAMILY = ProviderFamily(
    id="deepseek",
    title="DeepSeek",
    wire="openai_chat",
    other_wires=("openai_responses",),
    auth=BEARER,
    connection=ConnectionSpec(
        default_base="https://api.deepseek.com/v1",
        base_vars=("DEEPSEEK_API_BASE",),
        key_vars=("DEEPSEEK_API_KEY",),
    ),
    capabilities=capabilities,
    list_models=openai_models,
    registry_prefix="deepseek",
    registry_providers=("deepseek",),
    model_dialect=dialect,
)
