"""``databricks``: the foundation models and serving endpoints of a Databricks workspace. Facts only.

``DATABRICKS_HOST`` is the workspace, ``DATABRICKS_API_BASE`` the same with ``/serving-endpoints``. A model is an
endpoint's name; a token or a service principal's OAuth secret opens it. Claude shows its thinking as parts of the
content and wants none of it back.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from plugins import embedding_models, open_models
from plugins.claims import claims
from plugins.spec import Capabilities, ConnectionSpec, Embeddings, ProviderFamily, Row, Setting
from providers.auth import BEARER
from providers.model_lists import databricks_endpoints
from providers.oauth import ChosenAuth, ClientCredentials, TokenAuth

_SOURCE = "docs.databricks.com: foundation model APIs, query reasoning models, function calling"
_BUDGETS = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16384, "auto": 8192}


def _claude_thinks(model: str) -> bool:
    return "claude" in model and "claude-3-5" not in model and "claude-3-haiku" not in model


def capabilities(model: str, row: Row | None) -> Capabilities:
    """What ``model`` can do."""
    stated: dict[str, t.Any] = {"thinking": "none", "thinking_control": ()}
    if _claude_thinks(model):
        stated = {
            "thinking": "full" if "3-7" in model else "summary",
            "thinking_control": ("none", *_BUDGETS, "budget"),
            "forced_tool_with_thinking": False,
            "notes": "A level is sent as a token budget.",
        }
    elif row is not None and row.supports_reasoning is True and "gpt-oss" not in model:
        stated["thinking"] = "hidden"
    elif "gpt-oss" in model:
        stated = {"thinking": "full", "thinking_control": open_models.control(open_models.line(model))}
    return claims(
        row,
        source=_SOURCE,
        stated=stated,
        otherwise={"tools": open_models.tools(model, row), "structured_output": "native"},
    )


def dialect(model: str) -> Mapping[str, t.Any]:
    """The wire's switches for ``model``."""
    if _claude_thinks(model):
        return {"thinking": "anthropic", "budgets": _BUDGETS}
    line = open_models.line(model)
    if line is not None and line.efforts and "gpt-oss" in model:
        return {"thinking": "effort", "thinks_by_default": True, "levels": open_models.efforts(line)}
    return {"thinking": "never"}


def _credentials(credentials: Mapping[str, str], options: Mapping[str, str]) -> tuple[str, str] | None:
    if credentials.get("api_key"):
        return None
    if credentials.get("client_id") and credentials.get("client_secret"):
        if options.get("host"):
            return None
        return (
            "Databricks needs its workspace's address for OAuth; set DATABRICKS_HOST in the server's environment",
            "DATABRICKS_HOST",
        )
    return (
        "Databricks needs a token; set DATABRICKS_API_KEY, or DATABRICKS_CLIENT_ID and DATABRICKS_CLIENT_SECRET, "
        "in the server's environment",
        "DATABRICKS_API_KEY",
    )


FAMILY = ProviderFamily(
    id="databricks",
    title="Databricks",
    wire="openai_chat",
    auth=ChosenAuth(
        (("api_key",), BEARER),
        (
            ("client_id", "client_secret"),
            TokenAuth(ClientCredentials("{host}/oidc/v1/token", scope="all-apis", basic=True)),
        ),
    ),
    connection=ConnectionSpec(
        default_base="{host}/serving-endpoints",
        base_vars=("DATABRICKS_API_BASE",),
        key_vars=("DATABRICKS_API_KEY", "DATABRICKS_TOKEN"),
        version_path="",
        settings=(
            Setting("host", ("DATABRICKS_HOST",), "the workspace's address, https://… without a path"),
            Setting("client_id", ("DATABRICKS_CLIENT_ID",), "a service principal's id", secret=True),
            Setting("client_secret", ("DATABRICKS_CLIENT_SECRET",), "its OAuth secret", secret=True),
        ),
        key_required=False,
        check=_credentials,
    ),
    capabilities=capabilities,
    dialect={"split_calls": True, "replay_thinking": "never"},
    list_models=databricks_endpoints,
    registry_prefix="databricks",
    model_dialect=dialect,
    embeddings=Embeddings(
        wire="openai_embeddings",
        source="docs.databricks.com: query an embedding model",
        model_dialect=embedding_models.prefixes,
    ),
)
