"""``alibaba``: Qwen and other models at Alibaba Cloud Model Studio (DashScope). Facts only.

Thinking is a switch with a budget of tokens; a level is sent as a budget. While it is on no tool can be forced.
The address is the international one; others are set by ``DASHSCOPE_API_BASE``.
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

_SOURCE = "alibabacloud.com/help/en/model-studio: deep thinking, OpenAI compatibility, function calling"
_LEVELS = ("minimal", "low", "medium", "high", "xhigh", "auto", "budget")
_BUDGETS = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16384, "xhigh": 32768}
#: Commercial names without a generation; they think when told to.
_COMMERCIAL = re.compile(r"qwen-(?:plus|flash|turbo)(?:-latest|-2025-0[4-9].*|-2025-1.*|-2026.*)?")
_ON_BY_DEFAULT = re.compile(r"qwen3\.[5-9]|qwen3-\d|glm|kimi|deepseek-v4")


def _line(model: str) -> open_models.Line | None:
    if _COMMERCIAL.fullmatch(model):
        return open_models.Line("switch")
    if model.startswith(("qwen3-max-preview", "qwen3-max-2026")):
        return open_models.Line("switch")
    if model == "qwen3-max":
        return open_models.Line("never")
    return open_models.line(model)


def capabilities(model: str, row: Row | None) -> Capabilities:
    """What ``model`` can do."""
    line = _line(model)
    thinks = line is not None and line.thinks != "never"
    off = ("none",) if line is not None and line.thinks == "switch" else ()
    return claims(
        row,
        source=_SOURCE,
        stated={
            "thinking": "full" if thinks else "none",
            "thinking_control": (*off, *_LEVELS) if thinks else (),
            "forced_tool_choice": line is None or line.thinks != "always",
            "forced_tool_with_thinking": not thinks,
            "notes": "A level is sent as a token budget; no tool can be forced while it thinks."
            if thinks
            else "",
        },
        otherwise={"tools": open_models.tools(model, row), "structured_output": "tool"},
    )


def dialect(model: str) -> Mapping[str, t.Any]:
    """The wire's switches for ``model``."""
    line = _line(model)
    if line is None or line.thinks == "never":
        return {"thinking": "never"}
    by_default = line.thinks == "always" or bool(_ON_BY_DEFAULT.search(model))
    return {
        "thinking": "enable",
        "budgets": _BUDGETS,
        "thinks_by_default": by_default,
        "forced_tool_with_thinking": False,
    }


FAMILY = ProviderFamily(
    id="alibaba",
    title="Alibaba Cloud Model Studio",
    wire="openai_chat",
    auth=BEARER,
    connection=ConnectionSpec(
        default_base="https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        base_vars=("DASHSCOPE_API_BASE",),
        key_vars=("DASHSCOPE_API_KEY",),
    ),
    capabilities=capabilities,
    list_models=openai_models,
    registry_prefix="dashscope",
    model_dialect=dialect,
    embeddings=Embeddings(
        wire="openai_embeddings",
        source="alibabacloud.com: Model Studio, OpenAI compatible embedding",
        known=("text-embedding-v4", "text-embedding-v3"),
        batch=10,
    ),
)
