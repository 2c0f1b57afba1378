"""``cerebras``: open models on Cerebras' hardware. Facts only."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from plugins import open_models
from plugins.claims import claims
from plugins.spec import Capabilities, ConnectionSpec, ProviderFamily, Row
from providers.auth import BEARER
from providers.model_lists import openai_models

_SOURCE = "inference-docs.cerebras.ai: reasoning, tool calling, structured outputs"


def capabilities(model: str, row: Row | None) -> Capabilities:
    """What ``model`` can do."""
    return claims(
        row,
        source=_SOURCE,
        stated={
            **open_models.shown(model, row, switch=False),
            "structured_output": "tool",
        },
        otherwise={"tools": open_models.tools(model, row)},
    )


def dialect(model: str) -> Mapping[str, t.Any]:
    """The wire's switches for ``model``; ``parsed`` keeps thinking out of the text for every line."""
    line = open_models.line(model)
    if line is None or line.thinks == "never":
        return {"thinking": "never"}
    parsed = {"reasoning_format": "parsed"}
    if not line.efforts:
        return {"thinking": "never", "body": parsed}
    levels = open_models.efforts(line)
    return {"thinking": "effort", "thinks_by_default": True, "levels": levels, "body": parsed}


FAMILY = ProviderFamily(
    id="cerebras",
    title="Cerebras",
    wire="openai_chat",
    auth=BEARER,
    connection=ConnectionSpec(
        default_base="https://api.cerebras.ai/v1",
        base_vars=("CEREBRAS_API_BASE",),
        key_vars=("CEREBRAS_API_KEY",),
    ),
    capabilities=capabilities,
    dialect={"max_tokens_field": "max_completion_tokens"},
    list_models=openai_models,
    registry_prefix="cerebras",
    model_dialect=dialect,
)
