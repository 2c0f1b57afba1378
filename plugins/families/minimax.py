"""``minimax``: MiniMax models. Facts only.

``reasoning_split`` brings thinking in members of their own, which have to go back in a tool loop; without it the
text carries tags. A piece may repeat what came before it. Neither a forced tool nor a response format is offered.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from plugins import open_models
from plugins.claims import claims
from plugins.spec import Capabilities, ConnectionSpec, ProviderFamily, Row
from providers.auth import BEARER

_SOURCE = "platform.minimax.io/docs: OpenAI-compatible API, tool use and interleaved thinking"


def capabilities(model: str, row: Row | None) -> Capabilities:
    """What ``model`` can do."""
    return claims(
        row,
        source=_SOURCE,
        stated={
            **open_models.shown(model, row),
            "forced_tool_choice": False,
            "structured_output": "tool",
        },
        otherwise={"tools": open_models.tools(model, row)},
    )


def dialect(model: str) -> Mapping[str, t.Any]:
    """The wire's switches for ``model``."""
    line = open_models.line(model)
    if line is not None and line.thinks == "switch":
        return {"thinking": "type", "thinks_by_default": True, "type_words": {"enabled": "adaptive"}}
    return {"thinking": "never"}


FAMILY = ProviderFamily(
    id="minimax",
    title="MiniMax",
    wire="openai_chat",
    auth=BEARER,
    connection=ConnectionSpec(
        default_base="https://api.minimax.io/v1",
        base_vars=("MINIMAX_API_BASE",),
        key_vars=("MINIMAX_API_KEY",),
    ),
    capabilities=capabilities,
    dialect={
        "max_tokens_field": "max_completion_tokens",
        "parallel_tool_calls": False,
        "cumulative": True,
        "body": {"reasoning_split": True},
    },
    registry_prefix="minimax",
    model_dialect=dialect,
)
