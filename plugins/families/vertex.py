"""``vertex``: Google Cloud's Vertex AI: Gemini, Claude and open models in one project. Facts only.

The publisher decides the protocol: Gemini models speak Gemini's, Claude models Anthropic's without the model in the
body (platform.claude.com: claude-on-vertex-ai), everything else chat completions, at one address for all publishers
(docs.cloud.google.com: maas/call-open-model-apis) or, for Mistral's own, at the model's.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from plugins import gemini_models, open_models
from plugins.claims import claims
from plugins.claude_models import SOURCE as CLAUDE_SOURCE
from plugins.claude_models import claude_capabilities, claude_dialect
from plugins.spec import Capabilities, ConnectionSpec, Embeddings, ProviderFamily, Row, Setting
from providers.auth import HeaderAuth
from providers.google_auth import GoogleCredentials
from providers.oauth import ChosenAuth, GivenToken, TokenAuth
from providers.token_command import TokenCommand

_PLACE = "/projects/{project}/locations/{location}"
_CLAUDE = (
    "claude-sonnet-5-5",
    "claude-sonnet-5",
    "claude-sonnet-4-6",
    "claude-sonnet-4-5",
    "claude-fable-5-1",
    "claude-fable-5",
    "claude-opus-5-5",
    "claude-opus-5",
    "claude-opus-4-8",
    "claude-opus-4-7",
    "claude-opus-4-6",
    "claude-opus-4-5",
    "claude-haiku-5-5",
    "claude-haiku-4-5",
)
_OPEN = (
    "meta/llama-4-maverick-17b-128e-instruct-maas",
    "meta/llama-4-scout-17b-16e-instruct-maas",
    "meta/llama-3.3-70b-instruct-maas",
    "deepseek-ai/deepseek-v4.1-flash-maas",
    "deepseek-ai/deepseek-v3.2-maas",
    "qwen/qwen3-next-80b-a3b-instruct-maas",
    "qwen/qwen3-coder-480b-a35b-instruct-maas",
    "openai/gpt-oss-120b-maas",
    "openai/gpt-oss-20b-maas",
    "zai-org/glm-5.2-maas",
    "moonshotai/kimi-k2-thinking-maas",
    "minimaxai/minimax-m2-maas",
    "mistral-medium-3",
    "mistral-small-2503",
    "codestral-2",
)
_MISTRAL = ("mistral-", "codestral")


def _publisher(model: str) -> t.Literal["google", "anthropic", "mistralai", "open"]:
    if model.startswith("claude-"):
        return "anthropic"
    if model.startswith(_MISTRAL):
        return "mistralai"
    return "open" if "/" in model else "google"


def model_wire(model: str) -> str | None:
    """The protocol of the model's publisher."""
    return {"anthropic": "anthropic_messages", "google": None}.get(_publisher(model), "openai_chat")


def dialect(model: str) -> Mapping[str, t.Any]:
    """The switches of the model's wire, its address among them."""
    publisher = _publisher(model)
    if publisher == "google":
        path = f"{_PLACE}/publishers/google/models/{{model}}:streamGenerateContent"
        return {**gemini_models.gemini_dialect(model), "path": path}
    if publisher == "anthropic":
        return {
            **claude_dialect(model),
            "path": f"{_PLACE}/publishers/anthropic/models/{{model}}:streamRawPredict",
            "model_in_body": False,
            "version_in_body": "vertex-2023-10-16",
        }
    if publisher == "mistralai":
        path = f"{_PLACE}/publishers/mistralai/models/{{model}}:streamRawPredict"
    else:
        path = f"{_PLACE}/endpoints/openapi/chat/completions"
    return {"path": path, "thinking": "never"}


def capabilities(model: str, row: Row | None) -> Capabilities:
    """What ``model`` can do here."""
    publisher = _publisher(model)
    if publisher == "google":
        return gemini_models.gemini_capabilities(model, row)
    if publisher == "anthropic":
        return claude_capabilities(model, row, source=f"{CLAUDE_SOURCE}; claude-on-vertex-ai")
    thinks = open_models.thinks(model, row)
    stated = {
        "thinking": "hidden" if thinks else "none",
        "thinking_control": (),
        # Images may be taken by some; nothing here says which, so none are sent.
        "inputs": ("text",),
        "notes": "Its thinking is neither asked for nor shown." if thinks else "Does not think.",
    }
    otherwise = {"tools": "parallel", "structured_output": "tool"}
    source = "docs.cloud.google.com: MaaS open models, partner models"
    return claims(row, source=source, stated=stated, otherwise=otherwise)


def _base(options: Mapping[str, str]) -> str:
    """By kind of location: the world, a geography (``us``, ``eu``), a region."""
    location = options["location"]
    if location == "global":
        return "https://aiplatform.googleapis.com"
    if "-" not in location:
        return f"https://aiplatform.{location}.rep.googleapis.com"
    return f"https://{location}-aiplatform.googleapis.com"


_KINDS = ("access_token", "token_command", "credentials", "api_key")


def _check(credentials: Mapping[str, str], options: Mapping[str, str]) -> tuple[str, str] | None:
    if any(map(credentials.get, _KINDS)):
        return None
    variable = "GOOGLE_APPLICATION_CREDENTIALS"
    return (
        f"Google Vertex AI needs credentials; set {variable} to the file of a service account's key, or "
        "STUDIO_VERTEX_TOKEN_COMMAND to a command that prints a token, in the server's environment",
        variable,
    )


FAMILY = ProviderFamily(
    id="vertex",
    title="Google Vertex AI",
    wire="gemini",
    auth=ChosenAuth(
        (("access_token",), GivenToken()),
        (("token_command",), TokenAuth(TokenCommand())),
        (("credentials",), TokenAuth(GoogleCredentials())),
        (("api_key",), HeaderAuth("x-goog-api-key")),
    ),
    connection=ConnectionSpec(
        default_base=_base,
        base_vars=("VERTEXAI_API_BASE", "VERTEX_API_BASE"),
        key_vars=("VERTEX_API_KEY",),
        key_required=False,
        settings=(
            Setting(
                "project",
                ("VERTEXAI_PROJECT", "VERTEX_PROJECT", "GOOGLE_CLOUD_PROJECT"),
                "the id of a Google Cloud project",
                required=True,
            ),
            Setting(
                "location",
                ("VERTEXAI_LOCATION", "VERTEX_LOCATION", "GOOGLE_CLOUD_LOCATION"),
                "a location: a region, a geography (us, eu) or global",
                default="global",
            ),
            Setting(
                "credentials",
                ("VERTEXAI_CREDENTIALS", "VERTEX_CREDENTIALS", "GOOGLE_APPLICATION_CREDENTIALS"),
                "a service account's key or an authorized user's login, as JSON or as the path of a file; or the "
                'word "metadata" on a machine of Google Cloud',
                secret=True,
                multiline=True,
            ),
            Setting("access_token", ("VERTEX_ACCESS_TOKEN",), "a ready access token", secret=True),
            Setting("token_command", (), "a command that prints an access token", secret=True),
        ),
        check=_check,
    ),
    capabilities=capabilities,
    model_wire=model_wire,
    registry_prefix="vertex_ai",
    registry_providers=("vertex_ai-language-models",),
    known=(*gemini_models.KNOWN, *_CLAUDE, *_OPEN),
    model_dialect=dialect,
    embeddings=Embeddings(
        wire="vertex_embeddings",
        source="docs.cloud.google.com: text embeddings API",
        known=("gemini-embedding-001", "text-embedding-005", "text-multilingual-embedding-002"),
        # One text a call for Gemini's; a limit on all texts of a call together for the others.
        batch=lambda model: 1 if model.startswith("gemini") else 32,
        dialect={"task_types": {"document": "RETRIEVAL_DOCUMENT", "query": "RETRIEVAL_QUERY"}},
        registry_providers=("vertex_ai-embedding-models",),
    ),
)
