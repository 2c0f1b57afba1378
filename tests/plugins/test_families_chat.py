"""Every family on the chat-completions wire: what it resolves to and what it would send.

The table walks the families through the registry, as the runtime does: variables in, one HTTP request out.
"""

from __future__ import annotations

import json
import subprocess
import sys
import typing as t

import pytest

from app import builtins
from app.config import Settings
from plugins.connections import NotConfigured
from plugins.manager import create_manager
from plugins.registry import Registry
from plugins.spec import ProviderFamily, ResolvedModel
from providers import spec
from providers.http import HttpWire

Json = dict[str, t.Any]
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "required": ["a"],
    "additionalProperties": False,
}
KEY = "k-1"
BEARER = {"Authorization": f"Bearer {KEY}"}


class Case(t.NamedTuple):
    """One family: the variables people set, a model, and where the call goes with what headers."""

    env: dict[str, str]
    model: str
    url: str
    headers: dict[str, str] = BEARER


CASES: dict[str, Case] = {
    "alibaba": Case(
        {"DASHSCOPE_API_KEY": KEY},
        "qwen-plus",
        "https://dashscope-intl.aliyuncs.com/compatible-mode/v1/chat/completions",
    ),
    "cerebras": Case(
        {"CEREBRAS_API_KEY": KEY}, "gpt-oss-120b", "https://api.cerebras.ai/v1/chat/completions"
    ),
    "cloudflare": Case(
        {"CLOUDFLARE_API_KEY": KEY, "CLOUDFLARE_ACCOUNT_ID": "acc1"},
        "@cf/openai/gpt-oss-120b",
        "https://api.cloudflare.com/client/v4/accounts/acc1/ai/v1/chat/completions",
    ),
    "databricks": Case(
        {"DATABRICKS_TOKEN": KEY, "DATABRICKS_HOST": "https://dbc-1.cloud.databricks.com"},
        "databricks-gpt-oss-120b",
        "https://dbc-1.cloud.databricks.com/serving-endpoints/chat/completions",
    ),
    "deepseek": Case(
        {"DEEPSEEK_API_KEY": KEY}, "deepseek-v4-flash", "https://api.deepseek.com/v1/chat/completions"
    ),
    "fireworks": Case(
        {"FIREWORKS_API_KEY": KEY}, "gpt-oss-120b", "https://api.fireworks.ai/inference/v1/chat/completions"
    ),
    "github": Case(
        {"GITHUB_API_KEY": KEY},
        "openai/gpt-4.1",
        "https://models.github.ai/inference/chat/completions",
        {**BEARER, "X-GitHub-Api-Version": "2022-11-28"},
    ),
    "groq": Case(
        {"GROQ_API_KEY": KEY}, "openai/gpt-oss-120b", "https://api.groq.com/openai/v1/chat/completions"
    ),
    "huggingface": Case(
        {"HF_TOKEN": KEY}, "openai/gpt-oss-120b", "https://router.huggingface.co/v1/chat/completions"
    ),
    "llama.cpp": Case({}, "any", "http://127.0.0.1:8080/v1/chat/completions", {}),
    "lmstudio": Case(
        {"LM_STUDIO_API_BASE": "http://127.0.0.1:1235"},
        "any",
        "http://127.0.0.1:1235/v1/chat/completions",
        {},
    ),
    "minimax": Case({"MINIMAX_API_KEY": KEY}, "MiniMax-M2.5", "https://api.minimax.io/v1/chat/completions"),
    "mistral": Case(
        {"MISTRAL_API_KEY": KEY}, "mistral-small-latest", "https://api.mistral.ai/v1/chat/completions"
    ),
    "moonshot": Case({"MOONSHOT_API_KEY": KEY}, "kimi-k3", "https://api.moonshot.ai/v1/chat/completions"),
    "nvidia": Case(
        {"NVIDIA_NIM_API_KEY": KEY},
        "openai/gpt-oss-120b",
        "https://integrate.api.nvidia.com/v1/chat/completions",
    ),
    "openai-compatible": Case(
        {"STUDIO_OPENAI_COMPATIBLE_API_BASE": "http://gw:9/v1", "STUDIO_OPENAI_COMPATIBLE_API_KEY": KEY},
        "any",
        "http://gw:9/v1/chat/completions",
    ),
    "openrouter": Case(
        {"OR_API_KEY": KEY}, "z-ai/glm-5-turbo-20260315", "https://openrouter.ai/api/v1/chat/completions"
    ),
    "perplexity": Case({"PERPLEXITYAI_API_KEY": KEY}, "sonar", "https://api.perplexity.ai/chat/completions"),
    "sambanova": Case(
        {"SAMBANOVA_API_KEY": KEY}, "gpt-oss-120b", "https://api.sambanova.ai/v1/chat/completions"
    ),
    "snowflake": Case(
        {"SNOWFLAKE_JWT": f"pat/{KEY}", "SNOWFLAKE_ACCOUNT_ID": "org-acc"},
        "claude-sonnet-4-5",
        "https://org-acc.snowflakecomputing.com/api/v2/cortex/v1/chat/completions",
    ),
    "together": Case(
        {"TOGETHERAI_API_KEY": KEY}, "openai/gpt-oss-120b", "https://api.together.ai/v1/chat/completions"
    ),
    "vllm": Case(
        {"HOSTED_VLLM_API_BASE": "http://10.0.0.1:8000", "HOSTED_VLLM_API_KEY": KEY},
        "any",
        "http://10.0.0.1:8000/v1/chat/completions",
    ),
    "zai": Case({"ZAI_API_KEY": KEY}, "glm-4.7", "https://api.z.ai/api/paas/v4/chat/completions"),
}
OFF, ON = {"type": "disabled"}, {"type": "enabled"}
NO_TEMPLATE = {"chat_template_kwargs": {"enable_thinking": False}}
BOTH_OFF = {"chat_template_kwargs": {"enable_thinking": False, "thinking": False}}
BOTH_ON = {"enable_thinking": True, "thinking": True}

#: By model: a level, or None for "no level, but someone may see it", and the members that ask for it.
LEVELS: list[tuple[str, str | int | None, Json]] = [
    ("alibaba/qwen-plus", None, {"enable_thinking": True, "thinking_budget": 8192}),
    ("alibaba/qwen-plus", "none", {"enable_thinking": False}),
    ("alibaba/qwen-plus", 500, {"enable_thinking": True, "thinking_budget": 500}),
    ("alibaba/qwen3.8-max", None, {}),
    ("alibaba/qwen3.8-max", "auto", {"enable_thinking": True}),
    ("alibaba/qwen3-coder-plus", None, {}),
    ("cerebras/gpt-oss-120b", "high", {"reasoning_effort": "high", "reasoning_format": "parsed"}),
    ("cerebras/zai-glm-4.7", None, {"reasoning_format": "parsed"}),
    ("cerebras/llama3.1-8b", None, {}),
    ("cloudflare/@cf/zai-org/glm-4.7-flash", "none", NO_TEMPLATE),
    ("cloudflare/@cf/openai/gpt-oss-20b", "low", {"reasoning_effort": "low"}),
    (
        "databricks/databricks-claude-sonnet-4-5",
        "low",
        {"thinking": {**ON, "budget_tokens": 2048}, "max_tokens": 6144},
    ),
    ("databricks/databricks-claude-sonnet-4-5", "none", {}),
    ("databricks/databricks-gpt-oss-20b", "low", {"reasoning_effort": "low"}),
    ("deepseek/deepseek-v4-pro", None, {}),
    ("deepseek/deepseek-v4-pro", "none", {"thinking": OFF}),
    ("deepseek/deepseek-v4-pro", "low", {"thinking": ON, "reasoning_effort": "low"}),
    ("deepseek/deepseek-v4-pro", "max", {"thinking": ON, "reasoning_effort": "max"}),
    ("deepseek/deepseek-v4-pro", "auto", {"thinking": ON}),
    ("deepseek/deepseek-chat", None, {}),
    ("fireworks/gpt-oss-120b", "high", {"reasoning_effort": "high"}),
    ("fireworks/glm-5p2", "none", {"reasoning_effort": "none"}),
    ("fireworks/glm-5p2", "max", {"reasoning_effort": "max"}),
    ("fireworks/kimi-k2p6", "medium", {"reasoning_effort": "medium"}),
    ("groq/openai/gpt-oss-120b", "low", {"reasoning_effort": "low"}),
    ("groq/qwen/qwen3-32b", "none", {"reasoning_effort": "none", "reasoning_format": "parsed"}),
    ("groq/qwen/qwen3-32b", "auto", {"reasoning_effort": "default", "reasoning_format": "parsed"}),
    ("groq/llama-3.3-70b-versatile", None, {}),
    ("huggingface/openai/gpt-oss-20b", "high", {"reasoning_effort": "high"}),
    ("llama.cpp/any", "none", BOTH_OFF),
    ("llama.cpp/any", "high", {"chat_template_kwargs": {**BOTH_ON, "reasoning_effort": "high"}}),
    ("llama.cpp/any", None, {}),
    ("lmstudio/any", "high", {"reasoning_effort": "high"}),
    ("minimax/MiniMax-M2.5", None, {"reasoning_split": True}),
    ("minimax/MiniMax-M3", "none", {"reasoning_split": True, "thinking": OFF}),
    ("minimax/MiniMax-M3", "auto", {"reasoning_split": True, "thinking": {"type": "adaptive"}}),
    ("mistral/mistral-small-latest", None, {"reasoning_effort": "high"}),
    ("mistral/mistral-small-latest", "none", {"reasoning_effort": "none"}),
    ("mistral/zai-glm-5-3", "max", {"reasoning_effort": "max"}),
    ("mistral/magistral-medium-latest", None, {}),
    ("moonshot/kimi-k3", "max", {"reasoning_effort": "max"}),
    ("moonshot/kimi-k3", None, {}),
    ("moonshot/kimi-k2.6", "none", {"thinking": OFF}),
    ("moonshot/kimi-k2.7-code", "auto", {}),
    ("nvidia/deepseek-ai/deepseek-v3.1", None, {"chat_template_kwargs": {"thinking": True}}),
    ("nvidia/qwen/qwen3-235b-a22b", "none", NO_TEMPLATE),
    ("openai-compatible/any", "high", {"reasoning_effort": "high"}),
    ("openai-compatible/any", None, {}),
    ("openrouter/anthropic/claude-sonnet-4.5", None, {"reasoning": {"effort": "medium"}}),
    ("openrouter/anthropic/claude-sonnet-4.5", 2000, {"reasoning": {"max_tokens": 2000}}),
    ("openrouter/anthropic/claude-sonnet-4.5", "none", {"reasoning": {"enabled": False}}),
    ("openrouter/z-ai/glm-5-turbo-20260315", None, {}),
    ("openrouter/openai/gpt-4o-mini", None, {}),
    ("perplexity/sonar-deep-research", "low", {"reasoning_effort": "low"}),
    ("perplexity/sonar-reasoning-pro", None, {}),
    ("sambanova/gpt-oss-120b", "low", {"reasoning_effort": "low"}),
    ("sambanova/DeepSeek-V3.1", None, {"chat_template_kwargs": {"enable_thinking": True}}),
    ("snowflake/openai-gpt-5", None, {}),
    ("together/openai/gpt-oss-120b", "low", {"reasoning_effort": "low"}),
    ("together/zai-org/GLM-5.2", "none", {"reasoning": {"enabled": False}}),
    ("together/zai-org/GLM-5.2", "max", {"reasoning_effort": "max"}),
    ("vllm/any", "none", BOTH_OFF),
    ("vllm/any", "max", {"chat_template_kwargs": BOTH_ON, "reasoning_effort": "high"}),
    ("zai/glm-4.7", "none", {"thinking": OFF}),
    ("zai/glm-5.2", "max", {"thinking": ON, "reasoning_effort": "max"}),
    ("zai/glm-5.3", "low", {"reasoning_effort": "low"}),
]
_ASKING = (
    "reasoning_effort",
    "reasoning",
    "reasoning_format",
    "reasoning_split",
    "thinking",
    "thinking_budget",
    "enable_thinking",
    "chat_template_kwargs",
    "max_tokens",
)


@pytest.fixture(scope="module")
def registry() -> Registry:
    return Registry(create_manager(False, builtins.plugins(Settings())))


def environment() -> dict[str, str]:
    """All that the cases need, at once: no family reads another's variables."""
    return {name: value for case in CASES.values() for name, value in case.env.items()}


def resolved(registry: Registry, model_id: str) -> ResolvedModel:
    return registry.resolve(model_id, environment())


def request(found: ResolvedModel, **changes: t.Any) -> spec.HttpRequest:
    """What would go out for one call."""
    asked = spec.ModelRequest(
        found.model,
        changes.pop("messages", [spec.UserMessage("hi")]),
        lambda: "minted",
        dialect=found.dialect,
        **changes,
    )
    assert isinstance(found.wire, HttpWire)
    built = found.wire.build(asked, found.connection)
    found.connection.auth.apply(built, {**found.connection.options, **found.connection.credentials})
    return built


def body(found: ResolvedModel, **changes: t.Any) -> Json:
    return t.cast(Json, json.loads(request(found, **changes).body))


def family(registry: Registry, family_id: str) -> ProviderFamily:
    return registry.families[family_id]


def test_the_table_has_every_family_of_the_wire(registry: Registry) -> None:
    on_the_wire = {each.id for each in registry.families.values() if each.wire == "openai_chat"}
    assert set(CASES) <= on_the_wire
    assert {model.partition("/")[0] for model, _, _ in LEVELS} >= set(CASES) - {"github"}


@pytest.mark.parametrize("family_id", CASES)
def test_addresses_and_headers(registry: Registry, family_id: str) -> None:
    case = CASES[family_id]
    found = registry.resolve(f"{family_id}/{case.model}", case.env)
    built = request(found)
    assert (built.method, built.url) == ("POST", case.url)
    sent = {name: value for name, value in built.headers.items() if name not in ("Content-Type", "Accept")}
    assert sent == case.headers


@pytest.mark.parametrize("family_id", CASES)
def test_what_is_missing_is_named(registry: Registry, family_id: str) -> None:
    case = CASES[family_id]
    for missing in case.env:
        rest = {name: value for name, value in case.env.items() if name != missing}
        problem = registry.missing(family(registry, family_id), rest)
        found = family(registry, family_id).connection
        optional = bool(found.default_base) if missing.endswith("_BASE") else not found.key_required
        if optional and family_id != "databricks":
            assert problem is None
        else:
            assert isinstance(problem, NotConfigured)
            assert problem.variable in problem.message


@pytest.mark.parametrize(("model_id", "level", "asked"), LEVELS)
def test_asking_for_thinking(registry: Registry, model_id: str, level: str | int | None, asked: Json) -> None:
    made = body(resolved(registry, model_id), thinking=level, show_thinking=True)
    assert {name: made[name] for name in _ASKING if name in made} == asked


@pytest.mark.parametrize(("model_id", "level", "asked"), LEVELS)
def test_levels_of_the_table_are_offered(
    registry: Registry, model_id: str, level: str | int | None, asked: Json
) -> None:
    """A level that a row above sends is one the capabilities offer, so nothing is refused that would work."""
    if level is not None:
        offered = registry.capabilities_of(model_id).thinking_control
        assert ("budget" if isinstance(level, int) else level) in offered


def test_every_level_offered_is_said_or_the_vendors_default(registry: Registry) -> None:
    """Of what a family offers, no two of ``none`` and the levels come out the same without the vendor saying so."""
    for model_id, _, _ in LEVELS:
        found = resolved(registry, model_id)
        offered = found.capabilities.thinking_control
        if "none" in offered and "auto" in offered:
            on = body(found, thinking="auto", show_thinking=True)
            off = body(found, thinking="none", show_thinking=True)
            assert on != off or model_id.startswith("openai-compatible"), model_id


def tools() -> tuple[spec.ToolSpec, ...]:
    return (spec.ToolSpec("w", "Does w.", {"type": "object"}),)


@pytest.mark.parametrize(
    ("model_id", "choice", "sent"),
    [
        ("groq/llama-3.3-70b-versatile", "required", "required"),
        ("mistral/mistral-large-latest", "required", "any"),
        ("fireworks/gpt-oss-120b", "required", "any"),
        ("together/openai/gpt-oss-120b", "w", {"type": "function", "function": {"name": "w"}}),
    ],
)
def test_forced_tools(registry: Registry, model_id: str, choice: str, sent: t.Any) -> None:
    assert registry.capabilities_of(model_id).forced_tool_choice
    assert body(resolved(registry, model_id), tools=tools(), tool_choice=choice)["tool_choice"] == sent


@pytest.mark.parametrize("model_id", ["deepseek/deepseek-v4-pro", "moonshot/kimi-k2.6"])
def test_a_forced_tool_switches_thinking_off_where_it_is_on_by_default(
    registry: Registry, model_id: str
) -> None:
    found = resolved(registry, model_id)
    assert body(found, tools=tools(), tool_choice="w", show_thinking=True)["thinking"] == OFF
    assert "thinking" not in body(found, tools=tools(), show_thinking=True)
    assert not found.capabilities.forced_tool_with_thinking


@pytest.mark.parametrize(
    "model_id",
    ["zai/glm-4.7", "minimax/MiniMax-M2.5", "moonshot/kimi-k3", "perplexity/sonar", "lmstudio/any"],
)
def test_forced_tools_that_are_refused(registry: Registry, model_id: str) -> None:
    assert not registry.capabilities_of(model_id).forced_tool_choice


@pytest.mark.parametrize(
    ("model_id", "honoured"),
    [
        ("alibaba/qwen-plus", "tool"),
        ("deepseek/deepseek-v4-pro", "tool"),
        ("fireworks/gpt-oss-120b", "tool"),
        ("groq/openai/gpt-oss-120b", "tool"),
        ("minimax/MiniMax-M2.5", "tool"),
        ("mistral/mistral-small-latest", "native"),
        ("moonshot/kimi-k3", "native"),
        ("openrouter/openai/gpt-4o-mini", "native"),
        ("perplexity/sonar", "native"),
        ("together/openai/gpt-oss-120b", "native"),
        ("vllm/any", "native"),
        ("zai/glm-4.7", "tool"),
    ],
)
def test_response_formats(registry: Registry, model_id: str, honoured: str) -> None:
    found = resolved(registry, model_id)
    assert found.capabilities.structured_output == honoured
    if honoured == "native":
        sent = body(found, response_format=SCHEMA)["response_format"]
        assert sent == {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True},
        }


@pytest.mark.parametrize(
    ("model_id", "members"),
    [
        (
            "mistral/mistral-small-latest",
            {"random_seed": 3, "prompt_cache_key": "c", "max_tokens": 9, "temperature": 0.5},
        ),
        ("moonshot/kimi-k3", {"seed": 3, "prompt_cache_key": "c", "max_completion_tokens": 9}),
        ("openrouter/openai/gpt-4o", {"seed": 3, "session_id": "c", "max_tokens": 9, "temperature": 0.5}),
        ("zai/glm-4.7", {"seed": 3, "max_tokens": 9, "temperature": 0.5}),
    ],
)
def test_what_vendors_call_things(registry: Registry, model_id: str, members: Json) -> None:
    sent = body(resolved(registry, model_id), seed=3, max_tokens=9, temperature=0.5, conversation="c")
    for name in ("model", "messages", "stream", "stream_options"):
        sent.pop(name, None)
    assert sent == members


@pytest.mark.parametrize(
    ("model", "sent"),
    [
        ("kimi-k3", "accounts/fireworks/models/kimi-k3"),
        ("kimi-k3-fast", "accounts/fireworks/routers/kimi-k3-fast"),
        ("accounts/me/models/mine", "accounts/me/models/mine"),
    ],
)
def test_short_names_of_fireworks(registry: Registry, model: str, sent: str) -> None:
    assert body(resolved(registry, f"fireworks/{model}"))["model"] == sent


def test_cache_marks_go_to_claude_behind_gateways_only(registry: Registry) -> None:
    for model_id, marked in [
        ("openrouter/anthropic/claude-sonnet-4.5", True),
        ("openai-compatible/claude-sonnet-4-5", True),
        ("openrouter/openai/gpt-4o", False),
        ("together/openai/gpt-oss-120b", False),
    ]:
        sent = request(resolved(registry, model_id), system="s", cache=True).body
        assert (b"cache_control" in sent) == marked


def test_databricks_takes_a_service_principal(registry: Registry) -> None:
    principal = {"DATABRICKS_CLIENT_ID": "id", "DATABRICKS_CLIENT_SECRET": "s"}
    problem = registry.missing(family(registry, "databricks"), principal)
    assert problem is not None
    assert problem.variable == "DATABRICKS_HOST"
    hosted = {**principal, "DATABRICKS_HOST": "https://dbc-1.cloud.databricks.com"}
    assert registry.missing(family(registry, "databricks"), hosted) is None


def test_other_wires_are_chosen_by_a_variable(registry: Registry) -> None:
    for family_id in ("deepseek", "openrouter"):
        variable = f"STUDIO_{family_id.upper()}_WIRE"
        chosen = registry.resolve(f"{family_id}/any", {**environment(), variable: "openai_responses"})
        assert chosen.wire.name == "openai_responses"


#: What the vendors' recorded answers showed: (model, whether thinking came).
RECORDED = [
    ("cerebras/zai-glm-4.7", True),
    ("deepseek/deepseek-v4-flash", True),
    ("deepseek/deepseek-v4-pro", True),
    ("deepseek/deepseek-reasoner", True),
    ("deepseek/deepseek-chat", False),
    ("groq/openai/gpt-oss-120b", True),
    ("groq/groq/compound", True),
    ("groq/moonshotai/kimi-k2-instruct-0905", False),
    ("groq/llama-3.3-70b-versatile", False),
    ("groq/deepseek-r1-distill-llama-70b", False),
    ("huggingface/moonshotai/kimi-k2-instruct-0905", False),
    ("huggingface/llama3.1-8b", False),
    ("mistral/mistral-large-latest", False),
    ("moonshot/kimi-k3", True),
    ("openrouter/anthropic/claude-haiku-4.5", True),
    ("openrouter/anthropic/claude-4.5-haiku-20251001", True),
    ("openrouter/z-ai/glm-5-turbo-20260315", True),
    ("openrouter/minimax/minimax-m2:free", True),
    ("openrouter/openai/gpt-oss-20b", True),
    ("openrouter/openai/gpt-4o-mini-2024-07-18", False),
    ("openrouter/openai/o3", False),
    ("openrouter/x-ai/grok-4", False),
    ("openrouter/moonshotai/kimi-k2", False),
    ("together/meta-llama/Llama-3.3-70B-Instruct-Turbo", False),
    ("zai/glm-4.7", True),
    ("zai/glm-4.7-flash", True),
]


@pytest.mark.parametrize(("model_id", "came"), RECORDED)
def test_what_is_claimed_of_thinking_is_what_was_recorded(
    registry: Registry, model_id: str, came: bool
) -> None:
    claimed = registry.capabilities_of(model_id).thinking
    assert (claimed in ("full", "summary")) == came
    assert came or claimed in ("none", "hidden")


@pytest.mark.parametrize("family_id", CASES)
def test_claims_have_a_source_and_lists_a_function(registry: Registry, family_id: str) -> None:
    found = family(registry, family_id)
    can = registry.capabilities_of(f"{family_id}/{CASES[family_id].model}")
    assert can.source
    assert found.list_models is None or callable(found.list_models)
    assert (can.thinking == "none") <= (not can.thinking_control)


def test_facts_need_no_client() -> None:
    """Importing every family pulls in no wire, no HTTP client and no SDK."""
    names = (
        "http.client",
        "httpx",
        "requests",
        "urllib3",
        "aiohttp",
        "litellm",
        "openai",
        "providers.http",
        "providers.openai_chat",
    )
    code = (
        "import importlib, sys\n"
        "from app.builtins import FAMILIES\n"
        "for name in FAMILIES: importlib.import_module(f'plugins.families.{name}')\n"
        f"print([name for name in {names!r} if name in sys.modules])"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=200
    )
    assert found.stdout.strip() == "[]"
