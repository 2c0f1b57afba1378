"""``openai-compatible``: any server that speaks OpenAI's chat completions. Facts only.

Nothing is known of the models behind the address, so nothing is claimed: thinking is shown as it is
sent, levels are passed on as a wish, prices are unknown.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from plugins import embedding_models
from plugins.spec import Capabilities, ConnectionSpec, Embeddings, ProviderFamily, Row
from providers.auth import BEARER
from providers.model_lists import openai_models

_CAPABILITIES = Capabilities(
    thinking="as_sent",
    thinking_control=("none", "minimal", "low", "medium", "high", "xhigh", "max", "auto", "budget"),
    tools="parallel",
    structured_output="native",
    inputs=("text", "image", "pdf"),
    notes=(
        "Whatever the server behind the address can do; a thinking level is a wish. Thinking inside the text "
        "(<think>…</think>) is separated when STUDIO_OPENAI_COMPATIBLE_INLINE_THINKING is 1."
    ),
    source="generic family: nothing is claimed for the server",
)


def _capabilities(model: str, row: Row | None) -> Capabilities:
    return _CAPABILITIES


def _dialect(model: str) -> Mapping[str, t.Any]:
    """Proxies (litellm's, gateways) hand cache marks on to Claude."""
    return {"cache": "anthropic"} if "claude" in model.lower() else {}


FAMILY = ProviderFamily(
    id="openai-compatible",
    title="OpenAI-compatible server",
    wire="openai_chat",
    auth=BEARER,
    connection=ConnectionSpec(key_required=False),
    capabilities=_capabilities,
    dialect={"inline_thinking": False},
    model_dialect=_dialect,
    list_models=openai_models,
    list_ttl_s=60.0,
    embeddings=Embeddings(
        wire="openai_embeddings",
        source="generic family: nothing is claimed for the server",
        batch=32,
        model_dialect=embedding_models.prefixes,
    ),
)
