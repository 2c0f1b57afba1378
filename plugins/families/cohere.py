"""``cohere``: Command models at Cohere's own chat API, version 2. Facts only.

Facts are the vendor's, as of late 2026: the model overview, reasoning, tool use and structured output pages of
docs.cohere.com and the reference of its chat endpoint. Dialect switches are those of ``cohere_chat_request``. Models
since Command A refuse ``tool_choice`` and a plan among what was said; the vendor's pages do not say so yet, who asks
it live does (github.com/crmne/ruby_llm: ``TOOL_CHOICE_MODELS`` of lib/ruby_llm/providers/cohere/capabilities.rb,
``format_assistant_message`` of lib/ruby_llm/protocols/cohere/chat.rb).
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from plugins.claims import claims
from plugins.spec import Capabilities, ConnectionSpec, Embeddings, ProviderFamily, Row
from providers.auth import BEARER

_SOURCE = "docs.cohere.com: models, reasoning, tool use, structured outputs, chat reference"
_LEVELS = ("none", "minimal", "low", "medium", "high", "xhigh", "max", "auto", "budget")

#: Context window and most output, where the model registry has no row.
_SIZES: Mapping[str, tuple[int, int]] = {
    "command-a-plus-05-2026": (128_000, 64_000),
    "command-a-reasoning-08-2025": (256_000, 32_000),
    "command-a-vision-07-2025": (128_000, 8_000),
    "command-a-translate-08-2025": (8_000, 8_000),
    "c4ai-aya-vision-32b": (16_000, 4_000),
}
_THINKS = ("command-a-plus", "command-a-reasoning", "north-")
_SEES = ("command-a-plus", "command-a-vision", "c4ai-aya-vision")
#: Models that talk and call nothing.
_TALKS = ("command-a-vision", "command-a-translate", "c4ai-aya", "tiny-aya")
#: Models that take ``tool_choice``: ``REQUIRED`` and ``NONE``, never a name.
_CHOOSES = ("command-a-03-2025", "command-r7b-12-2024")
#: Models that plan before they call, and take their plan back.
_PLANS = ("command-a-03-2025", "command-r")

#: What the capability table lists beside the registry's rows; any other name is asked for as written.
KNOWN = (
    "command-a-plus-05-2026",
    "command-a-reasoning-08-2025",
    "command-a-03-2025",
    "command-a-vision-07-2025",
    "command-a-translate-08-2025",
    "command-r7b-12-2024",
    "command-r-plus-08-2024",
    "command-r-08-2024",
    "c4ai-aya-expanse-32b",
    "c4ai-aya-vision-32b",
)


def capabilities(model: str, row: Row | None) -> Capabilities:
    """What ``model`` can do. A name nobody knows is taken for one that calls tools and may think."""
    thinks, talks = model.startswith(_THINKS), model.startswith(_TALKS)
    stated: dict[str, t.Any] = {
        "thinking": "none" if talks else "full",
        "thinking_control": _LEVELS if thinks else (),
        "tools": "none" if talks else "parallel",
        "forced_tool_choice": model.startswith(_CHOOSES),
        "structured_output": "none" if talks else "native",
        "inputs": ("text", "image") if model.startswith(_SEES) else ("text",),
        "notes": _notes(model, thinks, talks),
    }
    if model in _SIZES:
        stated["context_window"], stated["max_output"] = _SIZES[model]
    return claims(row, source=_SOURCE, stated=stated)


def _notes(model: str, thinks: bool, talks: bool) -> str:
    if talks:
        return "Takes no tools."
    if thinks:
        return "Thinks by default; a level is sent as a token budget. A response format counts in turns without tools."
    if model.startswith(_PLANS):
        return "Its plan before tool calls is shown as thinking. A response format counts in turns without tools."
    return "Not in the vendor's list this version knows; what it thinks is shown, a level is not sent."


def dialect(model: str) -> Mapping[str, t.Any]:
    """The wire's switches for ``model``."""
    return {
        "thinking": "budget" if model.startswith(_THINKS) else "never",
        "tool_choice": model.startswith(_CHOOSES),
        "tool_plan": model.startswith(_PLANS),
    }


FAMILY = ProviderFamily(
    id="cohere",
    title="Cohere",
    wire="cohere_chat",
    auth=BEARER,
    connection=ConnectionSpec(
        default_base="https://api.cohere.com",
        base_vars=("COHERE_API_BASE",),
        key_vars=("COHERE_API_KEY", "CO_API_KEY"),
        version_path="/v2",
    ),
    capabilities=capabilities,
    registry_prefix="cohere",
    registry_providers=("cohere_chat",),
    known=KNOWN,
    model_dialect=dialect,
    embeddings=Embeddings(
        wire="cohere_embeddings",
        source="docs.cohere.com: reference of v2/embed, models",
        known=(
            "embed-v5.0-pro",
            "embed-v5.0-fast",
            "embed-v4.0",
            "embed-english-v3.0",
            "embed-english-light-v3.0",
            "embed-multilingual-v3.0",
        ),
        registry_providers=("cohere",),
    ),
)
