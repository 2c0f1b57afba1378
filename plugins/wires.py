"""The wires that Studio has, by the names that families give them.

Law of this room: a wire's module is imported when a model is first resolved to it, to keep it off the start path.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from providers.spec import EmbeddingWire, Wire

#: Built-in wires by name and module.
WIRES: Mapping[str, str] = {
    "anthropic_messages": "providers.anthropic_messages",
    "bedrock_converse": "providers.bedrock_converse",
    "bedrock_invoke": "providers.bedrock_invoke",
    "cohere_chat": "providers.cohere_chat",
    "gemini": "providers.gemini",
    "litellm_bridge": "providers.litellm_bridge",
    "ollama_chat": "providers.ollama_chat",
    "openai_chat": "providers.openai_chat",
    "openai_responses": "providers.openai_responses",
    "watsonx_chat": "providers.watsonx_chat",
}

#: Built-in embedding wires by name and module.
EMBEDDING_WIRES: Mapping[str, str] = {
    "bedrock_embeddings": "providers.bedrock_embeddings",
    "cohere_embeddings": "providers.cohere_embeddings",
    "gemini_embeddings": "providers.gemini_embeddings",
    "ollama_embeddings": "providers.ollama_embeddings",
    "openai_embeddings": "providers.openai_embeddings",
    "vertex_embeddings": "providers.vertex_embeddings",
}


def load_wire(wire: str | Wire) -> Wire:
    """The wire object behind a family's ``wire``."""
    if not isinstance(wire, str):
        return wire
    made: Wire = importlib.import_module(WIRES[wire]).WIRE
    return made


def load_embedding_wire(wire: str | EmbeddingWire) -> EmbeddingWire:
    """The wire object behind a family's ``embeddings.wire``."""
    if not isinstance(wire, str):
        return wire
    made: EmbeddingWire = importlib.import_module(EMBEDDING_WIRES[wire]).WIRE
    return made


def name_of(wire: str | Wire | EmbeddingWire) -> str:
    """The name by which it is told."""
    return wire if isinstance(wire, str) else str(getattr(wire, "name", type(wire).__name__))
