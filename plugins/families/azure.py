"""``azure``: models deployed in Microsoft Foundry and Azure OpenAI, over the v1 API. Facts only.

A model's name here is the name of its deployment. What the model can do is read from that name: a deployment named
after its model (``gpt-5-mini``, ``prod-gpt-5-mini``) is known; of any other nothing is claimed, and it is called over
chat completions, which every model of Foundry speaks. ``claude-*`` deployments are called over Anthropic's protocol
at the same resource. ``STUDIO_AZURE_WIRE=openai_chat`` calls all of them over chat completions.

The address may be the resource's own (``https://<resource>.openai.azure.com``, ``….services.ai.azure.com``) or one
of those the portal shows below it. Dated API versions and their ``/openai/deployments/…`` addresses are not spoken:
every resource has the v1 API, which needs no version. So ``AZURE_API_VERSION``, which names a dated one, is not
read; ``STUDIO_AZURE_API_VERSION`` may say ``preview``. Sources: learn.microsoft.com, API version lifecycle and
reasoning models; platform.claude.com, Claude in Microsoft Foundry; variables as litellm and Microsoft's libraries
name them.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping
from dataclasses import replace

from plugins import model_map, openai_models
from plugins.claims import claims
from plugins.claude_models import claude_capabilities, claude_dialect
from plugins.openai_models import Thinking
from plugins.spec import Capabilities, ConnectionSpec, Embeddings, ProviderFamily, Row
from plugins.spec.families import Setting
from providers.auth import HeaderAuth
from providers.oauth import ChosenAuth, ClientCredentials, GivenToken, TokenAuth
from providers.spec import Wire

SOURCE = "learn.microsoft.com: Azure OpenAI reasoning models; developers.openai.com: reasoning guide"

KNOWN = (
    "gpt-6-astra",
    "gpt-6.1-sol",
    "gpt-6.1-terra",
    "gpt-6-sol",
    "gpt-6-luna",
    "gpt-5.6-sol",
    "gpt-5.6-terra",
    "gpt-5.6-luna",
    "gpt-5.5",
    "gpt-5.4",
    "gpt-5.4-mini",
    "gpt-5.4-nano",
    "gpt-5.3-codex",
    "gpt-5.2",
    "gpt-5.1",
    "gpt-5",
    "gpt-5-mini",
    "gpt-5-nano",
    "gpt-4.1",
    "gpt-4.1-mini",
    "gpt-4o",
    "gpt-4o-mini",
    "claude-sonnet-5-5",
    "claude-sonnet-5",
    "claude-fable-5-1",
    "claude-opus-5-5",
    "claude-opus-5",
    "claude-opus-4-8",
    "claude-haiku-5-5",
)
#: Efforts that OpenAI takes and Azure does not (model registry).
_LACKS = {"gpt-6-astra": "max", "gpt-6.1-terra": "none"}
_VERSION = {"api-version": "{api_version}"}
#: What people paste behind a resource's address: the portal shows whole targets.
_TARGET = re.compile(r"/(?:openai|anthropic)(?:[/?].*)?$")


def _is_claude(model: str) -> bool:
    return "claude-" in model.lower()


def _thinking(model: str) -> Thinking | None:
    found = openai_models.thinking_of(model)
    for name, lacked in _LACKS.items():
        if found is not None and name in model.lower():
            found = replace(found, levels=tuple(level for level in found.levels if level != lacked))
    return found


def capabilities(model: str, row: Row | None) -> Capabilities:
    """What the deployment ``model`` can do, as far as its name tells."""
    if _is_claude(model):
        return claude_capabilities(model, row or model_map.lookup("azure_ai", (), model))
    thinking = _thinking(model)
    if thinking is None:
        stated = {
            **openai_models.claims_of(None),
            "notes": "The deployment's name tells no model: no thinking is asked for and none is shown.",
        }
    else:
        note = openai_models.note_of(thinking, "STUDIO_AZURE_WIRE=openai_chat")
        stated = {**openai_models.claims_of(thinking), "notes": note}
    return claims(row, source=SOURCE, stated=stated, otherwise=openai_models.OTHERWISE)


def dialect(model: str) -> Mapping[str, t.Any]:
    """The wires' switches for ``model``."""
    if _is_claude(model):
        return claude_dialect(model)
    thinking = _thinking(model)
    switches = {**openai_models.dialect_of(thinking), "query": _VERSION}
    if thinking is None:  # maybe another vendor's model, which knows no cache key
        del switches["conversation_field"]
    return switches


def wire(model: str) -> str | Wire | None:
    """Anthropic's protocol for Claude, chat completions where the name tells nothing, else the family's."""
    if _is_claude(model):
        return _claude_wire()
    return "openai_chat" if _thinking(model) is None else None


def _claude_wire() -> Wire:
    """Imported when first used, to keep it off the start path."""
    from providers.foundry_messages import WIRE

    return WIRE


def _resource(base: str) -> str:
    """The resource's own address of what was set."""
    return _TARGET.sub("", base.rstrip("/"))


def _check(credentials: Mapping[str, str], options: Mapping[str, str]) -> tuple[str, str] | None:
    """One of: a key, a token, a client of Microsoft Entra ID."""
    client = "client_secret" in credentials and {"tenant_id", "client_id"} <= set(options)
    if "api_key" in credentials or "access_token" in credentials or client:
        return None
    return (
        "Azure needs an API key; set AZURE_API_KEY in the server's environment (or AZURE_AD_TOKEN, or "
        "AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET)",
        "AZURE_API_KEY",
    )


FAMILY = ProviderFamily(
    id="azure",
    title="Azure",
    wire="openai_responses",
    other_wires=("openai_chat",),
    on_wire=openai_models.on_wire,
    model_wire=wire,
    auth=ChosenAuth(
        (("api_key",), HeaderAuth("api-key")),
        (("access_token",), GivenToken()),
        (
            ("tenant_id", "client_id", "client_secret"),
            TokenAuth(
                ClientCredentials(
                    "{authority_host}/{tenant_id}/oauth2/v2.0/token",
                    scope="https://cognitiveservices.azure.com/.default",
                )
            ),
        ),
    ),
    connection=ConnectionSpec(
        idle_s=300.0,  # hidden thinking is silence
        default_base="https://{resource}.openai.azure.com",
        base_vars=("AZURE_API_BASE", "AZURE_OPENAI_ENDPOINT"),
        key_vars=("AZURE_API_KEY", "AZURE_OPENAI_API_KEY"),
        key_required=False,
        version_path="/openai/v1",
        read_base=_resource,
        settings=(
            Setting("resource", ("AZURE_RESOURCE_NAME",), "the resource's name, instead of its address"),
            Setting("api_version", (), "the version of the v1 API, e.g. preview"),
            Setting("access_token", ("AZURE_AD_TOKEN",), "a token of Microsoft Entra ID", secret=True),
            Setting("tenant_id", ("AZURE_TENANT_ID",), "the tenant of a client of Microsoft Entra ID"),
            Setting("client_id", ("AZURE_CLIENT_ID",), "the client's id"),
            Setting("client_secret", ("AZURE_CLIENT_SECRET",), "the client's secret", secret=True),
            Setting(
                "authority_host",
                ("AZURE_AUTHORITY_HOST",),
                "where tokens are asked for",
                default="https://login.microsoftonline.com",
            ),
        ),
        check=_check,
    ),
    capabilities=capabilities,
    registry_prefix="azure",
    known=KNOWN,
    model_dialect=dialect,
    embeddings=Embeddings(
        wire="openai_embeddings",
        source="learn.microsoft.com: Azure OpenAI embeddings, v1 API; a model's name is that of its deployment",
        dialect={"base64": True, "query": _VERSION},
    ),
)
