"""Models and tools.

Law of this room: declarations alone; see :mod:`app.config.settings`.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from app.config import kinds
from app.config.declaring import setting

if t.TYPE_CHECKING:
    from plugins.spec.mcp import McpServer


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """Models and tools."""

    connect_s: float = setting(
        "STUDIO_CONNECT_S", kinds.seconds(0.05), 10.0, "Longest wait for a connection to a provider."
    )
    idle_s: float | None = setting(
        "STUDIO_IDLE_S",
        kinds.seconds(0.05),
        None,
        "Longest silence of a provider inside a stream; then the run fails with provider_idle. Vendors whose models "
        "think in silence have more by default.",
        shown="60, or the family's own",
    )
    model_call_s: float = setting(
        "STUDIO_MODEL_CALL_S",
        kinds.seconds(0.05),
        600.0,
        "Longest time of one model call, from the moment it may begin to the end of its answer; then the run "
        "fails with provider_unavailable. An agent's call_timeout_s goes before it.",
    )
    model_retries: int = setting(
        "STUDIO_MODEL_RETRIES",
        kinds.whole(0, 10),
        2,
        "How often a failed model call is repeated while nothing of it was shown. An agent's retries goes before it.",
    )
    list_models: str = setting(
        "STUDIO_LIST_MODELS",
        kinds.choice("on", "off"),
        "on",
        "Whether servers of models (Ollama, vLLM, gateways) are asked what they have, for the capability table, "
        "which is open to all, and for warnings.",
    )
    max_tool_batches: int = setting(
        "STUDIO_MAX_TOOL_BATCHES",
        kinds.whole(0, 1000),
        20,
        "Rounds of tool calls an agent may make; then it is asked once more, with tools off, for its answer.",
    )
    tool_timeout_s: float = setting(
        "STUDIO_TOOL_TIMEOUT_S", kinds.seconds(0.05), 60.0, "Longest time one tool call may take."
    )
    tool_threads: int = setting(
        "STUDIO_TOOL_THREADS",
        kinds.whole(1, 256),
        8,
        "Threads of a worker for tools that cannot run cooperatively.",
    )
    http_allow: tuple[kinds.Network, ...] = setting(
        "STUDIO_HTTP_ALLOW",
        kinds.NETWORKS,
        (),
        "Private, loopback and link-local networks that HTTP tools may reach.",
        shown="none",
    )
    mcp_servers: Mapping[str, McpServer] | None = setting(
        "STUDIO_MCP_SERVERS",
        kinds.MCP,
        None,
        'File of MCP servers by name, {"mcpServers": {"NAME": {"command": …, "args": […]} or {"url": …}}}.',
        shown="none",
    )
    mcp_inline_commands: str = setting(
        "STUDIO_MCP_INLINE_COMMANDS",
        kinds.choice("on", "off"),
        "off",
        "Whether a document may name the program of an MCP server itself, which the server then runs.",
    )
    mcp_start_s: float = setting(
        "STUDIO_MCP_START_S",
        kinds.seconds(0.05, 600),
        30.0,
        "How long an agent waits for an MCP server to start and to name its tools; without them it goes on.",
    )
    mcp_idle_s: float = setting(
        "STUDIO_MCP_IDLE_S",
        kinds.seconds(0.05),
        300.0,
        "An MCP server that was not used for this long is closed until its next use.",
    )
    langgraph_apps: tuple[tuple[str, str], ...] = setting(
        "STUDIO_LANGGRAPH_APPS",
        kinds.APPS,
        (),
        "Compiled LangGraph graphs that are served as workflows `langgraph:NAME` (needs the extra langgraph).",
        shown="none",
    )
    scripts_dir: Path | None = setting(
        "STUDIO_SCRIPTS_DIR",
        kinds.PATH,
        None,
        "Directory of scripts for the scripted family, NAME.yaml each.",
        shown="none",
    )
