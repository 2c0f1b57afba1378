"""``openrouter``: a gateway to models of everybody. Facts only.

One object steers thinking for all of them. What comes back depends on who made the model: makers who show their
thinking, makers who summarise it, makers who only hand over an encrypted piece that has to go back.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping

from plugins import embedding_models, open_models
from plugins.claims import claims
from plugins.spec import Capabilities, ConnectionSpec, Embeddings, ProviderFamily, Row
from providers.auth import BEARER
from providers.model_lists import openai_models

_SOURCE = "openrouter.ai/docs: reasoning tokens, prompt caching, structured outputs, parameters"
_LEVELS = ("none", "minimal", "low", "medium", "high", "xhigh", "auto", "budget")

#: By the name after the gateway's prefix, tried in order: how much thinking is exposed.
_EXPOSED: tuple[tuple[str, str], ...] = (
    (r"anthropic/claude-(?:3[.-]7|.*3[.-]7)", "full"),
    (r"anthropic/claude-(?:3|instant|2)", "none"),
    (r"anthropic/", "summary"),
    (r"openai/gpt-oss", "full"),
    (r"openai/o\d", "hidden"),
    (r"openai/gpt-[5-9]", "summary"),
    (r"openai/", "none"),
    (r"google/gemini-(?:2[.-]5|[3-9])", "summary"),
    (r"google/gemini", "none"),
    (r"x-ai/grok-(?:3-mini|code)", "full"),
    (r"x-ai/grok-[4-9]", "hidden"),
)

_SEES = re.compile(
    r"anthropic/claude-(?!2|instant)|openai/(?:gpt-4o|gpt-4\.|gpt-[5-9]|o[134])|google/gem(?:ini|ma-[34])"
    r"|x-ai/grok-[4-9]|.*-vl|meta-llama/llama-4|mistralai/(?:pixtral|mistral-(?:small|medium|large))"
)


def capabilities(model: str, row: Row | None) -> Capabilities:
    """What ``model`` can do; of a name that says nothing, whatever comes is shown."""
    thinking = _exposed(model)
    return claims(
        row,
        source=_SOURCE,
        stated={
            "thinking": thinking,
            "thinking_control": () if thinking == "none" else _control(model),
            "thinking_signed": model.startswith("anthropic/") and thinking != "none",
            "forced_tool_with_thinking": not model.startswith("anthropic/"),
        },
        otherwise={
            "tools": "parallel",
            "structured_output": "native",
            "inputs": _inputs(model),
            "notes": "What reaches the model depends on who serves it behind the gateway.",
        },
    )


def _exposed(model: str) -> str:
    for pattern, thinking in _EXPOSED:
        if re.match(pattern, model):
            return thinking
    return open_models.shown_by_name(model)


def _inputs(model: str) -> tuple[str, ...]:
    """The gateway reads documents out for every model; images need one that sees."""
    return ("text", "image", "pdf") if _SEES.match(model) else ("text", "pdf")


def _control(model: str) -> tuple[str, ...]:
    line = open_models.line(model)
    always = line is not None and line.thinks == "always"
    return tuple(level for level in _LEVELS if not (always and level == "none"))


def dialect(model: str) -> Mapping[str, t.Any]:
    """The wire's switches for ``model``."""
    switches: dict[str, t.Any] = {"thinking": "reasoning" if _exposed(model) != "none" else "never"}
    if "claude" in model:
        switches["cache"] = "anthropic"
    line = open_models.line(model)
    if line is not None and line.thinks != "never":
        switches["thinks_by_default"] = True
    return switches


FAMILY = ProviderFamily(
    id="openrouter",
    title="OpenRouter",
    wire="openai_chat",
    other_wires=("openai_responses",),
    auth=BEARER,
    connection=ConnectionSpec(
        default_base="https://openrouter.ai/api/v1",
        base_vars=("OPENROUTER_API_BASE",),
        key_vars=("OPENROUTER_API_KEY", "OR_API_KEY"),
    ),
    capabilities=capabilities,
    dialect={"conversation_field": "session_id"},
    list_models=openai_models,
    registry_prefix="openrouter",
    model_dialect=dialect,
    embeddings=Embeddings(
        wire="openai_embeddings",
        source="openrouter.ai/docs: embeddings",
        batch=32,
        model_dialect=embedding_models.prefixes,
    ),
)
