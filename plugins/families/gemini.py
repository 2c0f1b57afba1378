"""``gemini``: Google's models at the Gemini API. Facts only; the models' are ``plugins.gemini_models``."""

from __future__ import annotations

from plugins import gemini_models
from plugins.spec import ConnectionSpec, ProviderFamily
from providers.auth import HeaderAuth

#: Aliases, and the open models that this API serves, too.
_MORE = (
    "gemini-pro-latest",
    "gemini-flash-latest",
    "gemini-flash-lite-latest",
    "gemma-4-31b-it",
    "gemma-4-26b-a4b-it",
)

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
)
