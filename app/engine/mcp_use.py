"""A server as it is used by one block of one run: its templates rendered, its variables filled in.

Law of this room: values of the operator's environment go only where the operator's own file asks for them, literally:
what a template has made is never looked through for ``${NAME}``.
"""

from __future__ import annotations

import os
import re
import typing as t
from collections.abc import Callable, Mapping
from dataclasses import replace

from app.agents.secret_fields import filled
from app.engine.mcp_client import ServerUse
from app.redaction.secrets import known_secrets
from app.workflows import mcp_entries
from app.workflows.template_syntax import is_template
from plugins.spec import ToolFailed
from plugins.spec.mcp import McpServer, McpServers

_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def server_use(
    given: str | Mapping[str, t.Any],
    servers: McpServers,
    variables: Mapping[str, t.Any],
    secrets: Callable[[], Mapping[str, str]],
) -> ServerUse:
    """The server of a tool entry, ready to be used.

    :param given: a configured name, or a server written out.
    :param secrets: asked only when a value names one.
    :raises ToolFailed: it is not configured any more, or a variable it needs is not set.
    :raises RunError: ``template_failed``. :raises BlockError: ``secret_unknown``.
    """
    read: dict[str, str] = {}
    if isinstance(given, str):
        named = servers.named.get(given)
        if named is None:
            raise ToolFailed(f"The MCP server {given} is not configured any more.")
        server = _filled(named, read)
    else:
        server = mcp_entries.inline(given)
    rendered, hidden = _rendered(server, variables, secrets)
    return ServerUse(rendered, hidden.union(known_secrets(read)))


def _rendered(
    server: McpServer, variables: Mapping[str, t.Any], secrets: Callable[[], Mapping[str, str]]
) -> tuple[McpServer, frozenset[str]]:
    """The server with the templates of ``env`` and ``headers`` rendered, and what of them is secret."""
    env = filled(server.env, variables, secrets)
    headers = filled(server.headers, variables, secrets)
    made = [{name: _text(value) for name, value in each.values.items()} for each in (env, headers)]
    return replace(server, env=made[0], headers=made[1]), env.hidden | headers.hidden


def _text(value: t.Any) -> str:
    return "" if value is None else str(value)


def _filled(server: McpServer, read: dict[str, str]) -> McpServer:
    """The server with ``${NAME}`` replaced; what was read of the environment is added to ``read``."""

    def fill(text: str) -> str:
        return (
            text
            if is_template(text)
            else _VARIABLE.sub(lambda found: _value(found, server.title, read), text)
        )

    return replace(
        server,
        command=None if server.command is None else fill(server.command),
        args=tuple(map(fill, server.args)),
        env={name: fill(value) for name, value in server.env.items()},
        cwd=None if server.cwd is None else fill(server.cwd),
        url=None if server.url is None else fill(server.url),
        headers={name: fill(value) for name, value in server.headers.items()},
    )


def _value(found: re.Match[str], title: str, read: dict[str, str]) -> str:
    name, default = found[1], found[2]
    value = os.environ.get(name) or default
    if value is None:
        raise ToolFailed(
            f"The MCP server {title} needs the variable {name}, which is not set on this server."
        )
    read[name] = value
    return value
