"""``zai``: GLM models at Z.ai. Facts only.

From 4.5 on they think, also between tools, and want that back in a tool loop. 5.2 takes an effort beside the
switch; 5.3 cannot be switched off.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from plugins import open_models
from plugins.claims import claims
from plugins.spec import Capabilities, ConnectionSpec, ProviderFamily, Row
from providers.auth import BEARER
from providers.model_lists import openai_models

_SOURCE = "docs.z.ai: thinking mode, chat completion, function calling, structured output"


def capabilities(model: str, row: Row | None) -> Capabilities:
    """What ``model`` can do."""
    return claims(
        row,
        source=_SOURCE,
        stated={
            **open_models.shown(model, row),
            "forced_tool_choice": False,
        },
        otherwise={"tools": open_models.tools(model, row), "structured_output": "tool"},
    )


def dialect(model: str) -> Mapping[str, t.Any]:
    """The wire's switches for ``model``."""
    line = open_models.line(model)
    if line is None or line.thinks == "never":
        return {"thinking": "never"}
    by_switch = "type_effort" if line.efforts else "type"
    style = "effort" if line.thinks == "always" else by_switch
    return {"thinking": style, "thinks_by_default": True, "levels": open_models.efforts(line)}


FAMILY = ProviderFamily(
    id="zai",
    title="Z.ai",
    wire="openai_chat",
    auth=BEARER,
    connection=ConnectionSpec(
        default_base="https://api.z.ai/api/paas/v4",
        base_vars=("ZAI_API_BASE",),
        key_vars=("ZAI_API_KEY",),
    ),
    capabilities=capabilities,
    list_models=openai_models,
    registry_prefix="zai",
    registry_providers=("zai",),
    model_dialect=dialect,
)
