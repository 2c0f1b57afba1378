"""Which family answers as which recording, and what its environment is.

Law of this room: every recording belongs to the family that people would use for it, over the wire it was recorded
on; a family's second wire is chosen by its own variable, in a second server.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterable
from dataclasses import dataclass

from tests.support.shared import find_shared, recordings, shared_path

Json = dict[str, t.Any]


@dataclass(frozen=True)
class Played:
    """How a recording is played: the model asked for, and whether on the family's other wire."""

    model: str
    other_wire: bool = False


#: (folder, wire) of the recordings → family, whether that is its other wire, model where the bytes name none.
_FAMILIES: dict[tuple[str, str], tuple[str, bool, str]] = {
    ("openai-chat", "openai-chat"): ("openai", True, ""),
    ("openai-responses", "openai-responses"): ("openai", False, ""),
    ("openai-chat-dialects", "openai-chat"): ("openai-compatible", False, ""),
    ("litellm-proxy", "openai-chat"): ("openai-compatible", False, ""),
    ("vercel-gateway", "openai-chat"): ("openai-compatible", False, ""),
    ("azure-openai", "openai-chat"): ("azure", True, ""),
    ("azure-openai", "openai-responses"): ("azure", False, ""),
    ("anthropic", "anthropic-messages"): ("anthropic", False, ""),
    ("vertex-anthropic", "anthropic-messages"): ("vertex", False, ""),
    ("gemini", "gemini"): ("gemini", False, ""),
    ("deepseek", "openai-chat"): ("deepseek", False, ""),
    ("deepseek", "openai-responses"): ("deepseek", True, ""),
    ("groq", "openai-chat"): ("groq", False, ""),
    ("mistral", "openai-chat"): ("mistral", False, ""),
    ("xai", "openai-chat"): ("xai", False, ""),
    ("xai", "openai-responses"): ("xai", True, ""),
    ("zai", "openai-chat"): ("zai", False, ""),
    ("huggingface", "openai-chat"): ("huggingface", False, ""),
    ("moonshot", "openai-chat"): ("moonshot", False, ""),
    ("openrouter", "openai-chat"): ("openrouter", False, ""),
    ("openrouter", "openai-responses"): ("openrouter", True, ""),
    ("together", "openai-chat"): ("together", False, ""),
    ("cerebras", "openai-chat"): ("cerebras", False, ""),
    ("vllm", "openai-chat"): ("vllm", False, ""),
    ("llama-cpp", "openai-chat"): ("llama.cpp", False, ""),
    ("ollama-openai", "openai-chat"): ("ollama", True, ""),
    ("ollama", "ollama"): ("ollama", False, ""),
    ("cohere", "cohere-v2"): ("cohere", False, "command-a-reasoning-08-2025"),
    ("bedrock-converse", "bedrock-converse"): (
        "bedrock",
        False,
        "us.anthropic.claude-sonnet-4-20250514-v1:0",
    ),
    ("bedrock-invoke", "bedrock-invoke-anthropic"): ("bedrock", True, ""),
}
#: Cases that the folder's rule does not fit.
_CASES: dict[str, Played] = {
    # Models that plan before they call are older than those that think.
    "cohere/plan-tool-1": Played("cohere/command-r-plus-08-2024"),
    "cohere/plan-tool-2": Played("cohere/command-r-plus-08-2024"),
    "cohere/plan-parallel": Played("cohere/command-r-plus-08-2024"),
    # Two streams spliced into one; the model it names first does not think.
    "anthropic/spliced-message-start": Played("anthropic/claude-sonnet-4-5"),
    "gemini/vertex-parallel-1": Played("vertex/gemini-2.5-pro"),
    "gemini/vertex-parallel-2": Played("vertex/gemini-2.5-pro"),
    "bedrock-converse/code-interpreter": Played("bedrock/us.amazon.nova-2-lite-v1:0"),
    "bedrock-invoke/text-haiku": Played("bedrock/us.anthropic.claude-haiku-4-5-20251001-v1:0", True),
    "bedrock-invoke/preamble-parallel-1": Played("bedrock/anthropic.claude-3-5-sonnet-20240620-v1:0", True),
    "bedrock-invoke/preamble-parallel-2": Played("bedrock/anthropic.claude-3-5-sonnet-20240620-v1:0", True),
    "errors/anthropic-context-400": Played("anthropic/claude-sonnet-4-5"),
    "errors/anthropic-auth-401": Played("anthropic/claude-sonnet-4-5"),
    "errors/azure-rate-429": Played("azure/grok-4-1-fast-non-reasoning", True),
    "errors/cohere-context-400": Played("cohere/command-a-03-2025"),
    "errors/deepseek-context-400": Played("deepseek/deepseek-chat"),
    "errors/gemini-quota-429": Played("gemini/gemini-2.5-flash"),
    "errors/mistral-key-401": Played("mistral/mistral-small-latest"),
    "errors/ollama-context-400": Played("ollama/qwen3", True),
    "errors/openai-context-400": Played("openai/gpt-5"),
    "errors/openrouter-rate-429": Played("openrouter/google/gemini-2.0-flash-exp:free"),
    "errors/perplexity-context-400": Played("perplexity/sonar"),
    "errors/xai-key-400": Played("xai/grok-4.3", True),
}
#: A text-only answer of each wire, played after a turn with calls.
CLOSING = {
    "openai-chat": "openai-chat/tool-gpt-5-2",
    "openai-responses": "openai-responses/text-gpt-4o",
    "anthropic-messages": "anthropic/text-emoji",
    "gemini": "gemini/parallel-2.5-flash-2",
    "bedrock-converse": "bedrock-converse/preamble-tool-2",
    "bedrock-invoke-anthropic": "bedrock-invoke/text-haiku",
    "cohere-v2": "cohere/text",
    "ollama": "ollama/text-llama3",
}
#: The families' second wires.
OTHER_WIRES = {
    "STUDIO_OPENAI_WIRE": "openai_chat",
    "STUDIO_AZURE_WIRE": "openai_chat",
    "STUDIO_DEEPSEEK_WIRE": "openai_responses",
    "STUDIO_OPENROUTER_WIRE": "openai_responses",
    "STUDIO_XAI_WIRE": "openai_responses",
    "STUDIO_OLLAMA_WIRE": "openai_chat",
    "STUDIO_BEDROCK_WIRE": "bedrock_invoke",
}
_BASES = {"gemini": "/v1beta", "vertex": "", "bedrock": "", "cohere": "", "ollama": ""}
KEY = "sk-test-not-real"


def cases() -> list[str]:
    """Every recording; skips loudly where they are not (fails on CI)."""
    if find_shared() is None:
        shared_path("recordings")
    return list(recordings())


def played(name: str) -> Played:
    """How ``folder/case`` is played."""
    if name in _CASES:
        return _CASES[name]
    entry = recordings()[name]
    family, other, model = _FAMILIES[name.split("/")[0], entry["wire"]]
    return Played(f"{family}/{model or entry['expected']['models'][0]}", other)


def conversations() -> dict[str, list[str]]:
    """The recorded conversations of more than one turn: name → its cases in order."""
    found: dict[str, list[tuple[int, str]]] = {}
    for name in cases():
        entry = recordings()[name]
        if entry.get("conversation"):
            found.setdefault(entry["conversation"], []).append((entry["turn"], name))
    return {key: [name for _, name in sorted(turns)] for key, turns in found.items() if len(turns) > 1}


def environ(base: str) -> dict[str, str]:
    """The environment in which every family's address is ``base`` and every credential is there."""
    families = {played(name).model.split("/")[0] for name in cases()}
    found: dict[str, str] = {
        "STUDIO_IDLE_S": "0.5",
        "AWS_ACCESS_KEY_ID": "AKIATESTNOTREAL",
        "AWS_SECRET_ACCESS_KEY": KEY,
        "AWS_REGION": "us-east-1",
        "VERTEX_ACCESS_TOKEN": KEY,
        "VERTEX_PROJECT": "test-project",
        "VERTEX_LOCATION": "us-central1",
    }
    for family in sorted(families):
        prefix = "STUDIO_" + family.upper().replace("-", "_").replace(".", "_")
        found[f"{prefix}_API_BASE"] = base + _BASES.get(family, "/v1")
        if family not in ("bedrock", "vertex"):
            found[f"{prefix}_API_KEY"] = KEY
    return found


def workflow(names: Iterable[str], model: str) -> Json:
    """One agent with the recordings' tools, each answering a fixed result."""
    declared: dict[str, Json | None] = {}
    for name in names:
        entry = recordings()[name]
        for tool in entry.get("request_tools") or []:
            declared.setdefault(tool["name"], tool.get("parameters"))
        for call in entry["expected"].get("tool_calls") or []:
            declared.setdefault(call["name"], None)
    tools = [
        {
            "name": name,
            "description": f"{name} of the recording",
            "parameters": parameters if (parameters or {}).get("type") == "object" else {"type": "object"},
            "result": "done",
        }
        for name, parameters in declared.items()
    ]
    return {
        "name": "recorded",
        "blocks": [
            {"id": "start", "type": "start"},
            {"id": "agent_1", "type": "agent", "config": {"model": model, "tools": tools, "retries": 0}},
        ],
        "edges": [{"source": "start", "target": "agent_1"}],
    }
