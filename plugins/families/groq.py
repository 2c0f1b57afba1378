"""``groq``: open models on Groq's hardware. Facts only.

Thinking is asked to come in a member of its own: without that, some models put it into the text. The API refuses
members it does not know, so only ``reasoning`` goes back, as it came.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from plugins import open_models
from plugins.claims import claims
from plugins.spec import Capabilities, ConnectionSpec, ProviderFamily, Row
from providers.auth import BEARER
from providers.model_lists import openai_models

_SOURCE = "console.groq.com/docs: reasoning, structured outputs, tool use"


def capabilities(model: str, row: Row | None) -> Capabilities:
    """What ``model`` can do."""
    stated: dict[str, t.Any] = {"structured_output": "tool"}
    if "compound" in model:
        stated |= {
            "thinking": "full",
            "thinking_control": ("auto",),
            "tools": "none",
            "forced_tool_choice": False,
            "notes": "A system of Groq's own that searches and runs code by itself; it takes no tools.",
        }
        return claims(row, source=_SOURCE, stated=stated)
    line = _line(model)
    thinking = line is not None or (row is not None and row.supports_reasoning is True and not _plain(model))
    stated["thinking"] = "full" if thinking else "none"
    stated["thinking_control"] = (
        open_models.control(line) if line is not None else ("auto",) if thinking else ()
    )
    return claims(row, source=_SOURCE, stated=stated, otherwise={"tools": open_models.tools(model, row)})


def _line(model: str) -> open_models.Line | None:
    """The line of a model that the vendor documents as thinking; the distilled DeepSeek is retired there."""
    line = open_models.line(model)
    if line is None or line.thinks == "never" or "r1-distill" in model or "safeguard" in model:
        return None
    return line


def _plain(model: str) -> bool:
    return open_models.line(model) is not None and _line(model) is None


def dialect(model: str) -> Mapping[str, t.Any]:
    """The wire's switches for ``model``."""
    if "compound" in model:
        return {"thinking": "never"}
    line = _line(model)
    if line is None:
        return {"thinking": "never"}
    if line.efforts:
        return {"thinking": "effort", "thinks_by_default": True, "levels": open_models.efforts(line)}
    on = dict.fromkeys(("auto", "minimal", "low", "medium", "high", "xhigh", "max"), "default")
    return {
        "thinking": "effort",
        "thinks_by_default": True,
        "levels": {"none": "none", **on},
        "body": {"reasoning_format": "parsed"},
    }


FAMILY = ProviderFamily(
    id="groq",
    title="Groq",
    wire="openai_chat",
    auth=BEARER,
    connection=ConnectionSpec(
        default_base="https://api.groq.com/openai/v1",
        base_vars=("GROQ_API_BASE",),
        key_vars=("GROQ_API_KEY",),
    ),
    capabilities=capabilities,
    dialect={"max_tokens_field": "max_completion_tokens"},
    list_models=openai_models,
    registry_prefix="groq",
    registry_providers=("groq",),
    model_dialect=dialect,
)
