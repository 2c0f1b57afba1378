"""``snowflake``: the models of Snowflake Cortex. Facts only.

The account is its identifier (``org-account``). A key is a JWT or a programmatic access token, the latter also in
litellm's spelling ``pat/…``. What the models think is not handed out on this wire.
"""

from __future__ import annotations

from plugins import open_models
from plugins.claims import claims
from plugins.spec import Capabilities, ConnectionSpec, ProviderFamily, Row, Setting
from providers.auth import HeaderAuth

_SOURCE = "docs.snowflake.com: Cortex REST API, chat completions"


def capabilities(model: str, row: Row | None) -> Capabilities:
    """What ``model`` can do."""
    thinks = open_models.thinks(model, row)
    return claims(
        row,
        source=_SOURCE,
        stated={"thinking": "hidden" if thinks else "none", "thinking_control": ()},
        otherwise={
            "tools": "parallel" if "claude" in model or "openai" in model else "none",
            "structured_output": "tool",
        },
    )


FAMILY = ProviderFamily(
    id="snowflake",
    title="Snowflake Cortex",
    wire="openai_chat",
    auth=HeaderAuth("Authorization", "Bearer ", mark="pat/"),
    connection=ConnectionSpec(
        default_base="https://{account}.snowflakecomputing.com/api/v2/cortex/v1",
        base_vars=("SNOWFLAKE_API_BASE",),
        key_vars=("SNOWFLAKE_JWT", "SNOWFLAKE_PAT", "SNOWFLAKE_API_KEY"),
        settings=(
            Setting("account", ("SNOWFLAKE_ACCOUNT_ID", "SNOWFLAKE_ACCOUNT"), "the account's identifier"),
        ),
    ),
    capabilities=capabilities,
    dialect={
        "thinking": "never",
        "max_tokens_field": "max_completion_tokens",
        "parallel_tool_calls": False,
    },
    registry_prefix="snowflake",
)
