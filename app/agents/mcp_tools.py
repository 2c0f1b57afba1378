"""The tools an agent gets of MCP servers: which of them, under which names, and what of a server that is away.

Law of this room: a tool keeps its server's own name unless another of the same agent has it; then each of a server
that has it is prefixed, so that no name depends on an order. Of a tool that two entries have, the stricter approval
holds. A server that cannot be reached takes nothing else with it: the agent does without, and is told.
"""

from __future__ import annotations

import functools
import hashlib
import re
import typing as t
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from app import encoding
from app.agents.approval import with_approval
from app.errors import BlockError, RunError
from app.workflows import mcp_entries
from app.workflows.mcp_entries import MAX_TOOLS, McpEntry
from app.workflows.tool_entries import OPEN_OBJECT
from plugins.spec import BlockContext, Tool, ToolContext, ToolFailed
from providers.spec import Waits

_LONGEST = 64
_ODD = re.compile(r"[^A-Za-z0-9_-]")
#: A server and its own name of a tool.
_Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class McpTools:
    """:ivar tools: under the names the model sees. :ivar missing: a sentence for each server that is away."""

    tools: tuple[Tool, ...]
    missing: tuple[str, ...] = ()


class Listed(t.NamedTuple):
    """One entry with the tools of its server; they are stand-ins where ``away`` says why it is away.

    :ivar server: which it is, as the document says it; servers of one host may have one title.
    """

    server: str
    title: str
    tools: tuple[Tool, ...]
    away: str = ""


def listed(context: BlockContext, entries: Sequence[t.Any]) -> tuple[Listed, ...]:
    """What the servers of an agent's entries have, all asked at once; entries of other kinds are passed over.

    :raises BlockError: ``mcp_unavailable``, ``mcp_tool_unknown``. :raises RunError: ``template_failed``.
    """
    wanted = [mcp_entries.entry(raw) for raw in entries if mcp_entries.is_mcp(raw)]
    if len(wanted) < 2:
        return tuple(_of(context, entry, context.waits) for entry in wanted)
    found: dict[int, Listed | RunError] = {}

    def ask(place: int, waits: Waits) -> None:
        try:
            found[place] = _of(context, wanted[place], waits)
        except RunError as error:  # told below: the first entry's, not that of the fastest server
            found[place] = error

    context.gather([functools.partial(ask, place) for place in range(len(wanted))])
    return tuple(_sound(found[place]) for place in range(len(wanted)))


def _sound(found: Listed | RunError) -> Listed:
    if isinstance(found, RunError):
        raise found
    return found


def named(found: Sequence[Listed], taken: Collection[str]) -> McpTools:
    """The tools under the names the model sees.

    :param taken: names of the agent's other tools, which they keep.
    :raises BlockError: ``mcp_too_many_tools``.
    """
    once: dict[_Key, Tool] = {}
    titles: dict[_Key, str] = {}
    each = [(one, tool) for one in found for tool in one.tools]
    for one, tool in reversed(each):
        key = (one.server, tool.name)
        later = once.pop(key, tool)
        once[key] = with_approval(tool, later.approval, later.approval_deadline_s)
        titles[key] = one.title
    if len(once) + len(taken) > MAX_TOOLS:
        raise BlockError(
            "mcp_too_many_tools",
            f"An agent may have {MAX_TOOLS} tools, and its MCP servers have {len(once)}; name those it needs in tools.",
        )
    names = _names(titles, taken)
    tools = [
        tool if names[key] == tool.name else replace(tool, name=names[key])
        for key, tool in reversed(once.items())
    ]
    return McpTools(tuple(tools), tuple(dict.fromkeys(one.away for one in found if one.away)))


def _names(titles: Mapping[_Key, str], taken: Collection[str]) -> dict[_Key, str]:
    """The name of each tool: its own, else with its server's title, else with a hash, as far as another has it, too."""
    own = {key: _fitting(key[1]) for key in titles}
    counts = Counter([*taken, *own.values()])
    clashing = {key: _fitting(f"{titles[key]}__{key[1]}") for key in own if counts[own[key]] > 1}
    counts = Counter([*taken, *{**own, **clashing}.values()])
    hashed = {key: _hashed(name, key) for key, name in clashing.items() if counts[name] > 1}
    return {**own, **clashing, **hashed}


def note(missing: Sequence[str]) -> str | None:
    """What an agent is told of servers that are away."""
    if not missing:
        return None
    return (
        "Some of your tools are not available at the moment. Do without them, and say so where they are needed. "
        + " ".join(missing)
    )


def _of(context: BlockContext, entry: McpEntry, waits: Waits) -> Listed:
    title = entry.mcp if isinstance(entry.mcp, str) else mcp_entries.inline(entry.mcp).title
    server = encoding.dumps(entry.mcp).decode()
    try:
        tools = context.mcp(entry.mcp, waits)
        if not {tool.name for tool in tools}.issuperset(entry.tools or ()):  # it may have got some since
            tools = context.mcp(entry.mcp, waits, fresh=True)
    except ToolFailed as failed:
        if entry.required:
            message = f"The MCP server {title} cannot be used; try again, or look into the log of the server."
            raise BlockError("mcp_unavailable", message, detail=str(failed)) from None
        stand_ins = tuple(_stand_in(context, entry, name) for name in entry.tools or ())
        return Listed(server, title, _held(stand_ins, entry, server), str(failed))
    if entry.tools is not None:
        tools = _chosen(title, tools, entry.tools)
    return Listed(server, title, _held(tools, entry, server))


def _held(tools: Sequence[Tool], entry: McpEntry, server: str) -> tuple[Tool, ...]:
    """The tools of a server as an entry wants them."""
    named = (replace(tool, origin=f"{server}\0{tool.name}") for tool in tools)
    return tuple(with_approval(tool, entry.approval, entry.approval_deadline_s) for tool in named)


def _chosen(title: str, tools: Sequence[Tool], names: Sequence[str]) -> tuple[Tool, ...]:
    by_name = {tool.name: tool for tool in tools}
    for name in names:
        if name not in by_name:
            raise BlockError(
                "mcp_tool_unknown",
                f"The MCP server {title} has no tool {name}; correct the name in tools.",
                detail=f"It has: {', '.join(by_name) or 'none'}.",
            )
    return tuple(by_name[name] for name in names)


def _stand_in(context: BlockContext, entry: McpEntry, name: str) -> Tool:
    """A tool whose server is away: a call tries once more to reach it."""

    def run(arguments: dict[str, t.Any], used: ToolContext) -> t.Any:
        try:
            tools = context.mcp(entry.mcp, used.waits)
        except RunError as error:  # a secret that is gone by now, for instance
            raise ToolFailed(error.message) from None
        for tool in tools:
            if tool.name == name:
                return tool.run(arguments, used)
        raise ToolFailed(f"The server has no tool {name}.")

    description = "Its server could not be reached, so that what it does and takes is not known."
    return Tool(name, description, OPEN_OBJECT, run)


def _fitting(name: str) -> str:
    """``name`` in the letters and the length that all vendors take."""
    made = _ODD.sub("_", name) or "_"
    return made if len(made) <= _LONGEST else _hashed(made, ("", name))


def _hashed(name: str, key: _Key) -> str:
    """``name`` cut to make room for a hash that tells ``key`` apart."""
    return f"{name[: _LONGEST - 9]}_{hashlib.sha256(chr(0).join(key).encode()).hexdigest()[:8]}"
