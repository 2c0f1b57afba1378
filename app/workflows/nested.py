"""Agents inside the config of another block: participants, voters, moderators, the steps of a sequence.

Law of this room: an agent is checked by the same rules wherever it stands. Which fields hold agents is said by the
fields themselves (metadata ``agents``), so that a plugin's composite is checked like one of ours.
"""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Collection, Iterator, Mapping

from app.errors import Problem
from app.schemas.paths import Segment, join
from app.workflows import mcp_entries
from app.workflows.agent_rules import agent_problems
from plugins.spec.mcp import McpServers

#: What only an agent block can have: it keeps a thread, and only a block is part of one.
_OF_BLOCKS = ("memory", "capture")


@dataclasses.dataclass(frozen=True, slots=True)
class NestedAgent:
    """One agent. ``path``: keys and indexes that lead to it inside the block's config.

    :ivar kind: the dataclass of its config. :ivar config: as in the document, or an instance of ``kind``.
    :ivar names: what its templates see beside the usual names.
    """

    path: tuple[Segment, ...]
    kind: type
    config: t.Any
    names: tuple[str, ...]


def agents(kind: type, config: t.Any) -> Iterator[NestedAgent]:
    """The agents inside a config, in document order; what is no agent at all is left to the schema.

    :param kind: the dataclass of the block's config. :param config: as in the document, or an instance of it.
    """
    hints: Mapping[str, t.Any] | None = None
    for entry in dataclasses.fields(kind):
        if "agents" not in entry.metadata:
            continue
        hints = hints or t.get_type_hints(kind)
        inner, names = _agent_type(hints[entry.name]), tuple(entry.metadata["agents"])
        value = config.get(entry.name) if isinstance(config, Mapping) else getattr(config, entry.name)
        if isinstance(value, (list, tuple)):
            for index, item in enumerate(value):
                if isinstance(item, (Mapping, inner)):
                    yield NestedAgent((entry.name, index), inner, item, names)
        elif isinstance(value, (Mapping, inner)):
            yield NestedAgent((entry.name,), inner, value, names)


def problems(
    config: Mapping[str, t.Any],
    path: str,
    tool_names: Collection[str],
    servers: McpServers = mcp_entries.NO_SERVERS,
    detectors: Collection[str] | None = None,
) -> list[Problem]:
    """Everything wrong with a nested agent's config beyond the types of its fields.

    :param config: as in the document. :param tool_names: the registered tools. :param servers: the MCP servers.
    :param detectors: names of the detectors of personal data; None: not judged.
    """
    found = [
        Problem(join(path, key), f"{key} belongs to an agent block; leave it out here")
        for key in _OF_BLOCKS
        if config.get(key) not in (None, False, "none", {}, {"type": "none"})
    ]
    own = {key: value for key, value in config.items() if key not in _OF_BLOCKS}
    return found + agent_problems(own, path, tool_names, servers, detectors)


def _agent_type(hint: t.Any) -> type:
    """The dataclass in ``Sequence[X]`` or ``X | None``."""
    return t.cast(type, next((arg for arg in t.get_args(hint) if dataclasses.is_dataclass(arg)), hint))
