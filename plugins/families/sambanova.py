"""``sambanova``: open models on SambaNova Cloud. Facts only.

DeepSeek's models write their thinking into the text there, between tags that are taken out; gpt-oss has a member of
its own for it.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from plugins import open_models
from plugins.claims import claims
from plugins.spec import Capabilities, ConnectionSpec, ProviderFamily, Row
from providers.auth import BEARER
from providers.model_lists import openai_models

_SOURCE = "docs.sambanova.ai: chat completions, reasoning models, function calling and JSON mode"


def capabilities(model: str, row: Row | None) -> Capabilities:
    """What ``model`` can do."""
    return claims(
        row,
        source=_SOURCE,
        stated=open_models.shown(model, row),
        otherwise={"tools": "none", "structured_output": "tool"},
    )


def dialect(model: str) -> Mapping[str, t.Any]:
    """The wire's switches for ``model``."""
    line = open_models.line(model)
    if line is None or line.thinks == "never":
        return {"thinking": "never"}
    switches: dict[str, t.Any] = {"levels": open_models.efforts(line), "inline_thinking": not line.efforts}
    if line.thinks == "switch":
        # The vendor's own name for the switch, whatever the template's.
        return {**switches, "thinking": "template", "template_keys": ("enable_thinking",)}
    style = "effort" if line.efforts else "never"
    return {**switches, "thinking": style, "thinks_by_default": True}


FAMILY = ProviderFamily(
    id="sambanova",
    title="SambaNova Cloud",
    wire="openai_chat",
    auth=BEARER,
    connection=ConnectionSpec(
        default_base="https://api.sambanova.ai/v1",
        base_vars=("SAMBANOVA_API_BASE",),
        key_vars=("SAMBANOVA_API_KEY",),
    ),
    capabilities=capabilities,
    list_models=openai_models,
    registry_prefix="sambanova",
    model_dialect=dialect,
)
