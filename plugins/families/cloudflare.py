"""``cloudflare``: open models on Cloudflare Workers AI. Facts only.

A model's name is its whole path, e.g. ``@cf/openai/gpt-oss-120b``. JSON mode does not stream there, so a response
format is told in the prompt.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from plugins import embedding_models, open_models
from plugins.claims import claims
from plugins.spec import Capabilities, ConnectionSpec, Embeddings, ProviderFamily, Row, Setting
from providers.auth import BEARER

_SOURCE = (
    "developers.cloudflare.com/workers-ai: OpenAI-compatible endpoints, JSON mode, function calling, models"
)


def capabilities(model: str, row: Row | None) -> Capabilities:
    """What ``model`` can do."""
    return claims(
        row,
        source=_SOURCE,
        stated={
            **open_models.shown(model, row),
            "structured_output": "tool",
        },
        otherwise={"tools": "none"},
    )


def dialect(model: str) -> Mapping[str, t.Any]:
    """The wire's switches for ``model``; the two distilled ones of old write their thinking into the text."""
    line = open_models.line(model)
    if line is None or line.thinks == "never":
        return {"thinking": "never"}
    levels = open_models.efforts(line)
    if line.thinks == "switch":
        keys = (line.template_key,)
        return {
            "thinking": "template",
            "thinks_by_default": True,
            "template_keys": keys,
            "levels": levels,
        }
    inline = "distill" in model or "qwq" in model
    return {
        "thinking": "effort" if line.efforts else "never",
        "thinks_by_default": True,
        "levels": levels,
        "inline_thinking": "implicit" if inline else False,
    }


FAMILY = ProviderFamily(
    id="cloudflare",
    title="Cloudflare Workers AI",
    wire="openai_chat",
    auth=BEARER,
    connection=ConnectionSpec(
        default_base="https://api.cloudflare.com/client/v4/accounts/{account_id}/ai/v1",
        base_vars=("CLOUDFLARE_API_BASE",),
        key_vars=("CLOUDFLARE_API_KEY", "CLOUDFLARE_API_TOKEN"),
        settings=(Setting("account_id", ("CLOUDFLARE_ACCOUNT_ID",), "the account's id"),),
    ),
    capabilities=capabilities,
    registry_prefix="cloudflare",
    model_dialect=dialect,
    embeddings=Embeddings(
        wire="openai_embeddings",
        source="developers.cloudflare.com: Workers AI, OpenAI compatible endpoints",
        model_dialect=embedding_models.prefixes,
    ),
)
