"""``vllm``: models on a vLLM or SGLang server of one's own. Facts only.

Nothing is known of what the server was started with, so nothing is claimed: thinking is shown as it is sent, and a
level is passed on as a wish, to the chat template and as an effort. A server started without a reasoning parser
leaves thinking in the text; the switch below takes it out.

No address is taken for granted: vLLM's own default port, 8000, is also Studio's.
"""

from __future__ import annotations

from plugins.own_servers import TEMPLATE, own_server
from plugins.spec import ConnectionSpec
from providers.model_lists import openai_models

FAMILY = own_server(
    "vllm",
    "vLLM",
    ConnectionSpec(
        base_vars=("HOSTED_VLLM_API_BASE", "VLLM_API_BASE"),
        key_vars=("HOSTED_VLLM_API_KEY", "VLLM_API_KEY"),
        key_required=False,
    ),
    able="the served model and the server's parsers",
    inline="STUDIO_VLLM_INLINE_THINKING",
    source="docs.vllm.ai: OpenAI-compatible server, reasoning outputs, tool calling, structured outputs",
    list_models=openai_models,
    dialect={**TEMPLATE, "thinking": "template_and_effort"},
)
