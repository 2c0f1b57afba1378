"""``openai``: OpenAI's models over the Responses protocol. Facts only.

What is true of a model is read from its name (``plugins.openai_models``). With
``STUDIO_OPENAI_WIRE=openai_chat`` the older protocol is spoken, which exposes no thinking. Addresses
and variables: developers.openai.com, API reference; ``OPENAI_BASE_URL`` is what its own libraries read,
``OPENAI_ORG_ID`` and ``OPENAI_PROJECT_ID`` say whom to bill for keys of several organisations.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from plugins import openai_models
from plugins.claims import claims
from plugins.spec import Capabilities, ConnectionSpec, Embeddings, ProviderFamily, Row
from plugins.spec.families import Setting
from providers.auth import BEARER

#: Models that answer in text; what only hears, speaks, draws or searches is left out.
KNOWN = (
    "gpt-6-astra",
    "gpt-6.1-sol",
    "gpt-6.1-terra",
    "gpt-6-sol",
    "gpt-6-luna",
    "gpt-5.6",
    "gpt-5.6-sol",
    "gpt-5.6-terra",
    "gpt-5.6-luna",
    "gpt-5.5",
    "gpt-5.5-pro",
    "gpt-5.4",
    "gpt-5.4-pro",
    "gpt-5.4-mini",
    "gpt-5.4-nano",
    "gpt-5.3-codex",
    "gpt-5.2",
    "gpt-5.2-pro",
    "gpt-5.1",
    "gpt-5",
    "gpt-5-pro",
    "gpt-5-mini",
    "gpt-5-nano",
    "o3",
    "o3-pro",
    "gpt-4.1",
    "gpt-4.1-mini",
    "gpt-4o",
    "gpt-4o-mini",
    "chat-latest",
)


def capabilities(model: str, row: Row | None) -> Capabilities:
    """What ``model`` can do."""
    thinking = openai_models.thinking_of(model)
    stated = {
        **openai_models.claims_of(thinking),
        "notes": openai_models.note_of(thinking, "STUDIO_OPENAI_WIRE=openai_chat"),
    }
    return claims(row, source=openai_models.SOURCE, stated=stated, otherwise=openai_models.OTHERWISE)


def dialect(model: str) -> Mapping[str, t.Any]:
    """The wires' switches for ``model``."""
    return openai_models.dialect_of(openai_models.thinking_of(model))


FAMILY = ProviderFamily(
    id="openai",
    title="OpenAI",
    wire="openai_responses",
    other_wires=("openai_chat",),
    on_wire=openai_models.on_wire,
    auth=BEARER,
    connection=ConnectionSpec(
        idle_s=300.0,  # hidden thinking is silence
        default_base="https://api.openai.com",
        base_vars=("OPENAI_API_BASE", "OPENAI_BASE_URL"),
        key_vars=("OPENAI_API_KEY",),
        settings=(
            Setting("organization", ("OPENAI_ORG_ID", "OPENAI_ORGANIZATION"), "the organisation to bill"),
            Setting("project", ("OPENAI_PROJECT_ID",), "the project to bill"),
        ),
        headers={"OpenAI-Organization": "{organization}", "OpenAI-Project": "{project}"},
    ),
    capabilities=capabilities,
    registry_providers=("openai",),
    known=KNOWN,
    model_dialect=dialect,
    embeddings=Embeddings(
        wire="openai_embeddings",
        source="developers.openai.com: embeddings guide and reference",
        known=("text-embedding-3-small", "text-embedding-3-large", "text-embedding-ada-002"),
        dialect={"base64": True},
        registry_providers=("openai",),
    ),
)
