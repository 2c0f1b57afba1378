"""What an MCP server is, as far as documents and their checks are concerned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class McpServer:
    """Where a server is: a program that speaks on its standard input and output, or an address.

    :ivar title: how messages call it; what clashing tool names are prefixed with.
    :ivar env: what the program's environment has beside the few variables that every one gets.
    :ivar trusted: named by the operator, so its address may be anywhere.
    """

    title: str
    command: str | None = None
    args: tuple[str, ...] = field(default=(), repr=False)  # any of these may hold a secret
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = None
    url: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    trusted: bool = False


@dataclass(frozen=True, slots=True)
class McpServers:
    """What documents may use.

    :ivar named: by the operator's name. :ivar inline_commands: whether a document may bring a program itself.
    """

    named: Mapping[str, McpServer] = field(default_factory=dict)
    inline_commands: bool = False
