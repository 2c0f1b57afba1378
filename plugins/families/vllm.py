"""``vllm``: models on a vLLM or SGLang server of one's own. Facts only.

Nothing is known of what the server was started with, so nothing is claimed: thinking is shown as it is sent, and a
level is passed on as a wish, to the chat template and as an effort. A server started without a reasoning parser
leaves thinking in the text; the switch below takes it out.
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
        "What the served model and the server's parsers can do; a thinking level is a wish. Thinking inside the text "
        "(<think>…</think>) is separated when STUDIO_VLLM_INLINE_THINKING is 1."
    ),
    source="docs.vllm.ai: OpenAI-compatible server, reasoning outputs, tool calling, structured outputs",
)


def capabilities(model: str, row: Row | None) -> Capabilities:
    """The same of every model."""
    return _CAPABILITIES


FAMILY = ProviderFamily(
    id="vllm",
    title="vLLM",
    wire="openai_chat",
    auth=BEARER,
    connection=ConnectionSpec(
        default_base="http://127.0.0.1:8000/v1",
        base_vars=("HOSTED_VLLM_API_BASE", "VLLM_API_BASE"),
        key_vars=("HOSTED_VLLM_API_KEY", "VLLM_API_KEY"),
        key_required=False,
    ),
    capabilities=capabilities,
    dialect={
        "inline_thinking": False,
        "thinking": "template_and_effort",
        "thinks_by_default": True,
        "template_keys": ("enable_thinking", "thinking"),
        "levels": {"minimal": "low", "xhigh": "high", "max": "high"},
    },
    list_models=openai_models,
    list_ttl_s=30.0,
)
