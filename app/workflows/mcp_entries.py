"""Tool entries of MCP servers: ``{mcp: NAME, tools?: [...]}``, or with the server written out.

Law of this room: what a document says of a server is judged without asking the server; whether a document may bring a
program of its own is the operator's to say.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from app.errors import Problem
from app.schemas import derive
from app.schemas.paths import did_you_mean, join, shown
from app.workflows.template_syntax import is_template, strings_in
from plugins.spec.mcp import McpServer, McpServers
from plugins.spec.tools import Approval

NO_SERVERS = McpServers()
MAX_TOOLS = 128
#: How long a call may wait for a person.
DEADLINE: Mapping[str, t.Any] = {
    "doc": "Seconds after which a call that nobody has allowed is given up. Default: it waits.",
    "above": 0,
    "high": 31_536_000,
}
_TITLE = re.compile(r"[A-Za-z0-9_-]{1,40}")
_FORMS = "the name of a configured server, {command, args?, env?} or {url, headers?}"


@dataclass(frozen=True, slots=True)
class McpEntry:
    """One entry. ``mcp`` is a name or an :class:`InlineServer` as in the document."""

    mcp: t.Any = field(metadata={"doc": f"The server: {_FORMS}."})
    tools: t.Sequence[str] | None = field(
        default=None, metadata={"doc": "The server's own names of the tools to offer. Default: all it has."}
    )
    required: bool = field(
        default=False,
        metadata={"doc": "Fail the block with `mcp_unavailable` when the server cannot be reached."},
    )
    approval: Approval = "never"
    approval_deadline_s: float | None = field(default=None, metadata=DEADLINE)


@dataclass(frozen=True, slots=True)
class InlineServer:
    """A server written out in a document. Values of ``env`` and ``headers`` are templates."""

    name: str | None = field(
        default=None, metadata={"doc": "How messages call it. Default: made of its address or program."}
    )
    command: str | None = field(default=None, metadata={"doc": "Program to run.", "nonempty": True})
    args: t.Sequence[str] = field(default=(), metadata={"doc": "Its arguments."})
    env: Mapping[str, str] = field(
        default_factory=dict,
        metadata={"doc": "Variables of its environment.", "template": True, "secret_safe": True},
    )
    url: str | None = field(
        default=None, metadata={"doc": "Address of its streamable HTTP endpoint.", "nonempty": True}
    )
    headers: Mapping[str, str] = field(
        default_factory=dict,
        metadata={"doc": "Headers of each request.", "template": True, "secret_safe": True},
    )


def is_mcp(raw: t.Any) -> bool:
    """Whether a tool entry is one of an MCP server."""
    return isinstance(raw, Mapping) and "mcp" in raw


def entry(raw: Mapping[str, t.Any]) -> McpEntry:
    """An entry of a compiled workflow as a value."""
    found, _ = derive.load(McpEntry, raw)
    if found is None:
        raise ValueError("not an entry of a compiled workflow")
    return found


def inline(raw: Mapping[str, t.Any]) -> McpServer:
    """A server written out in a compiled workflow."""
    found, _ = derive.load(InlineServer, raw)
    if found is None:
        raise ValueError("not an entry of a compiled workflow")
    return McpServer(
        found.name or _title(found),
        found.command,
        tuple(found.args),
        found.env,
        None,
        found.url,
        found.headers,
    )


def tool_names(raw: t.Any) -> list[str] | None:
    """The names an entry lists; None when it offers whatever the server has."""
    listed = raw.get("tools")
    if listed is None:
        return None
    return [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []


def entry_problems(raw: Mapping[str, t.Any], path: str, servers: McpServers) -> list[Problem]:
    """Everything that is wrong with one entry, its templates excepted."""
    _, problems = derive.load(McpEntry, raw, path)
    given, where = raw["mcp"], join(path, "mcp")
    if isinstance(given, str):
        problems += _unknown(given, where, servers.named)
    elif isinstance(given, Mapping):
        problems += _server_problems(given, where, servers)
    else:
        problems.append(Problem(where, f"must be {_FORMS}, not {shown(given)}"))
    return problems + _tools_problems(raw.get("tools"), join(path, "tools"))


def _unknown(name: str, path: str, named: Collection[str]) -> list[Problem]:
    if name in named:
        return []
    cure = did_you_mean(name, sorted(named)) or (
        "Name it in a file, and give this command and the server its path in STUDIO_MCP_SERVERS."
    )
    return [Problem(path, f"there is no MCP server {shown(name)}. {cure}")]


def _tools_problems(listed: t.Any, path: str) -> list[Problem]:
    if not isinstance(listed, list):
        return []  # none, or told already
    problems = []
    if not listed or len(listed) > MAX_TOOLS:
        problems.append(Problem(path, f"must name 1 to {MAX_TOOLS} tools; leave it out for all of them"))
    for index, name in enumerate(listed[:MAX_TOOLS]):
        if name in listed[:index]:
            problems.append(Problem(join(path, index), f"names {shown(name)} twice"))
    return problems


def _server_problems(raw: Mapping[str, t.Any], path: str, servers: McpServers) -> list[Problem]:
    found, problems = derive.load(InlineServer, raw, path)
    command, url = raw.get("command"), raw.get("url")
    if (command is None) == (url is None):
        problems.append(Problem(path, "must have command or url, one of them"))
    for key, other in (("args", "command"), ("env", "command"), ("headers", "url")):
        if raw.get(key) and raw.get(other) is None:
            problems.append(Problem(join(path, key), f"belongs to a server with {other}"))
    if command is not None and not servers.inline_commands:
        cure = "name the server in the file STUDIO_MCP_SERVERS, or set STUDIO_MCP_INLINE_COMMANDS=on"
        problems.append(
            Problem(join(path, "command"), f"documents may not bring programs to this server; {cure}")
        )
    if isinstance(url, str) and not url.lower().startswith(("http://", "https://")):
        problems.append(Problem(join(path, "url"), "must begin with http:// or https://"))
    if found is not None and found.name is not None and not _TITLE.fullmatch(found.name):
        problems.append(Problem(join(path, "name"), f"must match {_TITLE.pattern}, not {shown(found.name)}"))
    for key in ("command", "args", "url"):
        for keys, text in strings_in(raw.get(key)):
            if is_template(text):
                problems.append(Problem(join(path, key, *keys), "cannot be a template"))
    return problems


def _title(server: InlineServer) -> str:
    """A name made of the host or of the program."""
    try:
        made = urlsplit(server.url).hostname if server.url else (server.command or "").rpartition("/")[2]
    except ValueError:
        made = None
    return re.sub(r"[^A-Za-z0-9_-]+", "_", made or "")[:40] or "mcp"
