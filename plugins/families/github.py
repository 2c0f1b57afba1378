"""``github``: GitHub Models. Facts only.

GitHub retired the service on 30 July 2026. The family stays for workflows that name it and for proxies that keep its
address alive; set ``GITHUB_API_BASE`` for those.
"""

from __future__ import annotations

from plugins import open_models
from plugins.claims import claims
from plugins.spec import Capabilities, ConnectionSpec, Embeddings, ProviderFamily, Row
from providers.auth import BEARER

_SOURCE = "docs.github.com: REST API for models inference (retired 2026-07-30)"


def capabilities(model: str, row: Row | None) -> Capabilities:
    """What ``model`` could do; OpenAI's there kept their thinking to themselves."""
    hidden = model.startswith(("openai/o", "openai/gpt-5")) or open_models.thinks(model, row)
    return claims(
        row,
        source=_SOURCE,
        stated={
            "thinking": "hidden" if hidden else "none",
            "thinking_control": (),
            "notes": "GitHub retired this service on 30 July 2026; it answers with an error.",
        },
        otherwise={"tools": open_models.tools(model, row), "structured_output": "tool"},
    )


FAMILY = ProviderFamily(
    id="github",
    title="GitHub Models",
    wire="openai_chat",
    auth=BEARER,
    connection=ConnectionSpec(
        default_base="https://models.github.ai/inference",
        base_vars=("GITHUB_API_BASE",),
        key_vars=("GITHUB_API_KEY", "GITHUB_TOKEN"),
        version_path="",
        headers={"X-GitHub-Api-Version": "2022-11-28"},
    ),
    capabilities=capabilities,
    dialect={"thinking": "never"},
    registry_prefix="github",
    embeddings=Embeddings(
        wire="openai_embeddings",
        source="docs.github.com: REST API endpoints for models embeddings",
        known=("openai/text-embedding-3-small", "openai/text-embedding-3-large"),
    ),
)
