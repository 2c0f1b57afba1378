"""``nvidia``: open models as NVIDIA NIM serves them, in its catalogue or on hardware of one's own. Facts only."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from plugins import open_models
from plugins.claims import claims
from plugins.spec import Capabilities, ConnectionSpec, Embeddings, ProviderFamily, Row
from providers.auth import BEARER
from providers.model_lists import openai_models

_SOURCE = "docs.api.nvidia.com/nim: LLM APIs; docs.nvidia.com/nim: reasoning models"


def capabilities(model: str, row: Row | None) -> Capabilities:
    """What ``model`` can do; of a name that says nothing, whatever comes is shown."""
    line = open_models.line(model)
    return claims(
        row,
        source=_SOURCE,
        stated={
            "thinking": open_models.shown_by_name(model),
            "thinking_control": open_models.control(line) or _wish(line),
        },
        otherwise={
            "tools": open_models.tools(model, row),
            "structured_output": "tool",
            "inputs": open_models.inputs(model),
        },
    )


def _wish(line: open_models.Line | None) -> tuple[str, ...]:
    return ("none", "low", "medium", "high", "auto") if line is None else ()


def dialect(model: str) -> Mapping[str, t.Any]:
    """The wire's switches for ``model``: NIM passes on what a model's chat template knows."""
    line = open_models.line(model)
    if line is None:
        return {}
    if line.thinks == "never":
        return {"thinking": "never"}
    levels = open_models.efforts(line)
    if line.thinks == "always":
        style = "effort" if line.efforts else "never"
        return {"thinking": style, "thinks_by_default": True, "levels": levels}
    return {"thinking": "template", "template_keys": (line.template_key,), "levels": levels}


FAMILY = ProviderFamily(
    id="nvidia",
    title="NVIDIA NIM",
    wire="openai_chat",
    auth=BEARER,
    connection=ConnectionSpec(
        default_base="https://integrate.api.nvidia.com/v1",
        base_vars=("NVIDIA_NIM_API_BASE",),
        key_vars=("NVIDIA_NIM_API_KEY", "NVIDIA_API_KEY"),
    ),
    capabilities=capabilities,
    list_models=openai_models,
    registry_prefix="nvidia_nim",
    model_dialect=dialect,
    embeddings=Embeddings(
        wire="openai_embeddings",
        source="docs.nvidia.com: NIM for text embeddings, API reference",
        batch=32,
        dialect={
            "purpose_field": "input_type",
            "purposes": {"document": "passage", "query": "query"},
            "body": {"truncate": "END"},
        },
    ),
)
