"""Which secrets a document uses, and where.

Law of this room: all that a run needs is known before it begins. What is looked at here is what templates may use
secrets in; that they are used nowhere else, validation has seen to.
"""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Iterator, Mapping

from app.schemas.paths import Segment, join
from app.workflows import nested
from app.workflows.secret_use import names_of
from app.workflows.template_syntax import strings_in
from plugins.spec.mcp import McpServers

#: Where entries of an agent's tools may use secrets, by key.
_IN_TOOLS = {"http": ("headers",), "mcp": ("headers", "env")}


def used(
    kind: type, config: Mapping[str, t.Any], path: tuple[Segment, ...], servers: McpServers
) -> Iterator[tuple[str, str]]:
    """(JSON path, name) of every secret that a block uses, and that the operator's MCP servers it names do.

    :param kind: the dataclass of its config. :param config: as in the document.
    """
    for entry in dataclasses.fields(kind):
        key = entry.metadata.get("key", entry.name)
        if entry.metadata.get("secret_safe"):
            yield from _at(config.get(key), (*path, key))
    tools = config.get("tools")
    for index, entry in enumerate(tools if isinstance(tools, list) else ()):
        yield from _of_tool(entry, (*path, "tools", index), servers)
    yield from _of_tool(config.get("tool"), (*path, "tool"), servers)
    for agent in nested.agents(kind, config):
        yield from used(agent.kind, agent.config, (*path, *agent.path), servers)


def _of_tool(entry: t.Any, path: tuple[Segment, ...], servers: McpServers) -> Iterator[tuple[str, str]]:
    if not isinstance(entry, Mapping):
        return
    if isinstance(entry.get("mcp"), str) and (server := servers.named.get(entry["mcp"])) is not None:
        names = {name for given in (server.env, server.headers) for _, name in _at(given, ())}
        yield from ((join("", *path, "mcp"), name) for name in sorted(names))
    for kind, keys in _IN_TOOLS.items():
        inner = entry.get(kind)
        if isinstance(inner, Mapping):
            for key in keys:
                yield from _at(inner.get(key), (*path, kind, key))


def _at(value: t.Any, path: tuple[Segment, ...]) -> Iterator[tuple[str, str]]:
    for keys, source in strings_in(value):
        for name in sorted(names_of(source)):
            yield join("", *path, *keys), name
