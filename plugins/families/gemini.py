"""``gemini``: Google's models at the Gemini API. Facts only; the models' are ``plugins.gemini_models``."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from plugins import embedding_models, gemini_models
from plugins.spec import ConnectionSpec, Embeddings, ProviderFamily
from providers.auth import HeaderAuth

#: Aliases, and the open models that this API serves, too.
_MORE = (
    "gemini-pro-latest",
    "gemini-flash-latest",
    "gemini-flash-lite-latest",
    "gemma-4-31b-it",
    "gemma-4-26b-a4b-it",
)

_TASKS = {"document": "RETRIEVAL_DOCUMENT", "query": "RETRIEVAL_QUERY"}


def _told(model: str) -> Mapping[str, t.Any]:
    """What a text is for: words before it for newer models, which refuse a task type."""
    return embedding_models.prefixes(model) or {"task_types": _TASKS}


FAMILY = ProviderFamily(
    id="gemini",
    title="Google Gemini",
    wire="gemini",
    auth=HeaderAuth("x-goog-api-key"),
    connection=ConnectionSpec(
        default_base="https://generativelanguage.googleapis.com",
        base_vars=("GEMINI_API_BASE",),
        key_vars=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        version_path="/v1beta",
    ),
    capabilities=gemini_models.gemini_capabilities,
    registry_prefix="gemini",
    known=(*gemini_models.KNOWN, *_MORE),
    model_dialect=gemini_models.gemini_dialect,
    embeddings=Embeddings(
        wire="gemini_embeddings",
        source="ai.google.dev: embeddings guide and reference",
        known=("gemini-embedding-2", "gemini-embedding-001"),
        model_dialect=_told,
    ),
)
