"""``fireworks``: open models at Fireworks AI. Facts only.

A name without a path is one of the public models (``accounts/fireworks/models/…``); those ending in ``-fast``,
``-us`` or ``-spot`` are its routers.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from plugins import embedding_models, open_models
from plugins.claims import claims
from plugins.spec import Capabilities, ConnectionSpec, Embeddings, ProviderFamily, Row
from providers.auth import BEARER
from providers.model_lists import openai_models

_SOURCE = "docs.fireworks.ai: reasoning, tool calling, structured outputs"
_KNOWN_TO_ALL = ("low", "medium", "high")


def capabilities(model: str, row: Row | None) -> Capabilities:
    """What ``model`` can do."""
    return claims(
        row,
        source=_SOURCE,
        stated={
            **open_models.shown(model, row, steered=_line(model)),
            "structured_output": "tool",
        },
        otherwise={"tools": open_models.tools(model, row)},
    )


def _line(model: str) -> open_models.Line:
    """The line, with the efforts that the vendor maps for models which know none."""
    line = open_models.line(model) or open_models.Line("switch")
    return line if line.efforts else line._replace(efforts=_KNOWN_TO_ALL)


def dialect(model: str) -> Mapping[str, t.Any]:
    """The wire's switches for ``model``."""
    switches: dict[str, t.Any] = {}
    if "/" not in model:
        kind = "routers" if model.endswith(("-fast", "-us", "-spot")) else "models"
        switches["model"] = f"accounts/fireworks/{kind}/{model}"
    line = _line(model)
    if line.thinks == "never":
        return {**switches, "thinking": "never"}
    off = "none" if line.thinks == "switch" else None
    return {
        **switches,
        "thinking": "effort",
        "thinks_by_default": True,
        "levels": open_models.efforts(line, off=off),
    }


FAMILY = ProviderFamily(
    id="fireworks",
    title="Fireworks AI",
    wire="openai_chat",
    auth=BEARER,
    connection=ConnectionSpec(
        default_base="https://api.fireworks.ai/inference/v1",
        base_vars=("FIREWORKS_API_BASE", "FIREWORKS_AI_API_BASE"),
        key_vars=("FIREWORKS_AI_API_KEY", "FIREWORKS_API_KEY", "FIREWORKSAI_API_KEY", "FIREWORKS_AI_TOKEN"),
    ),
    capabilities=capabilities,
    dialect={"tool_choices": {"required": "any"}, "conversation_field": "prompt_cache_key"},
    list_models=openai_models,
    registry_prefix="fireworks_ai",
    model_dialect=dialect,
    embeddings=Embeddings(
        wire="openai_embeddings",
        source="docs.fireworks.ai: querying embedding models",
        batch=32,
        model_dialect=embedding_models.prefixes,
    ),
)
