"""``lmstudio``: models that LM Studio serves on this machine. Facts only.

Nothing is known of what somebody loaded, so nothing is claimed: thinking is shown as it is sent, and a level is
passed on as a wish.
"""

from __future__ import annotations

from plugins.own_servers import own_server
from plugins.spec import ConnectionSpec
from providers.model_lists import chat_models

FAMILY = own_server(
    "lmstudio",
    "LM Studio",
    ConnectionSpec(
        default_base="http://127.0.0.1:1234/v1",
        base_vars=("LM_STUDIO_API_BASE",),
        key_vars=("LM_STUDIO_API_KEY",),
        key_required=False,
    ),
    able="the loaded model",
    inline="STUDIO_LMSTUDIO_INLINE_THINKING",
    source="lmstudio.ai/docs: OpenAI compatibility endpoints, tools, structured output",
    list_models=chat_models,
    dialect={"inline_thinking": False},
    forced=False,
)
