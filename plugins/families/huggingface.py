"""``huggingface``: the router of Hugging Face's inference providers. Facts only.

A model's name may end in ``:<provider>``, ``:fastest`` or ``:cheapest``. What a model shows of its thinking depends
on who serves it, so of names that say nothing whatever comes is shown.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from plugins import open_models
from plugins.claims import claims
from plugins.spec import Capabilities, ConnectionSpec, ProviderFamily, Row
from providers.auth import BEARER
from providers.model_lists import openai_models

_SOURCE = "huggingface.co/docs/inference-providers: chat completion, function calling, structured output"


def capabilities(model: str, row: Row | None) -> Capabilities:
    """What ``model`` can do."""
    line = open_models.line(model)
    thinking = open_models.shown_by_name(model)
    efforts = line.efforts if line is not None else ("low", "medium", "high")
    return claims(
        row,
        source=_SOURCE,
        stated={"thinking": thinking, "thinking_control": () if thinking == "none" else (*efforts, "auto")},
        otherwise={
            "inputs": open_models.inputs(model),
            "tools": open_models.tools(model, row),
            "structured_output": "tool",
            "notes": "Served by one of many providers, chosen by the router or named behind a colon; "
            "of a name that says nothing, an image is passed on as a wish.",
        },
    )


def dialect(model: str) -> Mapping[str, t.Any]:
    """The wire's switches for ``model``."""
    line = open_models.line(model)
    if line is None:
        return {}
    if line.thinks == "never" or not line.efforts:
        return {"thinking": "never"}
    return {"thinking": "effort", "thinks_by_default": True, "levels": open_models.efforts(line)}


FAMILY = ProviderFamily(
    id="huggingface",
    title="Hugging Face",
    wire="openai_chat",
    auth=BEARER,
    connection=ConnectionSpec(
        default_base="https://router.huggingface.co/v1",
        base_vars=("HF_API_BASE", "HUGGINGFACE_API_BASE"),
        key_vars=("HUGGINGFACE_API_KEY", "HF_TOKEN"),
    ),
    capabilities=capabilities,
    list_models=openai_models,
    registry_prefix="huggingface",
    model_dialect=dialect,
)
