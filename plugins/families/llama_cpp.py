"""``llama.cpp``: the model that a llama.cpp server has loaded. Facts only.

Nothing is known of the model, so nothing is claimed: thinking is shown as it is sent, and a level is passed on to
its chat template as a wish. The server ignores the model's name unless it runs as a router.
"""

from __future__ import annotations

from plugins.spec import Capabilities, ConnectionSpec, ProviderFamily, Row
from providers.auth import BEARER
from providers.model_lists import openai_models

_CAPABILITIES = Capabilities(
    thinking="as_sent",
    thinking_control=("none", "minimal", "low", "medium", "high", "xhigh", "max", "auto"),
    tools="parallel",
    structured_output="native",
    inputs=("text", "image"),
    price=(0.0, 0.0),
    notes=(
        "What the loaded model can do; a thinking level is a wish. Thinking inside the text (<think>…</think>) is "
        "separated when STUDIO_LLAMA_CPP_INLINE_THINKING is 1."
    ),
    source="github.com/ggml-org/llama.cpp: tools/server/README.md, docs/function-calling.md",
)


def capabilities(model: str, row: Row | None) -> Capabilities:
    """The same of every model."""
    return _CAPABILITIES


FAMILY = ProviderFamily(
    id="llama.cpp",
    title="llama.cpp",
    wire="openai_chat",
    auth=BEARER,
    connection=ConnectionSpec(
        default_base="http://127.0.0.1:8080/v1",
        base_vars=("LLAMA_CPP_API_BASE", "LLAMACPP_API_BASE"),
        key_vars=("LLAMA_CPP_API_KEY", "LLAMACPP_API_KEY"),
        key_required=False,
    ),
    capabilities=capabilities,
    dialect={
        "inline_thinking": False,
        "thinking": "template",
        "thinks_by_default": True,
        "template_keys": ("enable_thinking", "thinking"),
        "template_effort": True,
        "levels": {"minimal": "low", "xhigh": "high", "max": "high"},
    },
    list_models=openai_models,
    list_ttl_s=30.0,
)
