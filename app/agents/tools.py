"""From the tool entries of an agent to tools that run.

Law of this room: a model is told of exactly the tools prepared here, and nothing else can be called.
Prepared once per agent config and kept beside it.
"""

from __future__ import annotations

import typing as t
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from app.agents.config import AgentConfig
from app.agents.http_calls import decoded, make_call
from app.errors import BlockError
from app.schemas.json_schema import Checker, checker
from app.workflows.agent_rules import RELEASE
from app.workflows.tool_entries import OPEN_OBJECT, HttpCall, ToolEntry, entry_of
from plugins.spec import Tool, ToolContext, ToolFailed
from plugins.spec.tools import Approval
from providers.spec import ToolSpec

#: From the mildest on.
_STRICTNESS: t.Sequence[Approval] = ("never", "ask_once", "always")
_PREPARED: weakref.WeakKeyDictionary[AgentConfig, ToolSet] = weakref.WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class ToolSet:
    """The tools of one agent: what runs, what the model is told, and what checks the arguments."""

    tools: Mapping[str, Tool]
    specs: tuple[ToolSpec, ...]
    checkers: Mapping[str, Checker]

    @property
    def held(self) -> frozenset[str]:
        """Names of those whose calls a person has to allow."""
        return frozenset(tool.name for tool in self.tools.values() if tool.approval != "never")

    def problem(self, name: str, arguments: Mapping[str, t.Any]) -> str | None:
        """What is wrong with the arguments, naming the paths; None when they fit the schema."""
        found = self.checkers[name].problems(arguments)
        if not found:
            return None
        listed = "; ".join(f"{path or 'arguments'}: {message}" for path, message in found[:5])
        return f"Invalid arguments. {listed}. Nothing was run."


def prepare(
    config: AgentConfig, registered: Callable[[str], Tool | None], allow: t.Sequence[t.Any]
) -> ToolSet:
    """The tool set of ``config``.

    :param registered: finds a registered tool by name.
    :param allow: networks HTTP tools may reach among private ones (``STUDIO_HTTP_ALLOW``).
    """
    known = _PREPARED.get(config)
    if known is None:
        known = _PREPARED[config] = tool_set(
            config.tools, registered, allow, (_RELEASE,) if config.capture else ()
        )
    return known


def tool_set(
    entries: t.Sequence[t.Any],
    registered: Callable[[str], Tool | None],
    allow: t.Sequence[t.Any],
    built_in: t.Sequence[Tool] = (),
) -> ToolSet:
    """The tools behind entries of a compiled workflow; see :func:`prepare`.

    :param built_in: further ones, after them.
    """
    found = (_tool(entry_of(raw), registered, allow) for raw in entries)
    tools = [*(tool for tool in found if tool is not None), *built_in]
    return ToolSet(
        {tool.name: tool for tool in tools},
        tuple(ToolSpec(tool.name, tool.description, tool.parameters) for tool in tools),
        {tool.name: checker(tool.parameters) for tool in tools},
    )


def _tool(
    entry: ToolEntry, registered: Callable[[str], Tool | None], allow: t.Sequence[t.Any]
) -> Tool | None:
    if entry.kind == "registered":
        found = registered(entry.name)
        return None if found is None else with_approval(found, entry.approval)
    fixed = entry.kind == "result"
    run = _fixed(entry.result) if entry.http is None else _http(entry.http, allow)
    return Tool(
        entry.name, entry.description, entry.parameters, run, idempotent=fixed, approval=entry.approval
    )


def with_approval(tool: Tool, asked: Approval) -> Tool:
    """The tool with the stricter of its own approval and the entry's."""
    stricter = max(tool.approval, asked, key=_STRICTNESS.index)
    return tool if stricter == tool.approval else replace(tool, approval=stricter)


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
        except BlockError as error:  # a secret that was there when the run was accepted
            raise ToolFailed(error.message) from None
        if answer.status >= 400:
            raise ToolFailed(f"HTTP status {answer.status}: {answer.text[:2000]}")
        return decoded(answer.text)

    return run
