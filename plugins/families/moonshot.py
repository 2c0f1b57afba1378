"""``moonshot``: Kimi models at Moonshot AI. Facts only.

A thinking Kimi wants its thinking back with every turn that called a tool. Its sampling is fixed. K3 always thinks
and is steered by an effort; K2.6 and K2.5 have a switch; K2.7 Code has neither.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from plugins import open_models
from plugins.claims import claims
from plugins.spec import Capabilities, ConnectionSpec, ProviderFamily, Row
from providers.auth import BEARER
from providers.model_lists import openai_models

_SOURCE = "platform.kimi.ai/docs: thinking models, thinking effort, models overview, tool use"


def capabilities(model: str, row: Row | None) -> Capabilities:
    """What ``model`` can do."""
    line = open_models.line(model)
    thinks = open_models.thinks(model, row)
    notes = "It keeps its own temperature; a forced tool needs thinking off." if thinks else ""
    return claims(
        row,
        source=_SOURCE,
        stated={
            **open_models.shown(model, row, otherwise=("auto",)),
            "forced_tool_choice": line is not None and line.thinks != "always",
            "forced_tool_with_thinking": not thinks,
            "notes": notes,
        },
        otherwise={"tools": open_models.tools(model, row), "structured_output": "native"},
    )


def dialect(model: str) -> Mapping[str, t.Any]:
    """The wire's switches for ``model``."""
    line = open_models.line(model)
    if line is None or line.thinks == "never":
        return {"thinking": "never"}
    switches: dict[str, t.Any] = {
        "thinks_by_default": True,
        "forced_tool_with_thinking": False,
        "thinking_required": "reasoning_content",
        "sampling": False,
    }
    if line.thinks == "switch":
        return {**switches, "thinking": "type"}
    # What always thinks also keeps the thinking of earlier user turns.
    switches["replay_thinking"] = "always"
    if line.efforts:
        return {**switches, "thinking": "effort", "levels": open_models.efforts(line)}
    return {**switches, "thinking": "never"}


FAMILY = ProviderFamily(
    id="moonshot",
    title="Moonshot AI",
    wire="openai_chat",
    auth=BEARER,
    connection=ConnectionSpec(
        default_base="https://api.moonshot.ai/v1",
        base_vars=("MOONSHOT_API_BASE",),
        key_vars=("MOONSHOT_API_KEY", "KIMI_API_KEY"),
    ),
    capabilities=capabilities,
    dialect={"max_tokens_field": "max_completion_tokens", "conversation_field": "prompt_cache_key"},
    list_models=openai_models,
    registry_prefix="moonshot",
    model_dialect=dialect,
)
