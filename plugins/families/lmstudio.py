"""``lmstudio``: models that LM Studio serves on this machine. Facts only.

Nothing is known of what somebody loaded, so nothing is claimed: thinking is shown as it is sent, and a level is
passed on as a wish.
"""

from __future__ import annotations

from plugins.spec import Capabilities, ConnectionSpec, ProviderFamily, Row
from providers.auth import BEARER
from providers.model_lists import chat_models

_CAPABILITIES = Capabilities(
    thinking="as_sent",
    thinking_control=("none", "minimal", "low", "medium", "high", "xhigh", "max", "auto"),
    tools="parallel",
    forced_tool_choice=False,
    structured_output="native",
    inputs=("text", "image"),
    price=(0.0, 0.0),
    notes=(
        "What the loaded model can do; a thinking level is a wish. Thinking inside the text (<think>…</think>) is "
        "separated when STUDIO_LMSTUDIO_INLINE_THINKING is 1."
    ),
    source="lmstudio.ai/docs: OpenAI compatibility endpoints, tools, structured output",
)


def capabilities(model: str, row: Row | None) -> Capabilities:
    """The same of every model."""
    return _CAPABILITIES


FAMILY = ProviderFamily(
    id="lmstudio",
    title="LM Studio",
    wire="openai_chat",
    auth=BEARER,
    connection=ConnectionSpec(
        default_base="http://127.0.0.1:1234/v1",
        base_vars=("LM_STUDIO_API_BASE",),
        key_vars=("LM_STUDIO_API_KEY",),
        key_required=False,
    ),
    capabilities=capabilities,
    dialect={"inline_thinking": False},
    list_models=chat_models,
    list_ttl_s=30.0,
)
