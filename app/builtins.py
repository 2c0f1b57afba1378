"""What Studio ships, as an ordinary plugin: the same hooks as anybody's, no privileged path.

Law of this room: only lists. A part that cannot be imported is reported like that of any plugin and
takes nothing else with it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from app.config import ConfigError, SettingProblem, Settings
from app.errors import Problem
from plugins.hookspecs import hookimpl
from plugins.manager import create_manager
from plugins.registry import Registry
from plugins.spec import BlockType, Detector, ProviderFamily, Tool
from plugins.spec.mcp import McpServer, McpServers

#: Modules of ``plugins/families`` whose ``FAMILY`` needs nothing of the settings, by name.
FAMILIES = (
    "alibaba",
    "anthropic",
    "azure",
    "bedrock",
    "cerebras",
    "cloudflare",
    "cohere",
    "databricks",
    "deepseek",
    "fireworks",
    "gemini",
    "github",
    "groq",
    "huggingface",
    "litellm",
    "llama_cpp",
    "lmstudio",
    "minimax",
    "mistral",
    "moonshot",
    "nvidia",
    "ollama",
    "openai",
    "openai_compatible",
    "openrouter",
    "perplexity",
    "sambanova",
    "snowflake",
    "together",
    "vertex",
    "vllm",
    "watsonx",
    "xai",
    "zai",
)


class Builtins:
    """The built-in plugin of one app.

    :param settings: where the scripts and the run-time files of the local model are.
    :param version: of Studio, for the plugin report.
    """

    plugin_name = "studio"

    def __init__(self, settings: Settings, version: str = "") -> None:
        self.plugin_version = version
        self._scripts_dir = settings.scripts_dir
        self._runtime_dir = settings.data_dir / "run"

    @hookimpl
    def provider_families(self) -> Iterator[ProviderFamily | Exception]:
        """Every module of :data:`FAMILIES`, then ``scripted`` and ``local``; for one that fails, what it raised."""
        for name in (*FAMILIES, "scripted", "local"):
            try:
                yield self._family(name)
            except Exception as error:
                yield ImportError(f'family "{name}" is left out: {type(error).__name__}: {error}')

    @hookimpl
    def block_types(self) -> Iterable[BlockType]:
        """Every block type, as the reference lists them."""
        from app.blocks.agent import AGENT
        from app.blocks.approval import APPROVAL
        from app.blocks.condition import CONDITION
        from app.blocks.debate import DEBATE
        from app.blocks.guardrail import GUARDRAIL
        from app.blocks.http import HTTP
        from app.blocks.loop import LOOP
        from app.blocks.parallel import PARALLEL
        from app.blocks.response import RESPONSE
        from app.blocks.retrieve import RETRIEVE
        from app.blocks.router import ROUTER
        from app.blocks.sequential import SEQUENTIAL
        from app.blocks.set import SET
        from app.blocks.start import START
        from app.blocks.tool import TOOL
        from app.blocks.vote import VOTE
        from app.blocks.workflow import WORKFLOW

        return [
            *(START, AGENT, CONDITION, ROUTER, LOOP, PARALLEL, SEQUENTIAL, DEBATE, VOTE),
            *(GUARDRAIL, APPROVAL, RETRIEVE, TOOL, HTTP, WORKFLOW, SET, RESPONSE),
        ]

    @hookimpl
    def tools(self) -> Iterable[Tool]:
        """``clock``, ``calculator``."""
        from plugins.tools import TOOLS

        return TOOLS

    @hookimpl
    def pii_detectors(self) -> Iterable[Detector]:
        """``email``, ``phone``, ``card``, ``iban``, ``cpf``, ``cnpj``, ``us-ssn``, ``ip``."""
        from plugins.detectors import DETECTORS

        return DETECTORS

    def _family(self, name: str) -> ProviderFamily:
        module = importlib.import_module(f"plugins.families.{name}")
        make: dict[str, Callable[[], ProviderFamily]] = {
            "scripted": lambda: module.family(self._scripts_folder),
            "local": lambda: module.family(self._runtime_dir),
        }
        found: ProviderFamily = make[name]() if name in make else module.FAMILY
        return found

    def _scripts_folder(self) -> Path | None:
        return self._scripts_dir


def plugins(settings: Settings, version: str = "") -> tuple[object, ...]:
    """The plugins every app has, for :func:`plugins.manager.create_manager`, and what the settings ask for.

    :raises ConfigError: a graph of another library cannot be served.
    """
    own = Builtins(settings, version)
    return (own, _graphs(settings)) if settings.langgraph_apps else (own,)


def _graphs(settings: Settings) -> object:
    from plugins.langgraph_app import AppProblem, Plugin

    try:
        return Plugin(settings.langgraph_apps)
    except AppProblem as problem:
        target = dict(settings.langgraph_apps)[problem.app]
        told = SettingProblem("STUDIO_LANGGRAPH_APPS", f"{problem.app}={target}", str(problem))
        raise ConfigError([told]) from problem


def registry(settings: Settings, version: str) -> Registry:
    """What the built-in and the installed plugins offer.

    :param version: of Studio, for the plugin report.
    """
    own = plugins(settings, version)
    return Registry(create_manager(builtins=own, load_s=settings.plugin_load_s), mcp_servers(settings))


def mcp_servers(settings: Settings) -> McpServers:
    """The MCP servers documents may use.

    :raises ConfigError: a template of one cannot be used.
    """
    named = settings.mcp_servers or {}
    if problems := [problem for name, server in named.items() for problem in _templates(name, server)]:
        told = "; ".join(f"{problem.path}: {problem.message}" for problem in problems)
        raise ConfigError([SettingProblem("STUDIO_MCP_SERVERS", "(its templates)", told)])
    return McpServers(named, settings.mcp_inline_commands == "on")


def _templates(name: str, server: McpServer) -> list[Problem]:
    from app.workflows.tool_entries import template_problems  # not before a server is named

    fields = {"env": server.env, "headers": server.headers}
    return template_problems(fields, name, secret_safe=True)


def own_variables() -> frozenset[str]:
    """Address and key of every built-in family: the variables that are known without loading any."""
    return frozenset(
        f"STUDIO_{name.upper()}_{setting}"
        for name in (*FAMILIES, "scripted", "local")
        for setting in ("API_BASE", "API_KEY")
    )
