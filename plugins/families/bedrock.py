"""``bedrock``: Amazon Bedrock, which serves the models of many vendors by one protocol. Facts only.

A model id names its vendor (``anthropic.claude-…``), perhaps behind the geography of an inference profile
(``us.``, ``eu.``, ``global.``), or is an ARN with such an id at its end. What is claimed goes by vendor:

* Claude thinks as its generation does (``plugins.claude_models``), through ``additionalModelRequestFields``.
* Nova 2 thinks when asked and withholds it; Nova 1 writes what it plans into its answer, which is no thinking of ours.
* gpt-oss always thinks and streams it (recorded), DeepSeek R1 too (its model card).
* Of others nothing is invented: their thinking is neither asked for nor shown.

Sources: Amazon Bedrock user guide (Converse: supported models and features; structured outputs; prompt caching;
adaptive thinking), Amazon Nova 2 user guide (reasoning capabilities, extended thinking), and litellm's own map and
transformation of Converse requests for what no page says: efforts, and who takes no stop sequences.
``STUDIO_BEDROCK_WIRE=bedrock_invoke`` is for Claude models only: it carries Anthropic's own protocol.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping

from plugins import open_models
from plugins.claims import claims
from plugins.claude_models import SOURCE as CLAUDE_SOURCE
from plugins.claude_models import claude_capabilities, claude_dialect
from plugins.spec import Capabilities, ConnectionSpec, Embeddings, ProviderFamily, Row, Setting
from providers.auth import BEARER
from providers.aws_auth import ChainAuth, SigV4Auth
from providers.oauth import ChosenAuth

SOURCE = "docs.aws.amazon.com: Bedrock user guide, Converse API"
_NOVA_SOURCE = "docs.aws.amazon.com: Nova 2 user guide, reasoning capabilities"

#: Where a model's inference profiles run: one id for each. ``-``: the id without a geography.
_WIDE = "us eu global apac"
_KNOWN: Mapping[str, tuple[str, ...]] = {
    f"{_WIDE} au jp us-gov": (
        "anthropic.claude-haiku-5-5",
        "anthropic.claude-opus-4-8",
        "anthropic.claude-opus-5",
        "anthropic.claude-opus-5-5",
        "anthropic.claude-sonnet-5",
        "anthropic.claude-sonnet-5-5",
    ),
    f"{_WIDE} au jp": (
        "anthropic.claude-haiku-4-5-20251001-v1:0",
        "anthropic.claude-opus-4-7",
        "anthropic.claude-sonnet-4-6",
    ),
    f"{_WIDE} au": ("anthropic.claude-fable-5",),
    f"{_WIDE} jp": ("amazon.nova-2-lite-v1:0",),
    _WIDE: ("anthropic.claude-sonnet-4-20250514-v1:0",),
    "us eu global au jp us-gov": ("anthropic.claude-sonnet-4-5-20250929-v1:0",),
    "us eu global au": ("anthropic.claude-opus-4-6-v1",),
    "us eu global us-gov": ("anthropic.claude-fable-5-1",),
    "us eu global": ("anthropic.claude-opus-4-5-20251101-v1:0",),
    "us eu apac": (
        "amazon.nova-2-pro-preview-20251202-v1:0",
        "amazon.nova-lite-v1:0",
        "amazon.nova-micro-v1:0",
        "amazon.nova-pro-v1:0",
    ),
    "- us eu": (
        "anthropic.claude-3-5-sonnet-20240620-v1:0",
        "anthropic.claude-3-7-sonnet-20250219-v1:0",
        "anthropic.claude-opus-4-1-20250805-v1:0",
        "deepseek.v3.2",
        "mistral.pixtral-large-2502-v1:0",
    ),
    "us global us-gov": ("xai.grok-4.6", "xai.grok-4.7"),
    "us global": (
        "moonshotai.kimi-k3",
        "moonshotai.kimi-k3.1",
        "openai.gpt-5.5",
        "openai.gpt-5.6-luna",
        "openai.gpt-5.6-sol",
        "openai.gpt-6-luna",
        "openai.gpt-6-sol",
        "openai.gpt-6.1-sol",
        "openai.gpt-6.1-terra",
        "zai.glm-5.3",
    ),
    "us": (
        "deepseek.r1-v1:0",
        "meta.llama3-3-70b-instruct-v1:0",
        "meta.llama4-maverick-17b-instruct-v1:0",
        "meta.llama4-scout-17b-instruct-v1:0",
        "writer.palmyra-x5-v1:0",
    ),
    "-": (
        "ai21.jamba-1-5-large-v1:0",
        "amazon.nova-premier-v1:0",
        "deepseek.v3-v1:0",
        "google.gemma-3-27b-it",
        "minimax.minimax-m2.5",
        "mistral.devstral-2-123b",
        "mistral.magistral-small-2509",
        "mistral.ministral-3-8b-instruct",
        "mistral.mistral-large-3-675b-instruct",
        "moonshot.kimi-k2-thinking",
        "moonshotai.kimi-k2.5",
        "nvidia.nemotron-super-3-120b",
        "openai.gpt-oss-120b-1:0",
        "openai.gpt-oss-20b-1:0",
        "qwen.qwen3-235b-a22b-2507-v1:0",
        "qwen.qwen3-32b-v1:0",
        "qwen.qwen3-coder-480b-a35b-v1:0",
        "qwen.qwen3-coder-next",
        "zai.glm-4.7",
        "zai.glm-5",
    ),
}
KNOWN = tuple(
    sorted(
        model if place == "-" else f"{place}.{model}"
        for places, models in _KNOWN.items()
        for place in places.split()
        for model in models
    )
)

_VENDOR = re.compile(
    r"(?:^|[./])(?P<vendor>ai21|amazon|anthropic|cohere|deepseek|google|meta|minimax|mistral|moonshot|moonshotai"
    r"|nvidia|openai|qwen|writer|xai|zai)\.(?P<name>.+)"
)
#: Models whose tools work in no stream (Converse: supported models and features).
_NO_STREAMED_TOOLS = re.compile(
    r"llama[23]|mistral-large-24|mistral-small-24|mistral-7b|mixtral|titan|claude-(?:v|instant)"
)
#: Models without tools, where the registry is silent (Converse: supported models and features).
_TALKS = re.compile(r"j2-|jamba-instruct|command-(?:light-)?text|pegasus")
#: Models that take a JSON schema (structured outputs page; litellm's map, ``supports_native_structured_output``).
_NATIVE = re.compile(
    r"claude-(?:haiku|sonnet|opus)-4-5|claude-(?:opus|sonnet)-4-6|claude-mythos-5-1|v3(?:-v1|\.2)|qwen3|minimax-m2$"
    r"|ministral-3|mistral-large-3|kimi-k2-thinking|nemotron-nano-3"
)
#: Claude models without prompt caching (prompt caching page).
_UNCACHED = re.compile(r"claude-(?:v|instant|3-(?:opus|sonnet|haiku)|3-5-sonnet)")
#: Claude models that can be told to call one tool at a time (litellm's map, ``supports_parallel_tool_use_config``).
_SERIAL = re.compile(r"claude-(?:haiku|sonnet|opus)-4-5")
_LEVELS = ("low", "medium", "high")


def _parts(model: str) -> tuple[str, str]:
    """Vendor and name in a model id or the end of an ARN; two empty strings when it says neither."""
    match = _VENDOR.search(model)
    return (match["vendor"], match["name"]) if match else ("", "")


def capabilities(model: str, row: Row | None) -> Capabilities:
    """What ``model`` can do here."""
    vendor, name = _parts(model)
    structured = "native" if _NATIVE.search(name) else "tool"
    if vendor == "anthropic":
        stated: dict[str, t.Any] = {"structured_output": structured}
        if _NO_STREAMED_TOOLS.search(name):
            stated |= {"tools": "none", "thinking": "none", "thinking_control": ()}
        return claude_capabilities(name, row, source=f"{SOURCE}; {CLAUDE_SOURCE}", stated=stated)
    stated = {**_thinking(vendor, name, row), "structured_output": structured}
    if _NO_STREAMED_TOOLS.search(name):
        stated |= {"tools": "none", "notes": f"{stated['notes']} Its tools work without streaming only."}
    # The vendor knows of a forced tool with Claude, Nova and Mistral; of others the registry has to say so.
    tools = "none" if _TALKS.match(name) else open_models.tools(name, row)
    otherwise = {"tools": tools, "forced_tool_choice": vendor in ("amazon", "mistral")}
    source = _NOVA_SOURCE if name.startswith("nova-2") else SOURCE
    return claims(row, source=source, stated=stated, otherwise=otherwise)


def _thinking(vendor: str, name: str, row: Row | None) -> dict[str, t.Any]:
    if not vendor:
        notes = "The id does not say which model it is: its thinking is neither asked for nor shown."
        return {"thinking": "hidden", "thinking_control": (), "notes": notes}
    if name.startswith("nova-2"):
        notes = "Thinks when asked; the vendor withholds what it thinks."
        return {"thinking": "hidden", "thinking_control": ("none", *_LEVELS), "notes": notes}
    if name.startswith("gpt-oss"):
        notes = "Always thinks and streams it whole; a level is sent as effort."
        return {"thinking": "full", "thinking_control": _LEVELS, "notes": notes}
    if vendor == "deepseek" and name.startswith("r1"):
        return {"thinking": "full", "thinking_control": (), "notes": "Always thinks and streams it whole."}
    if open_models.thinks(name, row):
        notes = "Its thinking is neither asked for nor shown."
        return {"thinking": "hidden", "thinking_control": (), "notes": notes}
    return {"thinking": "none", "thinking_control": (), "notes": "Does not think."}


def dialect(model: str) -> Mapping[str, t.Any]:
    """The switches of the wire for ``model`` (documented in ``providers/bedrock_request.py``)."""
    vendor, name = _parts(model)
    if vendor == "anthropic":
        made = {**claude_dialect(name), "send_back": "all", "result_status": True}
        made["serial_switch"] = made["thinking"] == "adaptive" or bool(_SERIAL.search(name))
        if not _UNCACHED.search(name):
            made["cache_points"] = ("tools", "system", "messages", "results")
        return made
    if name.startswith("nova"):
        style = "nova" if name.startswith("nova-2") else "never"
        points = ("system", "messages")
        return {"thinking": style, "send_back": "none", "result_status": True, "cache_points": points}
    if name.startswith("gpt-oss"):
        return {"thinking": "effort"}
    if vendor == "openai":
        return {"sampling": False, "stop": False}
    if vendor == "xai":
        return {"stop": False}
    return {"send_back": "none"} if vendor == "deepseek" else {}


def embedding_style(model: str) -> Mapping[str, t.Any]:
    """Whose body the model takes; of models that are not known nothing is said."""
    vendor, name = _parts(model)
    if vendor == "amazon" and name.startswith("titan-embed-"):
        return {"style": "titan"}
    return {"style": "cohere"} if vendor == "cohere" and name.startswith("embed-") else {}


# -- where and as whom ---------------------------------------------------------------------------

_REGION = re.compile(r"[a-z]{2,5}(?:-[a-z]+)+-\d{1,2}")
#: Domains by partition, beside that of the world (botocore's partitions).
_DOMAINS = (
    ("cn-", "amazonaws.com.cn"),
    ("eusc-", "amazonaws.eu"),
    ("us-iso-", "c2s.ic.gov"),
    ("us-isob-", "sc2s.sgov.gov"),
    ("us-isof-", "csp.hci.ic.gov"),
    ("eu-isoe-", "cloud.adc-e.uk"),
)
_OFF = ("0", "false", "no", "off")


def _base(options: Mapping[str, str]) -> str:
    region = options["region"]
    domain = next((domain for prefix, domain in _DOMAINS if region.startswith(prefix)), "amazonaws.com")
    return f"https://bedrock-runtime.{region}.{domain}"


def check(credentials: Mapping[str, str], options: Mapping[str, str]) -> tuple[str, str] | None:
    """A region that is one, and one kind of credentials: a bearer token, a pair of keys, or a chain to ask."""
    if not _REGION.fullmatch(options["region"]):
        return "AWS_REGION is no AWS region; set it to one like us-east-1", "AWS_REGION"
    if credentials.get("api_key"):
        return None
    pair = [bool(credentials.get(name)) for name in ("access_key_id", "secret_access_key")]
    if any(pair):
        missing = "AWS_SECRET_ACCESS_KEY" if pair[0] else "AWS_ACCESS_KEY_ID"
        return None if all(pair) else (f"Amazon Bedrock needs both keys of a pair; set {missing}", missing)
    if credentials.get("profile") or credentials.get("chain", "0").lower() not in _OFF:
        return None
    return (
        "Amazon Bedrock needs credentials; set AWS_BEARER_TOKEN_BEDROCK, or AWS_ACCESS_KEY_ID and "
        "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or STUDIO_BEDROCK_CHAIN=1 for the machine's role",
        "AWS_ACCESS_KEY_ID",
    )


FAMILY = ProviderFamily(
    id="bedrock",
    title="Amazon Bedrock",
    wire="bedrock_converse",
    other_wires=("bedrock_invoke",),
    auth=ChosenAuth(
        (("api_key",), BEARER),
        (("access_key_id", "secret_access_key"), SigV4Auth("bedrock")),
        ((), ChainAuth("bedrock")),
    ),
    connection=ConnectionSpec(
        default_base=_base,
        base_vars=("AWS_BEDROCK_RUNTIME_ENDPOINT", "AWS_ENDPOINT_URL_BEDROCK_RUNTIME"),
        key_vars=("AWS_BEARER_TOKEN_BEDROCK",),
        key_required=False,
        version_path="",
        settings=(
            Setting(
                "region",
                ("AWS_REGION", "AWS_REGION_NAME", "AWS_DEFAULT_REGION"),
                "an AWS region, for example us-east-1",
                required=True,
            ),
            Setting("access_key_id", ("AWS_ACCESS_KEY_ID",), "an access key", secret=True),
            Setting("secret_access_key", ("AWS_SECRET_ACCESS_KEY",), "the key's secret", secret=True),
            Setting("session_token", ("AWS_SESSION_TOKEN",), "a temporary key's token", secret=True),
            Setting(
                "profile",
                ("AWS_PROFILE", "AWS_DEFAULT_PROFILE"),
                "a profile of AWS's configuration files",
                secret=True,
            ),
            Setting(
                "chain",
                (
                    "AWS_WEB_IDENTITY_TOKEN_FILE",
                    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
                    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
                ),
                "anything, to ask AWS's own credential chain for keys",
                secret=True,
            ),
        ),
        check=check,
    ),
    capabilities=capabilities,
    registry_providers=("bedrock_converse", "bedrock"),
    known=KNOWN,
    model_dialect=dialect,
    embeddings=Embeddings(
        wire="bedrock_embeddings",
        source="docs.aws.amazon.com: Bedrock user guide, Titan Text Embeddings and Cohere Embed",
        known=(
            "amazon.titan-embed-text-v2:0",
            "amazon.titan-embed-text-v1",
            "cohere.embed-v4:0",
            "us.cohere.embed-v4:0",
            "global.cohere.embed-v4:0",
            "cohere.embed-english-v3",
            "cohere.embed-multilingual-v3",
        ),
        batch=lambda model: 1 if "titan" in model else 64,
        model_dialect=embedding_style,
        registry_providers=("bedrock",),
    ),
)
