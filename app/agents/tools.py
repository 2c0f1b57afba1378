"""From the tool entries of an agent to tools that run.

Law of this room: a model is told of exactly the tools prepared here, and nothing else can be called.
Prepared once per agent config and kept beside it; with tools of MCP servers, again when those are others.
"""

from __future__ import annotations

import typing as t
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from app import encoding
from app.agents import mcp_tools
from app.agents.approval import with_approval
from app.agents.config import AgentConfig
from app.agents.http_calls import SAFE, decoded, make_call
from app.agents.mcp_tools import Listed
from app.errors import BlockError, RunError
from app.schemas.json_schema import Checker, checker
from app.workflows.agent_rules import RELEASE
from app.workflows.mcp_entries import is_mcp
from app.workflows.tool_entries import OPEN_OBJECT, HttpCall, ToolEntry, entry_of
from plugins.spec import BlockContext, Tool, ToolContext, ToolFailed
from providers.spec import ToolSpec

_PREPARED: weakref.WeakKeyDictionary[AgentConfig, ToolSet] = weakref.WeakKeyDictionary()
#: What the MCP servers had, and the set made of it.
_WITH_MCP: weakref.WeakKeyDictionary[AgentConfig, tuple[tuple[Listed, ...], ToolSet]]
_WITH_MCP = weakref.WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class ToolSet:
    """The tools of one agent: what runs, what the model is told, and what checks the arguments.

    :ivar missing: a sentence for each MCP server that could not be reached.
    :ivar held: names of those whose calls a person has to allow.
    :ivar repeatable: names of those that may run again when it is not known how they ended.
    """

    tools: Mapping[str, Tool]
    specs: tuple[ToolSpec, ...]
    checkers: Mapping[str, Checker]
    missing: tuple[str, ...] = ()
    held: frozenset[str] = frozenset()
    repeatable: frozenset[str] = frozenset()

    def problem(self, name: str, arguments: Mapping[str, t.Any]) -> str | None:
        """What is wrong with the arguments, naming the paths; None when they fit the schema."""
        found = self.checkers[name].problems(arguments)
        if not found:
            return None
        listed = "; ".join(f"{path or 'arguments'}: {message}" for path, message in found[:5])
        return f"Invalid arguments. {listed}. Nothing was run."


def prepare(config: AgentConfig, context: BlockContext) -> ToolSet:
    """The tool set of an agent that begins to run.

    :raises BlockError: what its MCP servers have is not what the config asks for; see ``app.agents.mcp_tools``.
    """
    known = _PREPARED.get(config)
    if known is None:
        built_in = (_RELEASE,) if config.capture else ()
        known = _PREPARED[config] = _set_of([*_own(config.tools, context), *built_in])
    if not any(map(is_mcp, config.tools)):
        return known
    found = mcp_tools.listed(context, config.tools)
    last = _WITH_MCP.get(config)
    if last is not None and last[0] == found:
        return last[1]
    made = _with_mcp(known, found)
    if not made.missing:  # what stands in for a server that is away belongs to this run
        _WITH_MCP[config] = (found, made)
    return made


def check_choice(config: AgentConfig, tools: ToolSet) -> None:
    """See that a tool the agent has to call is there: only MCP servers know theirs.

    :raises BlockError: ``mcp_tool_unknown``, or ``mcp_unavailable`` when a server is away.
    """
    choice = config.tool_choice
    if choice in ("auto", "none") or choice in tools.tools or (choice == "required" and tools.tools):
        return
    if tools.missing:
        message = "An MCP server whose tools the agent has to call cannot be used; try again."
        raise BlockError("mcp_unavailable", message, detail=" ".join(tools.missing))
    raise BlockError(
        "mcp_tool_unknown",
        f"tool_choice is {choice}, which none of the agent's MCP servers has; name one of their tools.",
        detail=f"The agent has: {', '.join(tools.tools) or 'none'}.",
    )


def tool_set(entry: t.Any, context: BlockContext) -> ToolSet:
    """The one tool behind an entry of a compiled workflow, or none.

    :raises BlockError: see :func:`prepare`.
    """
    if is_mcp(entry):
        return _with_mcp(_set_of(()), mcp_tools.listed(context, [entry]))
    return _set_of(_own([entry], context))


def _own(entries: t.Sequence[t.Any], context: BlockContext) -> list[Tool]:
    """The tools that are known without asking an MCP server."""
    allow = context.settings.http_allow
    found = (_tool(entry_of(raw), context.tool, allow) for raw in entries if not is_mcp(raw))
    return [tool for tool in found if tool is not None]


def _with_mcp(known: ToolSet, found: t.Sequence[Listed]) -> ToolSet:
    named = mcp_tools.named(found, known.tools)
    return _set_of((*known.tools.values(), *named.tools), named.missing)


def _set_of(tools: t.Sequence[Tool], missing: tuple[str, ...] = ()) -> ToolSet:
    return ToolSet(
        {tool.name: tool for tool in tools},
        tuple(ToolSpec(tool.name, tool.description, tool.parameters) for tool in tools),
        {tool.name: checker(tool.parameters) for tool in tools},
        missing,
        frozenset(tool.name for tool in tools if tool.approval != "never"),
        frozenset(tool.name for tool in tools if tool.idempotent),
    )


def _tool(
    entry: ToolEntry, registered: Callable[[str], Tool | None], allow: t.Sequence[t.Any]
) -> Tool | None:
    if entry.kind == "registered":
        found = registered(entry.name)
        return None if found is None else with_approval(found, entry.approval, entry.approval_deadline_s)
    run = _fixed(entry.result) if entry.http is None else _http(entry.http, allow)
    made = Tool(
        entry.name,
        entry.description,
        entry.parameters,
        run,
        idempotent=entry.http is None or entry.http.method in SAFE,
        origin=encoding.dumps((entry.kind, entry.parameters, entry.http, entry.result)).decode(),
    )
    return with_approval(made, entry.approval, entry.approval_deadline_s)


def _fixed(result: t.Any) -> Callable[[dict[str, t.Any], ToolContext], t.Any]:
    return lambda arguments, context: result


_RELEASE = Tool(
    RELEASE,
    "Let go of this conversation: from the user's next message on, it is no longer yours alone to answer. Call it "
    "when what the user came to you for is done, or is not for you; then say so.",
    OPEN_OBJECT,
    _fixed("Released."),
    idempotent=True,
)


def _http(call: HttpCall, allow: t.Sequence[t.Any]) -> Callable[[dict[str, t.Any], ToolContext], t.Any]:
    """A tool that makes one HTTP request; its strings are templates that also see ``args``."""

    def run(arguments: dict[str, t.Any], context: ToolContext) -> t.Any:
        seen = {**context.variables, "args": arguments}
        try:
            answer = make_call(
                call,
                seen,
                secrets=context.secrets,
                timeout_s=min(call.timeout_s, context.timeout_s),
                waits=context.waits,
                allow=allow,
            )
        except RunError as error:  # a template over what the model sent, or a secret that is gone by now
            raise ToolFailed(error.message) from None
        if answer.status >= 400:
            raise ToolFailed(f"HTTP status {answer.status}: {answer.text[:2000]}")
        return decoded(answer.text)

    return run
