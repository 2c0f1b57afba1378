"""``mistral``: Mistral's own API, which serves some models of others too. Facts only.

Thinking comes as parts of the content and goes back as such. The API refuses members it does not know.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping

from plugins import open_models
from plugins.claims import claims
from plugins.spec import Capabilities, ConnectionSpec, Embeddings, ProviderFamily, Row
from providers.auth import BEARER
from providers.model_lists import openai_models

_SOURCE = "docs.mistral.ai: reasoning, chat completions, function calling, document understanding"
#: Mistral's own models that think when asked; they know two efforts.
_ADJUSTABLE = re.compile(
    r"mistral-(?:small(?:-latest|-2603)?|medium(?:-latest|-2604|-3[.-]5|-3)?|large-4(?:-0)?|vibe-.*|code-agent-.*)"
    r"|devstral-(?:small-|medium-)?latest"
)


def capabilities(model: str, row: Row | None) -> Capabilities:
    """What ``model`` can do."""
    thinking, levels, notes = _thinking(model)
    return claims(
        row,
        source=_SOURCE,
        stated={"thinking": thinking, "thinking_control": levels, "notes": notes},
        otherwise={
            "tools": open_models.tools(model, row),
            "structured_output": "native",
            "inputs": ("text",),
        },
    )


def _thinking(model: str) -> tuple[str, tuple[str, ...], str]:
    if model.startswith("magistral"):
        return "full", ("auto",), "Always thinks."
    if _ADJUSTABLE.fullmatch(model):
        return "full", ("none", "high", "auto"), "Thinks when asked to, with one effort."
    if (line := _hosted(model)) is not None:
        return "full", open_models.control(line), "A model of another maker, served by Mistral."
    return "none", (), ""


def _hosted(model: str) -> open_models.Line | None:
    line = open_models.line(model) if "glm" in model or "deepseek" in model else None
    return line if line is not None and line.thinks != "never" else None


def dialect(model: str) -> Mapping[str, t.Any]:
    """The wire's switches for ``model``."""
    if _ADJUSTABLE.fullmatch(model):
        on = dict.fromkeys(("auto", "minimal", "low", "medium", "high", "xhigh", "max"), "high")
        return {"thinking": "effort", "levels": {"none": "none", **on}}
    if (line := _hosted(model)) is not None:
        off = "none" if line.thinks == "switch" else None
        return {
            "thinking": "effort",
            "thinks_by_default": True,
            "levels": open_models.efforts(line, off=off),
        }
    return {"thinking": "never"}


FAMILY = ProviderFamily(
    id="mistral",
    title="Mistral",
    wire="openai_chat",
    auth=BEARER,
    connection=ConnectionSpec(
        default_base="https://api.mistral.ai/v1",
        base_vars=("MISTRAL_API_BASE",),
        key_vars=("MISTRAL_API_KEY",),
    ),
    capabilities=capabilities,
    dialect={
        "include_usage": False,
        "seed_field": "random_seed",
        "tool_choices": {"required": "any"},
        "conversation_field": "prompt_cache_key",
        "pdf": "document_url",
        "call_ids": "alnum9",
    },
    list_models=openai_models,
    registry_prefix="mistral",
    model_dialect=dialect,
    embeddings=Embeddings(
        wire="openai_embeddings",
        source="docs.mistral.ai: embeddings",
        known=("mistral-embed", "codestral-embed", "mistral-embed-2312", "codestral-embed-2505"),
        batch=16,  # all texts of a call together have a limit
    ),
)
