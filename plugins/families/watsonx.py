"""``watsonx``: foundation models and deployments of IBM's watsonx.ai. Facts only.

Facts are the vendor's, as of late 2026: the watsonx.ai API reference (text chat stream, foundation model specs) and
its pages on chat and tool calling. Sizes, prices, tools and inputs are the model registry's. On-premises
installations that take a Zen key are reached as ``litellm/watsonx/<model>``.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from plugins.claims import claims
from plugins.spec import Capabilities, ConnectionSpec, ProviderFamily, Row, Setting
from providers.ibm_auth import IbmIamAuth
from providers.oauth import ChosenAuth, GivenToken

_SOURCE = "cloud.ibm.com/apidocs/watsonx-ai: text chat stream"
#: Granite models that think when their template is told to.
_GRANITE = ("ibm/granite-3-2", "ibm/granite-3-3")


def capabilities(model: str, row: Row | None) -> Capabilities:
    """What ``model`` can do; a deployment or an unknown model is taken for one that calls tools."""
    stated: dict[str, t.Any] = {"thinking": "none", "notes": "Does not think."}
    if model.startswith("openai/gpt-oss"):
        # The registry says that it calls no tools; IBM's page on tool calling says that it does.
        stated = {"thinking": "full", "thinking_control": ("low", "medium", "high"), "tools": "parallel"}
        stated["notes"] = "Always thinks, at a level."
    elif model.startswith(_GRANITE) and "vision" not in model and "guardian" not in model:
        stated = {"thinking": "full", "thinking_control": ("none", "medium"), "notes": "Thinks when asked."}
    elif row is None:
        stated = {"thinking": "full", "notes": "Not in the model registry; what it thinks is shown."}
    return claims(
        row,
        source=_SOURCE,
        stated=stated,
        otherwise={"tools": "parallel", "structured_output": "native"},
    )


def dialect(model: str) -> Mapping[str, t.Any]:
    """The wire's switches for ``model``."""
    if model.startswith("openai/gpt-oss"):
        return {"thinking": "effort", "thinks_by_default": True}
    if model.startswith(_GRANITE):
        return {"thinking": "template", "template_keys": ("thinking",)}
    return {"thinking": "never"}


def _check(credentials: Mapping[str, str], options: Mapping[str, str]) -> tuple[str, str] | None:
    if not credentials.get("api_key") and not credentials.get("access_token"):
        return (
            "IBM watsonx.ai needs an API key; set WATSONX_API_KEY in the server's environment",
            "WATSONX_API_KEY",
        )
    if not options.get("project_id") and not options.get("space_id"):
        return (
            "IBM watsonx.ai needs the project or the space that is billed; set WATSONX_PROJECT_ID or "
            "WATSONX_SPACE_ID in the server's environment",
            "WATSONX_PROJECT_ID",
        )
    return None


FAMILY = ProviderFamily(
    id="watsonx",
    title="IBM watsonx.ai",
    wire="watsonx_chat",
    auth=ChosenAuth((("access_token",), GivenToken()), (("api_key",), IbmIamAuth())),
    connection=ConnectionSpec(
        default_base="https://{region}.ml.cloud.ibm.com",
        base_vars=("WATSONX_API_BASE", "WATSONX_URL", "WX_URL"),
        key_vars=("WATSONX_API_KEY", "WATSONX_APIKEY", "WX_API_KEY"),
        key_required=False,
        version_path="/ml/v1",
        settings=(
            Setting("region", ("WATSONX_REGION", "WX_REGION"), "the region", default="us-south"),
            Setting("project_id", ("WATSONX_PROJECT_ID", "WX_PROJECT_ID"), "the project that is billed"),
            Setting(
                "space_id",
                ("WATSONX_SPACE_ID", "WATSONX_DEPLOYMENT_SPACE_ID", "WX_SPACE_ID"),
                "the deployment space that is billed",
            ),
            Setting("api_version", ("WATSONX_API_VERSION",), "the dated version of the interface"),
            Setting("iam_url", ("WATSONX_IAM_URL",), "the endpoint that gives tokens for keys"),
            Setting("access_token", ("WATSONX_TOKEN",), "a ready access token", secret=True),
        ),
        check=_check,
    ),
    capabilities=capabilities,
    model_dialect=dialect,
    registry_prefix="watsonx",
    registry_providers=("watsonx",),
)
