"""What an agent's config must fulfil beyond the types of its fields.

Law of this room: rules work on the raw config, so that one wrong field does not hide what is wrong with
the others. Facts of vendors are not known here; they come through the block type's own ``check``.
"""

from __future__ import annotations

import typing as t
from collections.abc import Collection, Mapping, Sequence

from app.errors import Problem
from app.redaction.loading import load_policy
from app.schemas.json_schema import check_schema
from app.schemas.paths import did_you_mean, join, shown
from app.workflows import mcp_entries
from app.workflows.file_entries import file_problems
from app.workflows.memory_config import memory_problems
from app.workflows.tool_entries import entry_problems
from plugins.spec.mcp import McpServers

THINKING_LEVELS = ("none", "minimal", "low", "medium", "high", "xhigh", "max", "auto")
TOOL_CHOICES = ("auto", "none", "required")
MAX_TOOLS = 128
#: The built-in tool of an agent with ``capture``.
RELEASE = "release"
MAX_FALLBACKS = 8
#: Fields of every agent's output (contract section 2).
AGENT_OUTPUTS = ("content", "model", "finishReason", "tokens", "toolCalls", "providerTiming", "cost")
#: Lowest and highest value of a number, both included; the vendor may allow less.
_RANGES: Mapping[str, tuple[float, float]] = {
    "temperature": (0, 2),
    "top_p": (0, 1),
    "max_tokens": (1, 10_000_000),
    "retries": (0, 10),
    "idle_s": (0.001, 604_800),
    "call_timeout_s": (0.001, 604_800),
    "max_batches": (0, 1_000),
    "cut_call_retries": (0, 10),
}


def agent_problems(
    config: Mapping[str, t.Any],
    path: str,
    tool_names: Collection[str],
    servers: McpServers = mcp_entries.NO_SERVERS,
    detectors: Collection[str] | None = None,
) -> list[Problem]:
    """Everything wrong with an agent's config, by the rules of contract section 2.

    :param config: as in the document.
    :param tool_names: the registered tools. :param servers: the MCP servers.
    :param detectors: names of the detectors of personal data; None: not judged.
    """
    problems = _thinking(config.get("thinking"), join(path, "thinking"))
    names, tools = _tools(config.get("tools"), join(path, "tools"), tool_names, servers)
    problems += tools
    if config.get("capture") is True:
        if RELEASE in names:
            message = (
                "is the name of the tool by which an agent with capture lets go; call yours something else"
            )
            problems.append(Problem(join(path, "tools", names.index(RELEASE)), message))
        names = [*names, RELEASE]
    problems += _tool_choice(config.get("tool_choice"), join(path, "tool_choice"), names, config.get("tools"))
    problems += _response_format(config.get("response_format"), join(path, "response_format"))
    problems += memory_problems(config.get("memory"), join(path, "memory"))
    problems += _ranges(config, path)
    problems += file_problems(config.get("files"), join(path, "files"))
    problems += _fallbacks(config, join(path, "fallbacks"))
    problems += load_policy(config.get("redact"), join(path, "redact"), detectors)[1]
    return problems


def agent_warnings(config: Mapping[str, t.Any], path: str) -> list[Problem]:
    """What is right about an agent's config and still may surprise."""
    return _shadowed(config.get("response_format"), join(path, "response_format"))


def _shadowed(schema: t.Any, path: str) -> list[Problem]:
    """Fields of a structured answer that an agent's output has a field of its own for."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    names = [name for name in properties if name in AGENT_OUTPUTS] if isinstance(properties, Mapping) else []
    return [
        Problem(
            join(path, "properties", name),
            f"every agent's output has a field {shown(name)} of its own, which stands in its place; "
            "call yours something else, or read it from content",
        )
        for name in names
    ]


def _ranges(config: Mapping[str, t.Any], path: str) -> list[Problem]:
    """Numbers out of range; what is no number at all is told by the type of its field."""
    problems = []
    for key, (low, high) in _RANGES.items():
        value = config.get(key)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and not low <= value <= high:
            problems.append(Problem(join(path, key), f"must be from {low} to {high}, not {shown(value)}"))
    return problems


def _thinking(value: t.Any, path: str) -> list[Problem]:
    if value is None or value in THINKING_LEVELS:
        return []
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return []
    levels = " | ".join(THINKING_LEVELS)
    return [Problem(path, f"must be {levels}, or a token budget above 0, not {shown(value)}")]


def _tools(
    value: t.Any, path: str, tool_names: Collection[str], servers: McpServers
) -> tuple[list[str], list[Problem]]:
    """The declared names and what is wrong with the list."""
    if value is None:
        return [], []
    if not isinstance(value, Sequence) or isinstance(value, str):
        return [], [Problem(path, f"must be a list of tools, not {shown(value)}")]
    problems: list[Problem] = []
    if len(value) > MAX_TOOLS:
        problems.append(Problem(path, f"must have at most {MAX_TOOLS} entries; it has {len(value)}"))
    names: list[str] = []
    for index, raw in enumerate(value[:MAX_TOOLS]):
        where = join(path, index)
        problems += entry_problems(raw, where, tool_names, servers)
        name = raw.get("name") if isinstance(raw, Mapping) else raw
        if not isinstance(name, str) or mcp_entries.is_mcp(raw):
            continue
        if name in names:
            problems.append(Problem(where, f"the tool {shown(name)} is declared twice; names must differ"))
        names.append(name)
    return names, problems


def _tool_choice(value: t.Any, path: str, names: Collection[str], entries: t.Any) -> list[Problem]:
    """A name that only an MCP server can know is looked for when the agent starts."""
    if value is None or (isinstance(value, str) and value in names):
        return []
    if isinstance(value, str) and isinstance(entries, list) and any(map(mcp_entries.is_mcp, entries)):
        return []
    if not isinstance(value, str):
        return [Problem(path, f"must be auto, none, required or the name of a tool, not {shown(value)}")]
    if value == "required" and not names:
        return [Problem(path, "requires a tool call, but the agent has no tools; declare one or use auto")]
    if value in TOOL_CHOICES:
        return []
    near = did_you_mean(value, (*TOOL_CHOICES, *names))
    return [Problem(path, f"names {shown(value)}, which is not among the agent's tools. {near}")]


def _fallbacks(config: Mapping[str, t.Any], path: str) -> list[Problem]:
    """Models named twice: the second time it would fail as the first time. What they are is judged elsewhere."""
    value = config.get("fallbacks")
    if not isinstance(value, Sequence) or isinstance(value, str):
        return []
    problems = []
    if len(value) > MAX_FALLBACKS:
        problems.append(Problem(path, f"must have at most {MAX_FALLBACKS} models; it has {len(value)}"))
    seen = [config.get("model")]
    for index, model in enumerate(value[:MAX_FALLBACKS]):
        if isinstance(model, str) and model in seen:
            problems.append(
                Problem(join(path, index), f"{shown(model)} is asked already; name another model")
            )
        seen.append(model)
    return problems


def _response_format(value: t.Any, path: str) -> list[Problem]:
    if value is None:
        return []
    problem = check_schema(value)
    if problem is None and value.get("type", "object") != "object":
        problem = (
            f"must be of type object, not {shown(value['type'])}; wrap it in an object with one property"
        )
    return [Problem(path, problem)] if problem else []
