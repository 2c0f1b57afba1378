"""What can be set on an agent block (contract section 2).

Law of this room: one frozen dataclass; its schema, form, OpenAPI part and reference page derive from
the fields' metadata, and code reads ``config.model``, never ``config["model"]``.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field


def _doc(text: str, default: t.Any = None, **extra: t.Any) -> t.Any:
    metadata = {"doc": text, **extra}
    if callable(default):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, eq=False)
class AgentConfig:
    """Settings of one agent. Compared by identity, so that what is prepared from it can be kept beside it."""

    model: str = field(metadata={"doc": 'The model, as "<family>/<model>".'})
    system: str | None = _doc("System prompt.", template=True)
    prompt: str | None = _doc(
        "User prompt. Default: the input's `message`, or the whole input as JSON when it has none.",
        template=True,
    )
    thinking: str | int | None = _doc(
        "none, minimal, low, medium, high, xhigh, max, auto, or a token budget. Default: the vendor's own."
    )
    tools: list[t.Any] = _doc(
        "Registered names, inline HTTP tools, inline tools with a fixed `result`, or MCP servers: `{mcp: NAME}`. "
        "Objects take `approval: never | always | ask_once`.",
        list,
    )
    tool_choice: str = _doc(
        "auto, none, required, or a tool's name. One that demands a call holds until a tool ran, or a person turned a "
        "call down; then the model is free.",
        "auto",
    )
    response_format: dict[str, t.Any] | None = _doc("JSON Schema the answer has to follow.")
    memory: dict[str, t.Any] | str | None = _doc(
        "What it is told of its thread: `{type: none | conversation | sliding_window | sliding_window_tokens, limit, "
        "key}`, or `none` or `conversation` alone. Default: none.",
        template=True,
        advanced=True,
    )
    redact: dict[str, t.Any] | None = _doc(
        "Personal data is masked in what it says and is shown of its tools: `{mode: strict | live, detectors, mask, "
        "applies}`; see [Redaction](../redaction.md). Default: none.",
        advanced=True,
    )
    temperature: float | None = _doc("Sampling temperature.", advanced=True)
    top_p: float | None = _doc("Nucleus sampling.", advanced=True)
    max_tokens: int | None = _doc(
        "Most tokens of one model answer. Default: the vendor's own; 4096 where the vendor demands a number (Claude, "
        "wherever it is served), and the tokens of the thinking budget on top.",
        advanced=True,
    )
    stop: list[str] = _doc("Stop sequences.", list, advanced=True)
    seed: int | None = _doc("Sampling seed, where the vendor takes one.", advanced=True)
    parallel_tool_calls: bool | None = _doc(
        "Whether the model may ask for several tools at once.", advanced=True
    )
    idle_s: float | None = _doc(
        "Longest silence of the model in seconds. Default: STUDIO_IDLE_S.", advanced=True
    )
    call_timeout_s: float | None = _doc(
        "Longest time of one model call in seconds, its answer included. Default: STUDIO_MODEL_CALL_S.",
        advanced=True,
    )
    fallbacks: list[str] = _doc(
        "Models that are asked, in this order, when the one before failed for good. The run stays with the one "
        "that answered.",
        list,
        advanced=True,
    )
    files: t.Any = _doc(
        "Files for the model: a list of `{url | data | text, media_type?, name?}` (`data`: base64 or a data: URL), "
        "or a template that gives one. Default: the input's `files`, when the prompt is the input's `message` or "
        "reads it; `[]` for none.",
        template=True,
    )
    prompt_cache: bool | None = _doc(
        "Mark the prompt for the vendor's cache, where the vendor wants marks and bills them. Default: true for an "
        "agent with tools, whose prompt is sent again after each round of calls.",
        advanced=True,
    )
    capture: bool = _doc(
        "Keep the thread: its next message enters here, until the agent calls its built-in tool `release`, a router "
        "has chosen, or `POST /api/threads/<id>/release` lets go.",
        False,
        advanced=True,
    )
    max_batches: int | None = _doc(
        "Tool batches before the answer has to be written. Default: STUDIO_MAX_TOOL_BATCHES.", advanced=True
    )
    cut_call_retries: int = _doc(
        "How often the model is told that the output limit cut its call, before the run fails.",
        0,
        advanced=True,
    )
    retries: int | None = _doc(
        "How often a failed model call is repeated while nothing of it was shown. Default: STUDIO_MODEL_RETRIES.",
        advanced=True,
    )
