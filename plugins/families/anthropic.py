"""``anthropic``: Claude models at Anthropic's Messages API. Facts only; the models' are ``plugins.claude_models``."""

from __future__ import annotations

from plugins.claude_models import claude_capabilities, claude_dialect
from plugins.spec import Capabilities, ConnectionSpec, ProviderFamily, Row
from providers.auth import HeaderAuth

#: What the capability table lists; any other name is asked for as written.
KNOWN = (
    "claude-sonnet-5-5",
    "claude-sonnet-5",
    "claude-sonnet-4-6",
    "claude-sonnet-4-5",
    "claude-sonnet-4",
    "claude-mythos-5-1",
    "claude-mythos-5",
    "claude-fable-5-1",
    "claude-fable-5",
    "claude-opus-5-5",
    "claude-opus-5",
    "claude-opus-4-8",
    "claude-opus-4-7",
    "claude-opus-4-6",
    "claude-opus-4-5",
    "claude-opus-4-1",
    "claude-opus-4",
    "claude-haiku-5-5",
    "claude-haiku-4-5",
    "claude-3-7-sonnet",
    "claude-3-5-sonnet",
    "claude-3-5-haiku",
    "claude-3-opus",
    "claude-3-haiku",
)


def capabilities(model: str, row: Row | None) -> Capabilities:
    """What ``model`` can do at its own vendor: everything the models can."""
    return claude_capabilities(model, row)


FAMILY = ProviderFamily(
    id="anthropic",
    title="Anthropic",
    wire="anthropic_messages",
    auth=HeaderAuth("x-api-key"),
    connection=ConnectionSpec(
        default_base="https://api.anthropic.com",
        base_vars=("ANTHROPIC_API_BASE",),
        key_vars=("ANTHROPIC_API_KEY",),
    ),
    capabilities=capabilities,
    registry_prefix="anthropic",
    registry_providers=("anthropic",),
    known=KNOWN,
    model_dialect=claude_dialect,
)
