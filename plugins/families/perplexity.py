"""``perplexity``: Sonar models, which search the web before they answer. Facts only.

The sources come with the answer. The models take no tools of ours. Those that think put it into the text, between
tags that are taken out.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from plugins.claims import claims
from plugins.spec import Capabilities, ConnectionSpec, ProviderFamily, Row
from providers.auth import BEARER

_SOURCE = "docs.perplexity.ai: Sonar models, chat completions, structured outputs, file attachments"

#: The vendor's current models; the registry's rows go back to ones long gone.
KNOWN = ("sonar", "sonar-pro", "sonar-reasoning-pro", "sonar-deep-research")


def _thinks(model: str) -> bool:
    return "reasoning" in model or "deep-research" in model


def capabilities(model: str, row: Row | None) -> Capabilities:
    """What ``model`` can do."""
    efforts = ("minimal", "low", "medium", "high") if "deep-research" in model else ()
    return claims(
        row,
        source=_SOURCE,
        stated={
            "thinking": "full" if _thinks(model) else "none",
            "thinking_control": (*efforts, "auto") if _thinks(model) else (),
            "tools": "none",
            "forced_tool_choice": False,
            "structured_output": "native",
            "inputs": ("text", "image", "pdf"),
            "notes": "Searches the web by itself and names its sources.",
        },
    )


def dialect(model: str) -> Mapping[str, t.Any]:
    """The wire's switches for ``model``."""
    if not _thinks(model):
        return {"thinking": "never"}
    style = "effort" if "deep-research" in model else "never"
    levels = {"none": None, "xhigh": "high", "max": "high"}
    return {"thinking": style, "thinks_by_default": True, "levels": levels, "inline_thinking": True}


FAMILY = ProviderFamily(
    id="perplexity",
    title="Perplexity",
    wire="openai_chat",
    auth=BEARER,
    connection=ConnectionSpec(
        default_base="https://api.perplexity.ai",
        base_vars=("PERPLEXITY_API_BASE",),
        key_vars=("PERPLEXITYAI_API_KEY", "PERPLEXITY_API_KEY"),
        version_path="",
    ),
    capabilities=capabilities,
    dialect={"include_usage": False, "pdf": "file_url"},
    registry_prefix="perplexity",
    known=KNOWN,
    model_dialect=dialect,
)
