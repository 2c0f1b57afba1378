"""``together``: open models at Together AI. Facts only."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from plugins import embedding_models, open_models
from plugins.claims import claims
from plugins.spec import Capabilities, ConnectionSpec, Embeddings, ProviderFamily, Row
from providers.auth import BEARER
from providers.model_lists import chat_models

_SOURCE = (
    "docs.together.ai: reasoning overview, quickstarts of GLM-5.2, GLM-5.3 and Kimi K3, function calling"
)


def capabilities(model: str, row: Row | None) -> Capabilities:
    """What ``model`` can do."""
    return claims(
        row,
        source=_SOURCE,
        stated=open_models.shown(model, row, otherwise=("auto",)),
        otherwise={"tools": open_models.tools(model, row), "structured_output": "native"},
    )


def dialect(model: str) -> Mapping[str, t.Any]:
    """The wire's switches for ``model``; off is said in another member than an effort."""
    line = open_models.line(model)
    if line is None or line.thinks == "never":
        return {"thinking": "never"}
    style = "toggle_effort" if line.thinks == "switch" else "effort"
    return {"thinking": style, "thinks_by_default": True, "levels": open_models.efforts(line)}


FAMILY = ProviderFamily(
    id="together",
    title="Together AI",
    wire="openai_chat",
    auth=BEARER,
    connection=ConnectionSpec(
        default_base="https://api.together.ai/v1",
        base_vars=("TOGETHER_AI_API_BASE", "TOGETHERAI_API_BASE"),
        key_vars=("TOGETHERAI_API_KEY", "TOGETHER_API_KEY", "TOGETHER_AI_API_KEY"),
    ),
    capabilities=capabilities,
    list_models=chat_models,
    registry_prefix="together_ai",
    model_dialect=dialect,
    embeddings=Embeddings(
        wire="openai_embeddings",
        source="docs.together.ai: embeddings",
        batch=32,
        model_dialect=embedding_models.prefixes,
    ),
)
