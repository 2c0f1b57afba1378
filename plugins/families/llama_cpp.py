"""``llama.cpp``: the model that a llama.cpp server has loaded. Facts only.

Nothing is known of the model, so nothing is claimed: thinking is shown as it is sent, and a level is passed on to
its chat template as a wish. The server ignores the model's name unless it runs as a router.
"""

from __future__ import annotations

from plugins.own_servers import TEMPLATE, own_server
from plugins.spec import ConnectionSpec
from providers.model_lists import openai_models

FAMILY = own_server(
    "llama.cpp",
    "llama.cpp",
    ConnectionSpec(
        default_base="http://127.0.0.1:8080/v1",
        base_vars=("LLAMA_CPP_API_BASE", "LLAMACPP_API_BASE"),
        key_vars=("LLAMA_CPP_API_KEY", "LLAMACPP_API_KEY"),
        key_required=False,
    ),
    able="the loaded model",
    inline="STUDIO_LLAMA_CPP_INLINE_THINKING",
    source="github.com/ggml-org/llama.cpp: tools/server/README.md, docs/function-calling.md",
    list_models=openai_models,
    dialect={**TEMPLATE, "thinking": "template", "template_effort": True},
)
