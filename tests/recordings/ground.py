"""What a recording's ground truth comes to in Studio's own terms: finish reason, token counts, error code.

Law of this room: nothing here imports the program. The mapping is that of ``docs/normalised.md``, worked out again
from ``index.json`` alone, so that agreement between the two means something.
"""

from __future__ import annotations

import typing as t

Json = dict[str, t.Any]

#: Vendor labels of answers without calls (``docs/normalised.md``).
FINISH = {
    "stop": "stop",
    "end_turn": "stop",
    "STOP": "stop",
    "COMPLETE": "stop",
    "completed": "stop",
    "length": "length",
    "max_tokens": "length",
    "incomplete:max_output_tokens": "length",
    "guardrail_intervened": "content_filter",
    None: "stop",
}

#: Cases that end in an error, and the code it maps to (contract section 11).
CODES = {
    "errors/anthropic-context-400": "context_length_exceeded",
    "errors/anthropic-auth-401": "provider_auth",
    "errors/azure-rate-429": "provider_rate_limited",
    "errors/cohere-context-400": "context_length_exceeded",
    "errors/deepseek-context-400": "context_length_exceeded",
    "errors/gemini-quota-429": "provider_rate_limited",
    "errors/mistral-key-401": "provider_auth",
    "errors/ollama-context-400": "context_length_exceeded",
    "errors/openai-context-400": "context_length_exceeded",
    "errors/openrouter-rate-429": "provider_rate_limited",
    "errors/perplexity-context-400": "context_length_exceeded",
    "errors/xai-key-400": "provider_auth",
    "gemini/prompt-blocked": "content_filtered",
    "groq/mid-stream-error-1": "provider_bad_request",
    "openai-responses/error-quota": "provider_rate_limited",
    "openrouter/stream-error": "context_length_exceeded",
}


def finish(entry: Json) -> str:
    """The ``finishReason`` of an answer without calls."""
    if entry["expected"].get("refusal"):
        return "refusal"
    return FINISH[entry["expected"]["finish"]]


def tokens(entry: Json) -> dict[str, int] | None:
    """``{input, output, total, cacheRead?, cacheWrite?, reasoning?}`` as the vendor stated them; None for nothing."""
    usage = entry["expected"]["usage"]
    return _WIRES[entry["wire"]](usage) if usage else None


def added(parts: list[dict[str, int]]) -> dict[str, int]:
    """The sum of several calls' counts; one that only some state counts as zero in the others."""
    names = {name for part in parts for name in part}
    return {name: sum(part.get(name, 0) for part in parts) for name in names}


def _counts(
    given: int,
    made: int,
    total: int | None = None,
    *,
    read: int | None = None,
    write: int | None = None,
    thought: int | None = None,
) -> dict[str, int]:
    found = {"input": given, "output": made, "total": given + made if total is None else total}
    for name, value in (("cacheRead", read), ("cacheWrite", write), ("reasoning", thought)):
        if value is not None:
            found[name] = value
    return found


def _chat(usage: Json) -> dict[str, int]:
    prompt, made = usage["prompt_tokens"], usage["completion_tokens"]
    details = usage.get("prompt_tokens_details") or {}
    thought = (usage.get("completion_tokens_details") or {}).get("reasoning_tokens")
    total = usage["total_tokens"]
    if thought and total == prompt + made + thought:  # xAI counts thinking beside the completion
        made += thought
    read = details.get("cached_tokens", usage.get("prompt_cache_hit_tokens", usage.get("cached_tokens")))
    write = details.get("cache_write_tokens")
    return _counts(prompt, made, total, read=read, write=write, thought=thought)


def _responses(usage: Json) -> dict[str, int]:
    details = usage.get("input_tokens_details") or {}
    thought = (usage.get("output_tokens_details") or {}).get("reasoning_tokens")
    return _counts(
        usage["input_tokens"],
        usage["output_tokens"],
        usage["total_tokens"],
        read=details.get("cached_tokens"),
        write=details.get("cache_write_tokens"),
        thought=thought,
    )


def _anthropic(usage: Json) -> dict[str, int]:
    read, write = usage.get("cache_read_input_tokens"), usage.get("cache_creation_input_tokens")
    given = usage["input_tokens"] + (read or 0) + (write or 0)
    return _counts(given, usage["output_tokens"], read=read, write=write)


def _gemini(usage: Json) -> dict[str, int]:
    thought = usage.get("thoughtsTokenCount")
    given = usage["promptTokenCount"] + usage.get("toolUsePromptTokenCount", 0)
    made = usage.get("candidatesTokenCount", 0) + (thought or 0)
    read = usage.get("cachedContentTokenCount")
    return _counts(given, made, usage["totalTokenCount"], read=read, thought=thought)


def _converse(usage: Json) -> dict[str, int]:
    read, write = usage.get("cacheReadInputTokens"), usage.get("cacheWriteInputTokens")
    given = usage["inputTokens"] + (read or 0) + (write or 0)
    return _counts(given, usage["outputTokens"], usage["totalTokens"], read=read, write=write)


def _cohere(usage: Json) -> dict[str, int]:
    counts = usage["tokens"]
    return _counts(
        counts["input_tokens"],
        counts["output_tokens"],
        read=usage.get("cached_tokens"),
        thought=counts.get("reasoning_tokens"),
    )


def _ollama(usage: Json) -> dict[str, int]:
    return _counts(usage["prompt_eval_count"], usage["eval_count"])


_WIRES: dict[str, t.Callable[[Json], dict[str, int]]] = {
    "openai-chat": _chat,
    "openai-responses": _responses,
    "anthropic-messages": _anthropic,
    "bedrock-invoke-anthropic": _anthropic,
    "gemini": _gemini,
    "bedrock-converse": _converse,
    "cohere-v2": _cohere,
    "ollama": _ollama,
}
